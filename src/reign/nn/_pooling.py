"""rho, from a bag to a graph; mu, the head that predicts from pooled vectors; and a virtual node, which all pairs of a graph read from and write to.

Every pooling also computes vectors of nodes, for predictions at node and edge level.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from reign._validate import check
from reign.bags import PerRow, SubgraphBag
from reign.nn._mlp import MLP, Activation, BatchNorm, NormRows, Resettable, make_act, make_norm, normalise
from reign.nn._state import Aggregation, State
from reign.nn._terms import TERMS, term


class Pooling(Resettable):
    """A pooling layer: ``pool(state)`` has one row per graph, ``pool.nodes(state)`` one per node.

    Args:
        channels: number of channels of the values.
    """

    out_channels: int
    needs: ClassVar[frozenset[str]] = frozenset({"readout"})
    """The sums of its input that the pooling needs (see ``SubgraphConv.needs``)."""

    def nodes(self, state: State) -> Float[Tensor, "nodes channels"]:
        """Node i is the mean of x[h, i] over subgraphs h."""
        return _mean_of(state, "needle")

    def reach(self, radius: int) -> int | None:
        """The largest hop distance from a node to the roots of the subgraphs that its vector depends on, if subgraphs have this radius.

        None if there is no such bound, or it is not known.
        """
        return radius if type(self).nodes is Pooling.nodes else None


class MeanPooling(Pooling):
    r"""The mean over the nodes of a subgraph, then over subgraphs: :math:`\frac{1}{m} \sum_k \frac{1}{n} \sum_i x^k_i`.

    Sums can be used in place of means.

    Args:
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

    Early invariance: :math:`\rho(\frac{1}{m} \sum_k \phi(x_k))`, with widths of their own for phi and rho. Late: equivariant layers
    :math:`x_k \leftarrow \sigma(V x_k + W \frac{1}{m} \sum_h x_h)` and a mean at the end. With ``subgraphs="sum"`` there is no division
    by the number m of subgraphs, as in the paper's proofs.

    Args:
        hidden: widths of the layers of phi, or of the equivariant layers.
        invariance: whether subgraphs are pooled "early", between phi and rho, or "late".
        nodes: "mean" or "sum" over the nodes of a subgraph.
        act: activation of these layers.
        subgraphs: "mean" or "sum" over subgraphs.
        rho: widths of the layers of rho; those of phi if not given.
    """

    def __init__(
        self,
        channels: int,
        hidden: Sequence[int] = (64,),
        invariance: Literal["early", "late"] = "early",
        nodes: Aggregation = "mean",
        act: Activation = "elu",
        subgraphs: Aggregation = "mean",
        rho: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        if invariance == "late" and rho is not None:
            raise ValueError(f"the widths of rho are {list(rho)}, but rho is part of early invariance; leave them out.")
        if invariance not in ("early", "late"):
            raise ValueError(f"invariance is {invariance!r}, expected 'early' or 'late'.")
        self.invariance, self.over_nodes, self.over_subgraphs = invariance, checked(nodes), checked(subgraphs)
        widths, after = [channels, *hidden], hidden if rho is None else rho
        self.each = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(widths)])
        self.mean = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise([widths[-1], *after] if invariance == "early" else widths)])
        self.act = make_act(act)
        self.out_channels = [*widths, *after][-1]

    def forward(self, state: State) -> Float[Tensor, "graphs channels"]:
        """Pool a bag to one row per graph."""
        x = readout(state, self.over_nodes)
        if self.invariance == "early":
            for phi in self.each:
                x = self.act(phi(x))
            x = subgraphs_to_graphs(state.bag, x, self.over_subgraphs)
            for rho in self.mean:
                x = self.act(rho(x))
            return x
        for each, mean in zip(self.each, self.mean, strict=True):
            of_graph = subgraphs_to_graphs(state.bag, x, self.over_subgraphs)
            x = self.act(each(x) + state.bag.wiring.sub_to_graph.t(mean(of_graph)))
        return subgraphs_to_graphs(state.bag, x, self.over_subgraphs)

    def extra_repr(self) -> str:
        """How nodes and subgraphs are pooled."""
        return f"invariance={self.invariance}, nodes={self.over_nodes}, subgraphs={self.over_subgraphs}"


class RootPooling(Pooling):
    """Only roots are used: node i is x[i, i], and a graph is the mean or sum of its nodes.

    Args:
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
        at_roots = state.bag.at_roots(state.root, "a pooling of roots")
        return self._scaled(at_roots if state.bag.missing is None else state.node_root)

    def reach(self, radius: int) -> int | None:
        """Only its own subgraph matters."""
        return 0

    def _scaled(self, x: Float[Tensor, "rows channels"]) -> Float[Tensor, "rows channels"]:
        return nn.functional.normalize(x, dim=1, eps=1e-12) if self.unit else x


