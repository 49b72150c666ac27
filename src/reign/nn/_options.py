"""The options that layers and models share, each declared and documented once.

A constructor takes them as ``**options: Unpack[...]`` of one of these typed dictionaries (PEP 692), so editors complete every option
and type checkers check it, as if it were in the signature. They are dictionaries and not dataclasses because a saved model stores only
the arguments that its user gave: a dataclass fills in defaults, and cannot tell the two apart. The defaults are those of the
base classes: ``SubgraphConv`` for layers, ``Model`` for models. If a class has another default (for example NGNN's ``domain`` and
``policy``), the option is in its own signature.

The metaclass of models checks which of them a constructor takes, and records which ones it was given.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, get_args, get_origin

from torch import nn

from reign.bags import Domain
from reign.nn._encoders import EncoderSpec
from reign.nn._mlp import Activation
from reign.nn._pooling import Pooling

if TYPE_CHECKING:
    from reign.nn._model import Model

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
        act: activation, by name as in PyG, as a function, or None for the identity.
        norm: norm, "batch_norm", "layer_norm" or None.
    """

    act: Activation
    norm: str | None


class EdgeOptions(TypedDict, total=False):
    """Options of edge features.

    Args:
        edge_dim: number of channels of continuous edge features.
        edge_encoder: encoder of edge features that are integer types; see ``make_encoder``.
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
        node_encoder: encoder of node features, such as integer types; see ``make_encoder``.
        encodings: structure of the graph that is added to x[k, i], for example {"pairs": ["rrwp:21"], "nodes": ["return:20"]}; see ``Encodings``.
        dropout: dropout probability after the encoder, after each layer, and in the head.
        task_level: whether predictions are for graphs, nodes or edges.
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
        residual: whether the input of a layer is added to its output. The input of the first layer goes through a linear map; with
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


M = TypeVar("M", bound="Model")


def full_signature(kind: type) -> Signature:
    """The signature of a constructor with all of its ``**options`` spelled out.

    Options are passed on to the parents' constructors, which have the defaults. ``**options: Unpack[...]`` declares which options a
    class accepts; without this declaration it accepts all options of its parents.
    """
    parameters: dict[str, Parameter] = {}
    declared: Mapping[str, object] | None = None
    constructors = [vars(parent)["__init__"] for parent in kind.__mro__ if "__init__" in vars(parent)]
    for depth, constructor in enumerate(constructors):
        named, rest = _split(constructor)
        if depth > 0:
            named = [p.replace(kind=p.KEYWORD_ONLY) for p in named if declared is None or p.name in declared]
        for p in named:
            parameters.setdefault(p.name, p)
        if rest is None:
            break
        if declared is None and get_origin(rest) is Unpack:
            declared = get_args(rest)[0].__annotations__
    for name in declared or {}:
        parameters.setdefault(name, Parameter(name, Parameter.KEYWORD_ONLY))
    return Signature(list(parameters.values()))


def _split(constructor: Callable[..., None]) -> tuple[list[Parameter], Any]:
    """The named parameters of a constructor without ``self``, and the annotation of its ``**options`` (None if it has none)."""
    _, *parameters = inspect.signature(constructor).parameters.values()
    rest = next((p.annotation for p in parameters if p.kind is p.VAR_KEYWORD), None)
    return [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)], rest


class ModelType(type):
    """The metaclass of models: calling a model class checks the names of the arguments and records their values.

    The arguments are recorded in ``__call__`` and not in ``__new__`` or ``__init__``, because copying and unpickling also call ``__new__``,
    and the constructors of all parents are ``__init__`` calls too.
    """

    def __call__(cls: type[M], *args: Any, **kwargs: Any) -> M:  # type: ignore[misc]
        """Make a model."""
        taken = set(cls.option_names())
        for name, value in kwargs.items():
            if name not in taken and (value is not None or not known_to_parents(cls, name)):
                raise ValueError(cls.refusal(name, value))
        model: M = type.__call__(cls, *args, **{name: value for name, value in kwargs.items() if name in taken})
        model._config = given(cls, args, kwargs)
        return model

    @property
    def __signature__(cls) -> Signature:
        """What ``inspect.signature`` and notebooks show: all options, not the catch-all of ``__call__``."""
        return full_signature(cls)


def known_to_parents(kind: type, name: str) -> bool:
    """Whether a parent of the class takes this argument. If so, passing None to the class itself is the same as leaving it out."""
    return any(name in full_signature(parent).parameters for parent in kind.__mro__[1:] if isinstance(parent, ModelType))


def given(kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, in the order of the signature and then of the call. Tuples become lists, as in JSON."""
    signature = inspect.signature(kind.__init__)  # type: ignore[misc]
    arguments = dict(signature.bind(None, *args, **kwargs).arguments)
    arguments.pop(next(iter(signature.parameters)))
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments |= arguments.pop(name, {})
    return {name: list(value) if isinstance(value, tuple | list) else value for name, value in arguments.items()}
