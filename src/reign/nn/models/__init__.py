"""The models, one file per family. They are imported, and thereby registered, in the order of ``list_models``."""

# ruff: isort: off
from reign.nn.models._sun import SUN, SUNConv
from reign.nn.models._reign2 import REIGN2_OFF, REIGN2_ON, ReIGN2, ReIGN2Conv
from reign.nn.models._ds import DS, DSS, DSConv, DSSConv, ReconstructionGNN
from reign.nn.models._nested import IDGNN, NGNN, IDConv, OuterMPNN
from reign.nn.models._gnnak import AKConv
from reign.nn.models._gnnak import GNNAK, GNNAKctx, GNNAKPlus
from reign.nn.models._sswl import SSWL, SSWLConv
from reign.nn.models._tensors import IGN2, TensorGNN
from reign.nn.models._tensors import PPGN, PPGNBlock, PPGNConv
from reign.nn.models._local_folklore import LocalFolklore, LocalFolkloreConv, ReadoutPooling
from reign.nn.models._tensors import PPGNRRWP, PPGNRootConv, SumPooling
from reign.nn.models._sswl_published import SSWLPublished
from reign.nn.models._nested_published import NGNNPublished, NGNNTUPublished
from reign.nn.models._idgnn_published import IDGNNPublished
from reign.nn.models._ak_kernel import AKKernel
from reign.nn.models._gnnak_published import GNNAKctxPublished, GNNAKPlusPublished, GNNAKPublished
from reign.nn.models._ign2_published import IGN2Published
from reign.nn.models._ppgn_published import PPGNPublished
from reign.nn.models._ppgn_nodes import PPGNNodesConv, PPGNNodesPublished
from reign.nn.models._mpnn import MPNN

# ruff: isort: on
__all__ = [
    "DS",
    "DSS",
    "GNNAK",
    "IDGNN",
    "IGN2",
    "MPNN",
    "NGNN",
    "PPGN",
    "PPGNRRWP",
    "REIGN2_OFF",
    "REIGN2_ON",
    "SSWL",
    "SUN",
    "AKConv",
    "AKKernel",
    "DSConv",
    "DSSConv",
    "GNNAKPlus",
    "GNNAKPlusPublished",
    "GNNAKPublished",
    "GNNAKctx",
    "GNNAKctxPublished",
    "IDConv",
    "IDGNNPublished",
    "IGN2Published",
    "LocalFolklore",
    "LocalFolkloreConv",
    "NGNNPublished",
    "NGNNTUPublished",
    "OuterMPNN",
    "PPGNBlock",
    "PPGNConv",
    "PPGNNodesConv",
    "PPGNNodesPublished",
    "PPGNPublished",
    "PPGNRootConv",
    "ReIGN2",
    "ReIGN2Conv",
    "ReadoutPooling",
    "ReconstructionGNN",
    "SSWLConv",
    "SSWLPublished",
    "SUNConv",
    "SumPooling",
    "TensorGNN",
]
