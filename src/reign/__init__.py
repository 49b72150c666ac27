"""reign: subgraph graph neural networks in PyTorch.

A subgraph GNN is (A, X) -> (mu . rho . S . pi)(A, X): a policy pi selects a bag of subgraphs, equivariant layers S update it,
rho pools it, and mu predicts.
"""

from reign import policies, testing, transforms
from reign._version import __version__
from reign.bag import SubgraphBag
from reign.policies import list_policies, policy
from reign.validate import validate

__all__ = [
    "SubgraphBag",
    "__version__",
    "list_policies",
    "policies",
    "policy",
    "testing",
    "transforms",
    "validate",
]
