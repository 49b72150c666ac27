"""rho: bag -> graph. Every pooling also has vectors for nodes, which heads at node and edge level use."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from reign.bags import SubgraphBag
from reign.nn._conv import SubgraphConv
from reign.nn._mlp import Activation, make_act
from reign.nn._state import Aggregation, State
from reign.nn._terms import TERMS
from reign.policies import whole


class Pooling(nn.Module):
    """A pooling: ``pool(state)`` is one row per graph, ``pool.nodes(state)`` one per node."""

    out_channels: int

    def nodes(self, state: State) -> Tensor:
        """Node i is the mean of x[h, i] over subgraphs h."""
        return _mean_of(state, "needle")


class MeanPooling(Pooling):
    r"""Nodes of a subgraph, then subgraphs: :math:`\frac{1}{m} \sum_k \frac{1}{n} \sum_i x^k_i`, or sums in place of means.

    Args:
        channels: of the values.
        nodes: "mean" or "sum" over the nodes of a subgraph.
        subgraphs: "mean" or "sum" over subgraphs.
    """

    def __init__(self, channels: int, nodes: Aggregation = "mean", subgraphs: Aggregation = "mean") -> None:
        super().__init__()
        self.out_channels = channels
        self.over_nodes, self.over_subgraphs = _checked(nodes), _checked(subgraphs)

    def forward(self, state: State) -> Tensor:
        """One row per graph."""
        return _subgraphs_to_graphs(state.bag, _readout(state, self.over_nodes), self.over_subgraphs)

    def extra_repr(self) -> str:
        """How."""
        return f"nodes={self.over_nodes}, subgraphs={self.over_subgraphs}"


class DeepSets(Pooling):
    r"""A set network over subgraph readouts (Zaheer et al. 2017).

    Early invariance: :math:`\rho(\frac{1}{m} \sum_k \phi(x_k))`. Late: equivariant layers
    :math:`x_k \leftarrow \sigma(V x_k + W \frac{1}{m} \sum_h x_h)` and a mean at the end.

    Args:
        channels: of the values.
        hidden: widths of the layers of phi and of rho, or of the equivariant layers.
        invariance: "early" or "late".
        nodes: "mean" or "sum" over the nodes of a subgraph.
        act: activation of these layers.
    """

    def __init__(
        self,
        channels: int,
        hidden: Sequence[int] = (64,),
        invariance: Literal["early", "late"] = "early",
        nodes: Aggregation = "mean",
        act: Activation = "elu",
    ) -> None:
        super().__init__()
        if invariance not in ("early", "late"):
            raise ValueError(f"invariance is {invariance!r}, expected 'early' or 'late'.")
        self.invariance, self.over_nodes = invariance, _checked(nodes)
        widths = [channels, *hidden]
        self.each = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(widths)])
        self.mean = nn.ModuleList(
            [nn.Linear(a, b) for a, b in pairwise([widths[-1], *hidden] if invariance == "early" else widths)]
        )
        self.act = make_act(act)
        self.out_channels = widths[-1]

    def forward(self, state: State) -> Tensor:
        """One row per graph."""
        x = _readout(state, self.over_nodes)
        if self.invariance == "early":
            for phi in self.each:
                x = self.act(phi(x))
            x = _subgraphs_to_graphs(state.bag, x, "mean")
            for rho in self.mean:
                x = self.act(rho(x))
            return x
        for each, mean in zip(self.each, self.mean, strict=True):
            of_graph = _subgraphs_to_graphs(state.bag, x, "mean")
            x = self.act(each(x) + state.bag.wiring.sub_to_graph.t(mean(of_graph)))
        return _subgraphs_to_graphs(state.bag, x, "mean")


class RootPooling(Pooling):
    """The roots: nodes are x[i, i], graphs their mean or sum."""

    def __init__(self, channels: int, roots: Aggregation = "mean") -> None:
        super().__init__()
        self.out_channels = channels
        self.over_roots = _checked(roots)

    def forward(self, state: State) -> Tensor:
        """One row per graph."""
        return _subgraphs_to_graphs(state.bag, state.root, self.over_roots)

    def nodes(self, state: State) -> Tensor:
        """Node i is x[i, i]."""
        return state.get(TERMS["node_root"])


class OuterMPNN(Pooling):
    r"""NGNN's: :math:`x_i = \sum_j x^i_j`, then message passing on the graph itself, and a mean or sum over nodes.

    Args:
        channels: of the values.
        num_layers: of the outer network.
        nodes: "mean" or "sum" over the nodes of a subgraph.
        graph: "mean" or "sum" over the nodes of the graph.
        options: of the outer layers, as for ``SubgraphConv``.
    """

    def __init__(
        self, channels: int, num_layers: int = 1, nodes: Aggregation = "sum", graph: Aggregation = "sum", **options: object
    ) -> None:
        super().__init__()
        self.out_channels = channels
        self.over_nodes, self.over_graph = _checked(nodes), _checked(graph)
        layer: Callable[..., SubgraphConv] = SubgraphConv
        self.layers = nn.ModuleList([layer(channels, channels, ["own+local"], **options) for _ in range(num_layers)])

    def forward(self, state: State) -> Tensor:
        """One row per graph."""
        out, bag = self.nodes(state), state.bag
        total = bag.wiring.node_to_graph(out)
        return total if self.over_graph == "sum" else total / bag.graph.sizes.clamp(min=1)[:, None]

    def nodes(self, state: State) -> Tensor:
        """What the outer network makes of the subgraphs' readouts."""
        state.bag.require_node_based("NGNN's outer network")
        x, graph = _readout(state, self.over_nodes), whole(state.bag)
        for layer in self.layers:
            x = layer(x, graph)
        return x


class IGNPooling(Pooling):
    """2-IGN's invariant layer: a linear map of the sum (or mean) of roots, and one of that of all other pairs."""

    def __init__(self, channels: int, over: Aggregation = "mean") -> None:
        super().__init__()
        self.out_channels = channels
        self.over = _checked(over)
        self.roots, self.others = nn.Linear(channels, channels), nn.Linear(channels, channels, bias=False)

    def forward(self, state: State) -> Tensor:
        """One row per graph."""
        aggregation: dict[str, Aggregation] = {"roots": self.over, "non_roots": self.over}
        state = State(state.h, state.bag, state.domain, aggregation)
        out: Tensor = self.roots(state.get(TERMS["roots"])) + self.others(state.get(TERMS["non_roots"]))
        return out


def _checked(how: Aggregation) -> Aggregation:
    if how not in ("sum", "mean"):
        raise ValueError(f"pooling is {how!r}, expected 'sum' or 'mean'.")
    return how


def _mean_of(state: State, name: str) -> Tensor:
    return State(state.h, state.bag, state.domain, {name: "mean"}).get(TERMS[name])


def _readout(state: State, how: Aggregation) -> Tensor:
    return state.readout if how == "sum" else _mean_of(state, "readout")


def _subgraphs_to_graphs(bag: SubgraphBag, x: Tensor, how: Aggregation) -> Tensor:
    total = bag.wiring.sub_to_graph(x)
    if how == "sum":
        return total
    count = torch.bincount(bag.sub_batch, minlength=bag.num_graphs).clamp(min=1)
    return total / count[:, None]