class IGNPooling(Pooling):
    """2-IGN's invariant layer: a linear map of the mean (or sum) of roots, plus a linear map of the mean (or sum) of all other pairs.

    Args:
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
        return bag.wiring.scaled(total, "graph")
    count = bag.cache("subgraphs of graphs", lambda: PerRow(torch.bincount(bag.sub_batch, minlength=bag.num_graphs), "graph"))
    return total / count.values.clamp(min=1)[:, None]


class NodePooling(Pooling):
    """A linear map of terms at every root, as in an equivariant layer from pairs to nodes, followed by the sum or mean over nodes.

    Args:
        terms: names of terms.
        out_channels: number of channels of the result; ``channels`` if not given.
        aggregation: see ``SubgraphConv``.
        nodes: "sum" or "mean" over nodes.
    """

    def __init__(
        self,
        channels: int,
        terms: Sequence[str],
        out_channels: int | None = None,
        aggregation: dict[str, Aggregation] | None = None,
        nodes: Aggregation = "sum",
    ) -> None:
        super().__init__()
        self.out_channels, self.over_nodes, self.aggregation = out_channels or channels, checked(nodes), aggregation or {}
        self.terms = [term(name) for name in terms]
        self.maps = nn.ModuleList([nn.Linear(channels, self.out_channels, bias=place == 0) for place in range(len(terms))])

    def forward(self, state: State) -> Float[Tensor, "graphs channels"]:
        """Pool a bag to one row per graph."""
        return subgraphs_to_graphs(state.bag, self._roots(state), self.over_nodes)

    def nodes(self, state: State) -> Float[Tensor, "nodes channels"]:
        """Node i is the sum of the linear maps of its terms."""
        return state.bag.at_roots(self._roots(state), "a pooling of terms at roots")

    def _roots(self, state: State) -> Float[Tensor, "subgraphs channels"]:
        state.bag.require_roots("a pooling of terms at roots")
        state = state.view(state.domain, self.aggregation)
        return torch.stack([each(state.get(part, "on")) for each, part in zip(self.maps, self.terms, strict=True)]).sum(0)


class DiagonalPooling(Pooling):
    """The maxima (or means) over roots, concatenated with those over all other pairs; zeros if there are none.

    Args:
        over: "max" or "mean".
    """

    def __init__(self, channels: int, over: Literal["max", "mean"] = "max") -> None:
        super().__init__()
        if over not in ("max", "mean"):
            raise ValueError(f"pooling is {over!r}, expected 'max' or 'mean'.")
        self.out_channels, self.over = 2 * channels, over

    def forward(self, state: State) -> Float[Tensor, "graphs channels"]:
        """Pool a bag to one row per graph."""
        state = state.view(state.domain, {"roots": "mean", "non_roots": "mean"})
        if self.over == "mean":
            return torch.cat([state.get(TERMS["roots"]), state.get(TERMS["non_roots"])], dim=1)
        bag = state.bag
        off = bag.wiring.off_mask.values & bag.member if state.masked else bag.wiring.off_mask.values
        others = state.h.masked_fill(~off[:, None], -torch.inf)
        return torch.cat([_largest(state.root, bag.sub_batch, bag), _largest(others, bag.pair_batch, bag)], dim=1)

    def extra_repr(self) -> str:
        """How pairs are pooled."""
        return f"over={self.over}"


def _largest(x: Float[Tensor, "rows channels"], graph: Int[Tensor, "rows"], bag: SubgraphBag) -> Float[Tensor, "graphs channels"]:
    """The maximum of every channel in every graph; 0 if there is no value above minus infinity."""
    lowest = x.new_full((bag.num_graphs, x.size(1)), -torch.inf)
    out = lowest.scatter_reduce(0, graph[:, None].expand_as(x), x, "amax")
    return out.masked_fill(out == -torch.inf, 0)


# -- mu, and the virtual node --------------------------------------------------------------------------------------------------


class Head(Resettable):
    """Linear, norm, activation and dropout for every hidden layer, followed by a linear map.

    Args:
        in_channels: number of channels of the pooled vectors.
        out_channels: number of channels of the prediction.
        act: activation.
        dropout: dropout probability after every hidden layer.
        hidden: numbers of channels of the hidden layers; one layer of ``2 * in_channels`` if not given, a single linear map if empty.
        norm: norm in every hidden layer, "batch_norm", "layer_norm" or None.
        bias: whether hidden layers have biases; the last linear map always has one.
        input_dropout: dropout probability of the pooled vectors.
        log_softmax: whether the predictions are log-probabilities of classes.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        act: Activation = "relu",
        dropout: float = 0.0,
        *,
        hidden: Sequence[int] | None = None,
        norm: str | None = None,
        bias: bool = True,
        input_dropout: float = 0.0,
        log_softmax: bool = False,
    ) -> None:
        super().__init__()
        hidden = [2 * in_channels] if hidden is None else hidden
        valid = isinstance(hidden, list | tuple) and all(type(size) is int and size >= 1 for size in hidden)
        check("head.hidden", hidden, valid, "a list of whole numbers of at least 1")
        widths = [in_channels, *hidden, out_channels]
        self.depth, self.log_softmax = len(widths) - 1, log_softmax
        for place, (a, b) in enumerate(pairwise(widths), 1):
            self.add_module(f"lin{place}", nn.Linear(a, b, bias=bias or place == self.depth))
            if place < self.depth:
                self.add_module(f"norm{place}", make_norm(norm, b))
        self.act = make_act(act)
        self.dropout, self.input_dropout = nn.Dropout(dropout), nn.Dropout(input_dropout)

    def forward(self, x: Float[Tensor, "rows in_channels"], rows: NormRows = None) -> Float[Tensor, "rows out_channels"]:
        """Predict from pooled vectors; the statistics of norms are taken over ``rows`` only."""
        x = self.input_dropout(x)
        for place in range(1, self.depth):
            norm = self.get_submodule(f"norm{place}")
            x = self.dropout(self.act(normalise(norm, self.get_submodule(f"lin{place}")(x), rows)))
        x = self.get_submodule(f"lin{self.depth}")(x)
        return torch.log_softmax(x, dim=1) if self.log_softmax else x


