"""Models of other authors as they published them, and the weights of all authors' code.

A file is a family: its models, and functions that make one of them from the settings of the authors' code and map its weights.
"""

import reign._pyg  # noqa: F401
from reign.published._gnnak import GNNAKctxPublished, GNNAKPlusPublished, GNNAKPublished
from reign.published._nested import IDGNNPublished, NGNNPublished, NGNNTUPublished
from reign.published._paper import from_authors
from reign.published._sswl import SSWLPublished
from reign.published._tensors import IGN2Published, PPGNNodesPublished, PPGNPublished

__all__ = [
    "GNNAKPlusPublished", "GNNAKPublished", "GNNAKctxPublished", "IDGNNPublished", "IGN2Published", "NGNNPublished",
    "NGNNTUPublished", "PPGNNodesPublished", "PPGNPublished", "SSWLPublished", "from_authors",
]  # fmt: skip
