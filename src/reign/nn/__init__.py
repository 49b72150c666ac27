"""Layers, pooling and models.

A model is made with ``SUN(in_channels, hidden_channels, num_layers, out_channels, policy=..., ...)`` and called like a PyG model:
``model(x, edge_index, edge_attr, batch)``. A layer is made and called with ``SUNConv(64, 64)(h, bag)``.
"""

from importlib import import_module
from typing import Any

import reign._pyg  # noqa: F401
from reign.nn import models
from reign.nn._catalogue import MODELS, ModelSummary, build_model, find_model, list_models, model_summaries
from reign.nn._convs import CONVS, GIN, BaseEncoder, Folklore, GraphConv, make_conv
from reign.nn._describe import Latex, cost, latex_formula, slot_formulas
from reign.nn._encoders import OGB_ATOM, OGB_BOND, EncoderSpec, make_encoder
from reign.nn._encodings import NODE_ENCODINGS, PAIR_ENCODINGS, Encodings, PairLabels, encoded, list_encodings
from reign.nn._export import export_program
from reign.nn._layer import SubgraphConv
from reign.nn._mlp import Activation, BatchNorm, make_act, make_norm, normalise, num_parameters
from reign.nn._model import Model, SubgraphGNN
from reign.nn._options import (
    BaseEncoderOptions,
    CompositionOptions,
    ConvOptions,
    DomainOptions,
    EncoderOptions,
    JumpingKnowledge,
    LayerOptions,
    MemberModelOptions,
    MessageOptions,
    ModelOptions,
    OuterOptions,
    PublishedEdgeOptions,
    PublishedOptions,
    Residual,
    TensorModelOptions,
    TransformOptions,
)
from reign.nn._pooling import (
    DeepSets,
    DiagonalPooling,
    Head,
    IGNPooling,
    MeanPooling,
    NodePooling,
    Pooling,
    RootPooling,
    VirtualNode,
)
from reign.nn._saving import FORMAT, read_format, todays_options
from reign.nn._slots import EncoderSlot, TermSlot
from reign.nn._state import Aggregation, State
from reign.nn._terms import ALIASES, ALONG, FOLKLORE, TERMS, Term, list_terms, term

from reign.nn.models import (  # isort: skip
    DS, DSS, GNNAK, IDGNN, IGN2, MPNN, NGNN, PPGN, PPGNRRWP, REIGN2_OFF, REIGN2_ON, SSWL, SUN, AKCombine, AKConv, AKKernel,
    AKPart, DSConv, DSSConv, GNNAKctx, GNNAKPlus, IDConv, LocalFolklore, LocalFolkloreConv, OuterMPNN, PPGNBlock, PPGNConv,
    PPGNNodesConv, PPGNRootConv, ReadoutPooling, ReconstructionGNN, ReIGN2, ReIGN2Conv, SSWLConv, SumPooling, SUNConv,
    TensorGNN, TupleReIGN2, TupleSUN, graph_tensor, on_diagonal, remarked, tuple_reign2_terms, tuple_sun_terms,
)  # fmt: skip

OF_NODES, OF_PAIRS = NODE_ENCODINGS, PAIR_ENCODINGS  # former names


def __getattr__(name: str) -> Any:
    """A model as its authors published it, or the function that loads their weights."""
    if name in models.PUBLISHED or name == "from_authors":
        return getattr(import_module("reign.published"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ALIASES",
    "ALONG",
    "CONVS",
    "FOLKLORE",
    "FORMAT",
    "GIN",
    "MODELS",
    "NODE_ENCODINGS",
    "OF_NODES",
    "OF_PAIRS",
    "OGB_ATOM",
    "OGB_BOND",
    "PAIR_ENCODINGS",
    "TERMS",
    "Activation",
    "Aggregation",
    "BaseEncoder",
    "BaseEncoderOptions",
    "BatchNorm",
    "CompositionOptions",
    "ConvOptions",
    "DeepSets",
    "DiagonalPooling",
    "DomainOptions",
    "EncoderOptions",
    "EncoderSlot",
    "EncoderSpec",
    "Encodings",
    "Folklore",
    "GraphConv",
    "Head",
    "IGNPooling",
    "JumpingKnowledge",
    "Latex",
    "LayerOptions",
    "MeanPooling",
    "MemberModelOptions",
    "MessageOptions",
    "Model",
    "ModelOptions",
    "ModelSummary",
    "NodePooling",
    "OuterOptions",
    "PairLabels",
    "Pooling",
    "PublishedEdgeOptions",
    "PublishedOptions",
    "Residual",
    "RootPooling",
    "State",
    "SubgraphConv",
    "SubgraphGNN",
    "TensorModelOptions",
    "Term",
    "TermSlot",
    "TransformOptions",
    "VirtualNode",
    "build_model",
    "cost",
    "encoded",
    "export_program",
    "find_model",
    "latex_formula",
    "list_encodings",
    "list_models",
    "list_terms",
    "make_act",
    "make_conv",
    "make_encoder",
    "make_norm",
    "model_summaries",
    "normalise",
    "num_parameters",
    "read_format",
    "slot_formulas",
    "term",
    "todays_options",
]
__all__ += [
    "DS", "DSS", "GNNAK", "IDGNN", "IGN2", "MPNN", "NGNN", "PPGN", "PPGNRRWP", "REIGN2_OFF", "REIGN2_ON", "SSWL", "SUN",
    "AKCombine", "AKConv", "AKKernel", "AKPart", "DSConv", "DSSConv", "GNNAKPlus", "GNNAKPlusPublished", "GNNAKPublished",
    "GNNAKctx", "GNNAKctxPublished", "IDConv", "IDGNNPublished", "IGN2Published", "LocalFolklore", "LocalFolkloreConv",
    "NGNNPublished", "NGNNTUPublished", "OuterMPNN", "PPGNBlock", "PPGNConv", "PPGNNodesConv", "PPGNNodesPublished",
    "PPGNPublished", "PPGNRootConv", "ReIGN2", "ReIGN2Conv", "ReadoutPooling", "ReconstructionGNN", "SSWLConv", "SSWLPublished",
    "SUNConv", "SumPooling", "TensorGNN", "TupleReIGN2", "TupleSUN", "from_authors", "graph_tensor", "on_diagonal", "remarked",
    "tuple_reign2_terms", "tuple_sun_terms",
]  # fmt: skip
