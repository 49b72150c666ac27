"""reign: subgraph graph neural networks in PyTorch.

A subgraph GNN is (A, X) -> (mu . rho . S . pi)(A, X): a policy pi selects a bag of subgraphs, equivariant layers S update it,
rho pools it, and mu predicts.
"""

from reign import data, interop, nn, policies, testing, theory, transforms
from reign._load import load
from reign._version import __version__
from reign.bag import SubgraphBag
from reign.catalogue import build_model, list_models
from reign.policies import list_policies, policy
from reign.terms import list_terms
from reign.theory import card
from reign.validate import validate

__all__ = [
    "SubgraphBag",
    "__version__",
    "build_model",
    "card",
    "data",
    "interop",
    "list_models",
    "list_policies",
    "list_terms",
    "load",
    "nn",
    "policies",
    "policy",
    "testing",
    "theory",
    "transforms",
    "validate",
]
