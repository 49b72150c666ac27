"""The models, one file per family. They are imported, and thereby registered, in the order of ``list_models``.

Those that other authors published are in ``reign.published``, which is imported when one of them is first used.
"""

from importlib import import_module
from typing import Any

from reign.nn._catalogue import MODELS

# ruff: isort: off
from reign.nn.models._sun import SUN, SUNConv
from reign.nn.models._reign2 import REIGN2_OFF, REIGN2_ON, ReIGN2, ReIGN2Conv
from reign.nn.models._ds import DS, DSS, DSConv, DSSConv, ReconstructionGNN
from reign.nn.models._nested import IDGNN, NGNN, IDConv, OuterMPNN
from reign.nn.models._gnnak import GNNAK, AKCombine, AKConv, AKKernel, AKPart, GNNAKctx, GNNAKPlus, remarked
from reign.nn.models._sswl import SSWL, SSWLConv
from reign.nn.models._tuples import TupleReIGN2, TupleSUN, tuple_reign2_terms, tuple_sun_terms
from reign.nn.models._tensors import IGN2, TensorGNN, graph_tensor, on_diagonal
from reign.nn.models._ppgn import PPGN, PPGNRRWP, PPGNBlock, PPGNConv, PPGNNodesConv, PPGNRootConv, SumPooling
from reign.nn.models._local_folklore import LocalFolklore, LocalFolkloreConv, ReadoutPooling

# ruff: isort: on
PUBLISHED = (
    "SSWLPublished",
    "NGNNPublished",
    "NGNNTUPublished",
    "IDGNNPublished",
    "GNNAKPublished",
    "GNNAKctxPublished",
    "GNNAKPlusPublished",
    "IGN2Published",
    "PPGNPublished",
    "PPGNNodesPublished",
)
MODELS.later("reign.published", *map(str.lower, PUBLISHED))
from reign.nn.models._mpnn import MPNN  # noqa: E402  # the baseline is listed last


def __getattr__(name: str) -> Any:
    """A model as its authors published it."""
    if name in PUBLISHED:
        return getattr(import_module("reign.published"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "DS", "DSS", "GNNAK", "IDGNN", "IGN2", "MPNN", "NGNN", "PPGN", "PPGNRRWP", "REIGN2_OFF", "REIGN2_ON", "SSWL", "SUN",
    "AKCombine", "AKConv", "AKKernel", "AKPart", "DSConv", "DSSConv", "GNNAKPlus", "GNNAKPlusPublished", "GNNAKPublished",
    "GNNAKctx", "GNNAKctxPublished", "IDConv", "IDGNNPublished", "IGN2Published", "LocalFolklore", "LocalFolkloreConv",
    "NGNNPublished", "NGNNTUPublished", "OuterMPNN", "PPGNBlock", "PPGNConv", "PPGNNodesConv", "PPGNNodesPublished",
    "PPGNPublished", "PPGNRootConv", "ReIGN2", "ReIGN2Conv", "ReadoutPooling", "ReconstructionGNN", "SSWLConv", "SSWLPublished",
    "SUNConv", "SumPooling", "TensorGNN", "TupleReIGN2", "TupleSUN", "graph_tensor", "on_diagonal", "remarked",
    "tuple_reign2_terms", "tuple_sun_terms",
]  # fmt: skip
