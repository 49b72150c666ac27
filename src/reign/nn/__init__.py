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
from reign.nn._export import OnnxGraph, OnnxModel, export_program
from reign.nn._layer import SubgraphConv
from reign.nn._mlp import Activation, BatchNorm, make_act, make_norm, normalise, num_parameters
from reign.nn._model import Model, SubgraphGNN
from reign.nn._saving import FORMAT, read_format, todays_options
from reign.nn._slots import EncoderSlot, TermSlot
from reign.nn._state import Aggregation, State
from reign.nn._terms import ALIASES, ALONG, FOLKLORE, TERMS, Term, list_terms, term

from reign.nn._options import (  # isort: skip
    BaseEncoderOptions, CompositionOptions, ConvOptions, DomainOptions, EncoderOptions, JumpingKnowledge, LayerOptions,
    MemberModelOptions, MessageOptions, ModelOptions, OuterOptions, PublishedEdgeOptions, PublishedOptions, Residual,
    TensorModelOptions, TransformOptions,
)  # fmt: skip
from reign.nn._pooling import (  # isort: skip
    DeepSets, DiagonalPooling, Head, IGNPooling, MeanPooling, NodePooling, Pooling, RootPooling, VirtualNode,
)  # fmt: skip
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
    "ALIASES", "ALONG", "CONVS", "DS", "DSS", "FOLKLORE", "FORMAT", "GIN", "GNNAK", "IDGNN", "IGN2", "MODELS", "MPNN", "NGNN",
    "NODE_ENCODINGS", "OF_NODES", "OF_PAIRS", "OGB_ATOM", "OGB_BOND", "PAIR_ENCODINGS", "PPGN", "PPGNRRWP", "REIGN2_OFF",
    "REIGN2_ON", "SSWL", "SUN", "TERMS", "AKCombine", "AKConv", "AKKernel", "AKPart", "Activation", "Aggregation",
    "BaseEncoder", "BaseEncoderOptions", "BatchNorm", "CompositionOptions", "ConvOptions", "DSConv", "DSSConv", "DeepSets",
    "DiagonalPooling", "DomainOptions", "EncoderOptions", "EncoderSlot", "EncoderSpec", "Encodings", "Folklore", "GNNAKPlus",
    "GNNAKPlusPublished", "GNNAKPublished", "GNNAKctx", "GNNAKctxPublished", "GraphConv", "Head", "IDConv", "IDGNNPublished",
    "IGN2Published", "IGNPooling", "JumpingKnowledge", "Latex", "LayerOptions", "LocalFolklore", "LocalFolkloreConv",
    "MeanPooling", "MemberModelOptions", "MessageOptions", "Model", "ModelOptions", "ModelSummary", "NGNNPublished",
    "NGNNTUPublished", "NodePooling", "OnnxGraph", "OnnxModel", "OuterMPNN", "OuterOptions", "PPGNBlock", "PPGNConv", "PPGNNodesConv",
    "PPGNNodesPublished", "PPGNPublished", "PPGNRootConv", "PairLabels", "Pooling", "PublishedEdgeOptions", "PublishedOptions",
    "ReIGN2", "ReIGN2Conv", "ReadoutPooling", "ReconstructionGNN", "Residual", "RootPooling", "SSWLConv", "SSWLPublished",
    "SUNConv", "State", "SubgraphConv", "SubgraphGNN", "SumPooling", "TensorGNN", "TensorModelOptions", "Term", "TermSlot",
    "TransformOptions", "TupleReIGN2", "TupleSUN", "VirtualNode", "build_model", "cost", "encoded", "export_program",
    "find_model", "from_authors", "graph_tensor", "latex_formula", "list_encodings", "list_models", "list_terms", "make_act",
    "make_conv", "make_encoder", "make_norm", "model_summaries", "normalise", "num_parameters", "on_diagonal", "read_format",
    "remarked", "slot_formulas", "term", "todays_options", "tuple_reign2_terms", "tuple_sun_terms",
]  # fmt: skip
