"""The modules of a model, made from its arguments: encoders, layers, pooling and head; and what is proved about its class."""

import copy
import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

from torch import nn

import reign.policies as policies
from reign._validate import check, check_count, check_probability, did_you_mean
from reign.bags import Domain
from reign.nn._encoders import EncoderSpec, make_encoder
from reign.nn._encodings import Encodings, PairLabels
from reign.nn._inputs import EdgeMask
from reign.nn._mlp import Activation, Resettable
from reign.nn._options import JumpingKnowledge, Residual, TaskLevel
from reign.nn._pooling import Head, MeanPooling, Pooling, VirtualNode
from reign.policies import Policy


class Claims:
    """What the paper, or other literature, proves about a model class."""

    drops_input: ClassVar[bool] = True
    """Whether dropout is also applied before the first layer."""

    needs_node_based: ClassVar[bool] = False
    """Whether the model needs exactly one subgraph per node."""

    takes_policy: ClassVar[bool] = True
    """Whether the user can choose the policy. Baselines that work on the graph itself have a fixed one."""

    wl_bound: ClassVar[str] = "3-WL for terms of the ReIGN(2) table; no construction here for other terms"
    """The Weisfeiler-Leman test that is an upper bound on what the model can tell apart, and the reason. It holds for the policies
    covered by the paper, or for all graphs if the model takes no policy."""

    linear_form: ClassVar[Mapping[str, Any]] = {}
    """The options that select the form of the model covered by the paper's constructions: GraphConv, linear terms, no norm, and sums
    (not means) over all nodes. It is empty if no construction is known."""

    @classmethod
    def for_separation(cls, layers: int) -> dict[str, Any]:
        """The arguments that give the model a depth of ``layers``, and the domain of its linear form, used to compare models on pairs of graphs.

        >>> Claims.for_separation(6)
        {'num_layers': 6}
        """
        return {"num_layers": layers} | {name: value for name, value in cls.linear_form.items() if name == "domain"}


M = TypeVar("M", bound=nn.Module)


class Modules(Resettable):
    """The policy and the modules of a model. ``Model`` documents the arguments, and composes the parts."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        layer: Callable[[int, int], nn.Module] | Sequence[Callable[[int, int], nn.Module]],
        policy: str | Policy = "ego+:3",
        pooling: Callable[[int], Pooling] | None = None,
        node_encoder: EncoderSpec = None,
        dropout: float = 0.0,
        act: Activation = "relu",
        jk: JumpingKnowledge = None,
        residual: Residual = False,
        task_level: TaskLevel = "graph",
        widths: Sequence[int] | None = None,
        labels: Mapping[str, Any] | None = None,
        encodings: Mapping[str, Any] | None = None,
        virtual_node: bool = False,
        head: Mapping[str, Any] | None = None,
        domain: Domain = "all",
    ) -> None:
        super().__init__()
        for name, size in (("in_channels", in_channels), ("hidden_channels", hidden_channels), ("num_layers", num_layers)):
            check_count(name, size)
        valid = out_channels is None or (type(out_channels) is int and out_channels >= 1)
        check("out_channels", out_channels, valid, "a whole number of at least 1, or None")
        check_probability("dropout", dropout)
        check("pooling", pooling, pooling is None or callable(pooling), "a function that makes a pooling for a number of channels")
        check("jk", jk, jk in (None, "last", "cat", "cat+input", "max", "sum"), "None, 'last', 'cat', 'cat+input', 'max' or 'sum'")
        check("task_level", task_level, task_level in ("graph", "node", "edge"), "'graph', 'node' or 'edge'")
        check("residual", residual, residual in (True, False, "identity"), "True, False or 'identity'")
        check("domain", domain, domain in ("all", "members"), "'all' or 'members'")
        makers = [layer] * num_layers if callable(layer) else list(layer)
        widths = [hidden_channels] * len(makers) if widths is None else list(widths) if isinstance(widths, Sequence) else [widths]
        valid = len(widths) == len(makers) and all(type(size) is int and size >= 1 for size in widths)
        check("widths", widths, valid, f"one whole number of at least 1 for each of {len(makers)} layers")
        same = len(set(widths)) == 1
        check(
            "widths", widths, same or not (residual or jk in ("max", "sum")), f"equal widths with residual={residual!r}, jk={jk!r}"
        )
        self.policy = copy.deepcopy(policies.policy(policy))  # sampled policies have a state
        self.in_channels, self.hidden_channels, self.out_channels = in_channels, hidden_channels, out_channels
        self.num_layers, self.jk, self.task_level, self.domain = num_layers, jk, task_level, domain
        self.node_encoder = make_encoder(node_encoder, None, in_channels)
        self.edge_mask = EdgeMask()  # for PyG's explainers
        self._saw_edges = False
        first = self.lifted_channels()
        self.labels = None if labels is None else _made("labels", PairLabels, first, **labels)
        widths = [first if self.labels is None else self.labels.out_channels, *widths]
        self.encodings = None if encodings is None else _made("encodings", partial(Encodings, widths[:-1]), **encodings)
        widths = [widths[0] if self.encodings is None else self.encodings.out_channels, *widths[1:]]
        self.layers = nn.ModuleList([make(a, b) for make, (a, b) in zip(makers, pairwise(widths), strict=True)])
        self.virtual_node = VirtualNode(widths[:-1], bool(residual), dropout, act) if virtual_node else None
        self.residual = _residual(residual, widths[0], widths[1])
        self.dropout = nn.Dropout(dropout)
        channels = {"cat": sum(widths[1:]), "cat+input": sum(widths)}.get(jk or "last", widths[-1])
        self.pooling = (pooling or MeanPooling)(channels)
        if task_level != "graph" and type(self.pooling).nodes is Pooling.nodes:
            self.pooling = MeanPooling(channels)  # the learned pooling of graphs is not used here
        ends = self.pooling.out_channels * (2 if task_level == "edge" else 1)
        given = {"act": act, "dropout": dropout} | dict(head or {})
        self.head = None if out_channels is None else _made("head", Head, ends, out_channels, **given)

    @abstractmethod
    def lifted_channels(self) -> int:
        """The number of channels of values on pairs."""


def _made(name: str, make: Callable[..., M], *sizes: int, **options: Any) -> M:
    """Make a part of a model from the user's options for it."""
    known = [p.name for p in inspect.signature(make).parameters.values() if p.default is not p.empty]
    for key in options:
        if key not in known:
            raise ValueError(f"{name} has no option '{key}'{did_you_mean(key, known)}")
    return make(*sizes, **options)


def _residual(kind: Residual, in_channels: int, out_channels: int) -> nn.Module | None:
    """The map of a layer's input before it is added to the layer's output, or None for no residual connection."""
    if kind is False:
        return None
    return nn.Identity() if kind == "identity" and in_channels == out_channels else nn.Linear(in_channels, out_channels)