class VirtualNode(Resettable):
    r"""A vector u for every graph. Before each layer :math:`x^k_i \leftarrow x^k_i + u`, and with each layer except the last

    .. math:: u \leftarrow \sigma \big( \mathrm{MLP} ( u + \textstyle\sum_{k, i} x^k_i ) \big),

    where x are the inputs of the layer, and batch norms are in the MLP and after it. The initial u is a learned vector, which starts at 0.

    Args:
        widths: numbers of channels before the first layer and after each layer except the last.
        residual: whether u is added to its update.
        dropout: dropout probability of updates.
        act: activation.
    """

    def __init__(self, widths: Sequence[int], residual: bool, dropout: float, act: Activation) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(1, widths[0]))
        sizes = list(pairwise(widths))
        self.mlps = nn.ModuleList([MLP(a, b, hidden=2 * b, act=act) for a, b in sizes])
        self.norms = nn.ModuleList([BatchNorm(b) for _, b in sizes])
        self.act, self.dropout = make_act(act), nn.Dropout(dropout)
        self.residual = residual

    def reset_own(self) -> None:
        """The first vector is zero again."""
        self.start.zero_()

    def first(self, bag: SubgraphBag) -> Float[Tensor, "graphs channels"]:
        """The vectors before the first layer."""
        return self.start.expand(bag.num_graphs, -1).contiguous()

    def read(self, state: State, u: Float[Tensor, "graphs channels"]) -> State:
        """Add the vector of its graph to every value."""
        wiring = state.bag.wiring
        return State(state.h + wiring.to_sub.t(wiring.sub_to_graph.t(u)), state.bag, state.domain)

    def forward(self, u: Float[Tensor, "graphs channels"], state: State, layer: int) -> Float[Tensor, "graphs out_channels"]:
        """The vectors after a layer, given the inputs of that layer."""
        if layer == len(self.mlps):
            return u
        rows = state.bag.real("graph")
        new = self.mlps[layer](u + state.get(TERMS["total"]), rows)
        new = self.dropout(self.act(normalise(self.norms[layer], new, rows)))
        return u + new if self.residual and u.shape == new.shape else new
