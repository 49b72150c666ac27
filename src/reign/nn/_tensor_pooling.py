"""Pooling of tensors: the diagonal separate from the rest, or an equivariant layer from pairs to nodes."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from reign.bags import SubgraphBag
from reign.nn._pooling import Pooling, checked, subgraphs_to_graphs
from reign.nn._state import Aggregation, State
from reign.nn._terms import TERMS, term


class NodePooling(Pooling):
    """A linear map of terms at every root, as in an equivariant layer from pairs to nodes, followed by the sum or mean over nodes.

    Args:
        channels: number of channels of the values.
        terms: names of terms.
        out_channels: number of channels of the result; ``channels`` if not given.
        aggregation: terms that take a mean in place of a sum.
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
        return subgraphs_to_graphs(state.bag, self.nodes(state), self.over_nodes)

    def nodes(self, state: State) -> Float[Tensor, "nodes channels"]:
        """Node i is the sum of the linear maps of its terms."""
        state.bag.require_node_based("a pooling of terms at roots")
        state = state.view(state.domain, self.aggregation)
        return torch.stack([each(state.get(part, "on")) for each, part in zip(self.maps, self.terms, strict=True)]).sum(0)


class DiagonalPooling(Pooling):
    """The maxima (or means) over roots, concatenated with those over all other pairs; zeros if there are none.

    Args:
        channels: number of channels of the values.
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
