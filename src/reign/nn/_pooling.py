"""rho: from a bag to a graph. Every pooling also computes vectors of nodes, for predictions at node and edge level."""

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reign.bags import PerRow, SubgraphBag
from reign.nn._mlp import Activation, Resettable, make_act
from reign.nn._state import Aggregation, State
from reign.nn._terms import TERMS


class Pooling(Resettable):
    """A pooling layer: ``pool(state)`` has one row per graph, ``pool.nodes(state)`` one per node."""

    out_channels: int
    needs: ClassVar[frozenset[str]] = frozenset({"readout"})
    """The sums of its input that the pooling needs (see ``SubgraphConv.needs``)."""

    def nodes(self, state: State) -> Float[Tensor, "nodes channels"]:
        """Node i is the mean of x[h, i] over subgraphs h."""
        return _mean_of(state, "needle")


class MeanPooling(Pooling):
    r"""The mean over the nodes of a subgraph, then over subgraphs: :math:`\frac{1}{m} \sum_k \frac{1}{n} \sum_i x^k_i`.

    Sums can be used in place of means.

    Args:
        channels: number of channels of the values.
        nodes: "mean" or "sum" over the nodes of a subgraph.
        subgraphs: "mean" or "sum" over subgraphs.
    """

    def __init__(self, channels: int, nodes: Aggregation = "mean", subgraphs: Aggregation = "mean") -> None:
        super().__init__()
        self.out_channels = channels
        self.over_nodes, self.over_subgraphs = checked(nodes), checked(subgraphs)

    def forward(self, state: State) -> Float[Tensor, "graphs channels"]:
        """Pool a bag to one row per graph."""
        return subgraphs_to_graphs(state.bag, readout(state, self.over_nodes), self.over_subgraphs)

    def extra_repr(self) -> str:
        """How nodes and subgraphs are pooled."""
        return f"nodes={self.over_nodes}, subgraphs={self.over_subgraphs}"


class DeepSets(Pooling):
    r"""A set network over subgraph readouts (Zaheer et al. 2017).

    Early invariance: :math:`\rho(\frac{1}{m} \sum_k \phi(x_k))`. Late: equivariant layers
    :math:`x_k \leftarrow \sigma(V x_k + W \frac{1}{m} \sum_h x_h)` and a mean at the end.

    Args:
        channels: number of channels of the values.
        hidden: widths of the layers of phi and of rho, or of the equivariant layers.
        invariance: whether subgraphs are averaged "early", between phi and rho, or "late".
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
        self.invariance, self.over_nodes = invariance, checked(nodes)
        widths = [channels, *hidden]
        self.each = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(widths)])
        self.mean = nn.ModuleList(
            [nn.Linear(a, b) for a, b in pairwise([widths[-1], *hidden] if invariance == "early" else widths)]
        )
        self.act = make_act(act)
        self.out_channels = widths[-1]

    def forward(self, state: State) -> Float[Tensor, "graphs channels"]:
        """Pool a bag to one row per graph."""
        x = readout(state, self.over_nodes)
        if self.invariance == "early":
            for phi in self.each:
                x = self.act(phi(x))
            x = subgraphs_to_graphs(state.bag, x, "mean")
            for rho in self.mean:
                x = self.act(rho(x))
            return x
        for each, mean in zip(self.each, self.mean, strict=True):
            of_graph = subgraphs_to_graphs(state.bag, x, "mean")
            x = self.act(each(x) + state.bag.wiring.sub_to_graph.t(mean(of_graph)))
        return subgraphs_to_graphs(state.bag, x, "mean")


class RootPooling(Pooling):
    """Only roots are used: node i is x[i, i], and a graph is the mean or sum of its nodes.

    Args:
        channels: number of channels of the values.
        roots: "mean" or "sum" over the roots.
        unit: whether the vectors of roots are divided by their length first.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"root"})

    def __init__(self, channels: int, roots: Aggregation = "mean", unit: bool = False) -> None:
        super().__init__()
        self.out_channels = channels
        self.over_roots, self.unit = checked(roots), unit

    def forward(self, state: State) -> Float[Tensor, "graphs channels"]:
        """Pool a bag to one row per graph."""
        return subgraphs_to_graphs(state.bag, self._scaled(state.root), self.over_roots)

    def nodes(self, state: State) -> Float[Tensor, "nodes channels"]:
        """Node i is x[i, i]."""
        return self._scaled(state.bag.at_roots(state.root, "a pooling of roots"))

    def _scaled(self, x: Float[Tensor, "rows channels"]) -> Float[Tensor, "rows channels"]:
        return nn.functional.normalize(x, dim=1, eps=1e-12) if self.unit else x


class IGNPooling(Pooling):
    """2-IGN's invariant layer: a linear map of the mean (or sum) of roots, plus a linear map of the mean (or sum) of all other pairs.

    Args:
        channels: number of channels of the values.
        over: "mean" or "sum" over roots, and over the other pairs.
    """

    def __init__(self, channels: int, over: Aggregation = "mean") -> None:
        super().__init__()
        self.out_channels = channels
        self.over = checked(over)
        self.roots, self.others = nn.Linear(channels, channels), nn.Linear(channels, channels, bias=False)

    def forward(self, state: State) -> Float[Tensor, "graphs channels"]:
        """Pool a bag to one row per graph."""
        aggregation: dict[str, Aggregation] = {"roots": self.over, "non_roots": self.over}
        state = State(state.h, state.bag, state.domain, aggregation)
        out: Tensor = self.roots(state.get(TERMS["roots"])) + self.others(state.get(TERMS["non_roots"]))
        return out


def checked(how: Aggregation) -> Aggregation:
    """Return the argument; raise ``ValueError`` unless it is "sum" or "mean"."""
    if how not in ("sum", "mean"):
        raise ValueError(f"pooling is {how!r}, expected 'sum' or 'mean'.")
    return how


def _mean_of(state: State, name: str) -> Float[Tensor, "rows channels"]:
    return state.view(state.domain, {name: "mean"}).get(TERMS[name])


def readout(state: State, how: Aggregation) -> Float[Tensor, "subgraphs channels"]:
    """The sum or mean of the nodes of every subgraph."""
    return state.readout if how == "sum" else _mean_of(state, "readout")


def subgraphs_to_graphs(
    bag: SubgraphBag, x: Float[Tensor, "subgraphs channels"], how: Aggregation
) -> Float[Tensor, "graphs channels"]:
    """The sum or mean over the subgraphs of every graph."""
    total = bag.wiring.sub_to_graph(x)
    if how == "sum":
        return total
    count = bag.keep("subgraphs of graphs", lambda: PerRow(torch.bincount(bag.sub_batch, minlength=bag.num_graphs), "graph"))
    return total / count.values.clamp(min=1)[:, None]
