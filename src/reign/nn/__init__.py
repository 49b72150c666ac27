"""Layers, pooling and models.

A model is ``SUN(in_channels, hidden_channels, num_layers, out_channels, policy=..., ...)`` and is called as PyG's are:
``model(x, edge_index, edge_attr, batch)``. A layer is ``SUNConv(64, 64)(h, bag)``.
"""

from reign.nn.baselines import MPNN, PPGN, PPGNConv
from reign.nn.custom import SubgraphGNN
from reign.nn.engine import SubgraphConv
from reign.nn.esan import DS, DSS, DSConv, DSSConv, ReconstructionGNN
from reign.nn.gnnak import GNNAK, AKConv, GNNAKctx, GNNAKPlus
from reign.nn.nested import IDGNN, NGNN, IDConv
from reign.nn.pooling import DeepSets, IGNPooling, MeanPooling, OuterMPNN, RootPooling
from reign.nn.reign2 import IGN2, ReIGN2, ReIGN2Conv, TensorGNN
from reign.nn.sswl import SSWL, SSWLConv
from reign.nn.sun import SUN, SUNConv

__all__ = [
    "DS",
    "DSS",
    "GNNAK",
    "IDGNN",
    "IGN2",
    "MPNN",
    "NGNN",
    "PPGN",
    "SSWL",
    "SUN",
    "AKConv",
    "DSConv",
    "DSSConv",
    "DeepSets",
    "GNNAKPlus",
    "GNNAKctx",
    "IDConv",
    "IGNPooling",
    "MeanPooling",
    "OuterMPNN",
    "PPGNConv",
    "ReIGN2",
    "ReIGN2Conv",
    "ReconstructionGNN",
    "RootPooling",
    "SSWLConv",
    "SUNConv",
    "SubgraphConv",
    "SubgraphGNN",
    "TensorGNN",
]
