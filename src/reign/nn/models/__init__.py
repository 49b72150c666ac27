"""The models, one file a family."""

from reign.nn.models._baselines import MPNN, PPGN, PPGNConv
from reign.nn.models._esan import DS, DSS, DSConv, DSSConv, ReconstructionGNN
from reign.nn.models._gnnak import GNNAK, AKConv, GNNAKctx, GNNAKPlus
from reign.nn.models._nested import IDGNN, NGNN, IDConv
from reign.nn.models._reign2 import IGN2, REIGN2_OFF, REIGN2_ON, ReIGN2, ReIGN2Conv, TensorGNN
from reign.nn.models._sswl import SSWL, SSWLConv
from reign.nn.models._sun import SUN, SUNConv

__all__ = [
    "DS",
    "DSS",
    "GNNAK",
    "IDGNN",
    "IGN2",
    "MPNN",
    "NGNN",
    "PPGN",
    "REIGN2_OFF",
    "REIGN2_ON",
    "SSWL",
    "SUN",
    "AKConv",
    "DSConv",
    "DSSConv",
    "GNNAKPlus",
    "GNNAKctx",
    "IDConv",
    "PPGNConv",
    "ReIGN2",
    "ReIGN2Conv",
    "ReconstructionGNN",
    "SSWLConv",
    "SUNConv",
    "TensorGNN",
]
