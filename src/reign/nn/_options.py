"""The options that layers and models share, each declared and documented once.

A constructor takes them as ``**options: Unpack[...]`` of one of these typed dictionaries (PEP 692), so editors complete every option
and type checkers check it, as if it stood in the signature. They are dictionaries and not dataclasses because a saved model names the
arguments that its user gave and no others: a dataclass fills in defaults, and cannot tell the two apart. The defaults are those of the
base classes: ``SubgraphConv`` for layers, ``Model`` for models. Where a class has another default (NGNN's ``domain`` and ``policy``,
say) the option stands in its own signature.
"""

from collections.abc import Callable
from typing import Literal, TypedDict

from torch import nn

from reign.bags import Domain
from reign.nn._encoders import EncoderSpec
from reign.nn._mlp import Activation
from reign.nn._pooling import Pooling

TaskLevel = Literal["graph", "node", "edge"]
JumpingKnowledge = Literal["last", "cat", "max", "sum"] | None
Conv = str | Callable[..., nn.Module]


class TransformOptions(TypedDict, total=False):
    """Options of all transforms.

    Args:
        act: activation, by name as in PyG, as a function, or None for the identity.
        norm: norm, "batch_norm", "layer_norm" or None.
    """

    act: Activation
    norm: str | None


class MessageOptions(TypedDict, total=False):
    """Options of message passing.

    Args:
        edge_dim: number of channels of edge features that are numbers.
        edge_encoder: encoder of edge features that are types; see ``make_encoder``.
        expansion: width of the hidden layer of GIN's MLP, as a multiple of its output.
        train_eps: whether GIN's epsilon is learned.
    """

    edge_dim: int | None
    edge_encoder: EncoderSpec
    expansion: int
    train_eps: bool


class BaseEncoderOptions(MessageOptions, TransformOptions, total=False):
    """Options of a base encoder: ``MessageOptions`` and ``TransformOptions``."""


class ConvOptions(MessageOptions, total=False):
    """Which base encoder, and ``MessageOptions``.

    Args:
        conv: base encoder of merged terms: "gin", "gine", "gcn", "graphconv", or any PyG convolution as a class, a function that makes
            one, or its name.
    """

    conv: Conv


class DomainOptions(TypedDict, total=False):
    """What sums range over.

    Args:
        domain: whether sums, means and norms range over "all" pairs, or over "members" of subgraphs only.
    """

    domain: Domain


class CompositionOptions(TypedDict, total=False):
    """Options of what stands around the layers of a model.

    Args:
        pooling: makes the pooling rho for a number of channels; None gives means over nodes and subgraphs. Each model has its own if it
            is not given.
        node_encoder: encoder of node features that are types; see ``make_encoder``.
        dropout: dropout probability after the encoder, after each layer, and in the head.
        jk: jumping knowledge, "cat", "max" or "sum" of all layers; None or "last" takes the last layer.
        residual: whether the input of a layer is added to its output.
        task_level: whether predictions are for graphs, nodes or edges.
    """

    pooling: Callable[[int], Pooling] | None
    node_encoder: EncoderSpec
    dropout: float
    jk: JumpingKnowledge
    residual: bool
    task_level: TaskLevel


class EncoderOptions(ConvOptions, TransformOptions, total=False):
    """Options of layers that have their own default of the domain: ``ConvOptions`` and ``TransformOptions``."""


class LayerOptions(EncoderOptions, DomainOptions, total=False):
    """Options of layers: ``ConvOptions``, ``TransformOptions`` and ``DomainOptions``."""


class MemberModelOptions(EncoderOptions, CompositionOptions, total=False):
    """Options of models that have their own default of the domain: ``EncoderOptions`` and ``CompositionOptions``."""


class ModelOptions(LayerOptions, CompositionOptions, total=False):
    """Options of models: ``LayerOptions`` and ``CompositionOptions``."""


class TensorModelOptions(TransformOptions, DomainOptions, CompositionOptions, total=False):
    """Options of models of tensors, which have no base encoders."""
