"""The options that layers and models share, each declared and documented once.

A constructor takes them as ``**options: Unpack[...]`` of one of these typed dictionaries (PEP 692), so editors complete every option
and type checkers check it, as if it were in the signature. They are dictionaries and not dataclasses because a saved model stores only
the arguments that its user gave: a dataclass fills in defaults, and cannot tell the two apart. The defaults are those of the
base classes: ``SubgraphConv`` for layers, ``Model`` for models. If a class has another default (for example NGNN's ``domain`` and
``policy``), the option is in its own signature.

The metaclass of models checks which of them a constructor takes, and records which ones it was given (``_arguments``).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from torch import nn

from reign.bags import Domain
from reign.nn._encoders import EncoderSpec
from reign.nn._mlp import Activation
from reign.nn._pooling import Pooling

TaskLevel = Literal["graph", "node", "edge"]
JumpingKnowledge = Literal["last", "cat", "cat+input", "max", "sum"] | None
Residual = bool | Literal["identity"]
Roots = Literal["apart", "added"]
NormAt = Literal["terms", "sum", "end"]
RootNorms = Literal["roots", "pairs"]
Bias = bool | Literal["first"]
Conv = str | Callable[..., nn.Module]


class TransformOptions(TypedDict, total=False):
    """Options of all transforms.

    Args:
        act: activation: its name as in PyG, such as "relu", "elu" or "silu", a function, or None for the identity.
        norm: norm, "batch_norm", "layer_norm" or None.
    """

    act: Activation
    norm: str | None


class EdgeOptions(TypedDict, total=False):
    """Options of edge features.

    Args:
        edge_dim: number of channels of continuous edge features.
        edge_encoder: encoder of edge features that are integer types, one for each base encoder: the number of types, a list of numbers with one for each column, "bond"
            (OGB's columns), or a function that makes a module for a number of channels; see ``make_encoder``.
    """

    edge_dim: int | None
    edge_encoder: EncoderSpec


class MessageOptions(EdgeOptions, total=False):
    """Options of message passing, in addition to ``EdgeOptions``.

    Args:
        expansion: width of the hidden layer of GIN's MLP, as a multiple of its output.
        train_eps: whether GIN's epsilon is learned.
    """

    expansion: int
    train_eps: bool


class BaseEncoderOptions(MessageOptions, TransformOptions, total=False):
    """Options of a base encoder: ``MessageOptions`` and ``TransformOptions``.

    Args:
        bias: whether linear maps have biases.
    """

    bias: bool


class ConvOptions(MessageOptions, total=False):
    """The choice of the base encoder, in addition to ``MessageOptions``.

    Args:
        conv: base encoder of merged terms: "gin", "gine", "gcn", "graphconv", or any PyG convolution, given by its name, its class or a
            function that makes it.
    """

    conv: Conv


class DomainOptions(TypedDict, total=False):
    """The option that determines what sums, means and norms range over.

    Args:
        domain: whether sums, means and norms range over "all" pairs or only over "members" of subgraphs.
    """

    domain: Domain


class OuterOptions(TypedDict, total=False):
    """Options of every model outside its layers.

    Args:
        pooling: function that makes the pooling rho for a number of channels; None takes means over nodes and subgraphs. Each model has
            its own default.
        node_encoder: encoder of node features: the number of integer types, a list of numbers with one for each column, "atom" (OGB's columns),
            "one-hot", "atom+12", "numbers:2", a module, or a function that makes one for a number of channels; see ``make_encoder``.
        encodings: structure of the graph that is added to x[k, i], for example {"pairs": ["rrwp:21"], "nodes": ["return:20"]}; see ``Encodings``.
        dropout: dropout probability after the encoder, after each layer, and in the head.
        task_level: what predictions are for: each "graph", each "node", or each pair of nodes ("edge").
    """

    pooling: Callable[[int], Pooling] | None
    node_encoder: EncoderSpec
    encodings: Mapping[str, Any] | None
    dropout: float
    task_level: TaskLevel


class CompositionOptions(OuterOptions, total=False):
    """Options of how layers are combined, in addition to ``OuterOptions``.

    Args:
        jk: jumping knowledge: "cat", "max" or "sum" of all layers, or "cat+input" of the input and all layers; None or "last" takes the last
            layer.
        residual: whether the input of a layer is added to its output. With True the input of the first layer goes through a linear map; with
            "identity" only inputs with another number of channels do.
        widths: numbers of channels of the layers; if not given, all have ``hidden_channels``.
        labels: embedding of the position of a node in a subgraph, for example {"kind": "hop"}; see ``PairLabels``.
        virtual_node: whether every graph has a virtual node, which all pairs read from and write to in every layer; see ``VirtualNode``.
        head: options of the head, for example {"hidden": [64, 32]}; see ``Head``.
    """

    jk: JumpingKnowledge
    residual: Residual
    widths: Sequence[int] | None
    labels: Mapping[str, Any] | None
    virtual_node: bool
    head: Mapping[str, Any] | None


class EncoderOptions(ConvOptions, TransformOptions, total=False):
    """Options of layers that have their own default for the domain: ``ConvOptions`` and ``TransformOptions``."""


class LayerOptions(EncoderOptions, DomainOptions, total=False):
    """Options of layers: ``ConvOptions``, ``TransformOptions`` and ``DomainOptions``."""


class MemberModelOptions(EncoderOptions, CompositionOptions, total=False):
    """Options of models that have their own default for the domain: ``EncoderOptions`` and ``CompositionOptions``."""


class ModelOptions(LayerOptions, CompositionOptions, total=False):
    """Options of models: ``LayerOptions`` and ``CompositionOptions``."""


class TensorModelOptions(TransformOptions, DomainOptions, CompositionOptions, total=False):
    """Options of models of tensors, which have no base encoders."""


class PublishedOptions(TransformOptions, OuterOptions, total=False):
    """Options of models as published: ``TransformOptions`` and ``OuterOptions``."""


class PublishedEdgeOptions(EdgeOptions, PublishedOptions, total=False):
    """Options of models as published that take edge features: ``EdgeOptions`` and ``PublishedOptions``."""
