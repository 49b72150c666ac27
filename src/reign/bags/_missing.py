r"""Sums of a sampled bag, in which only m of the n nodes of a graph have a subgraph.

A sum over the subgraphs h of a graph is a sum over those in the sample, scaled so that its mean over all samples is the full sum. What lives on
a node or a graph counts every subgraph n / m times. What lives in subgraph k exists only if k is in the sample, and the mean is over the samples with k:
it counts subgraph k once, and every other one (n - 1) / (m - 1) times.

.. math:: \textstyle\sum_h x^h_i \approx \frac{n}{m} \sum_{h \in S} x^h_i, \qquad
          \sum_{h \sim_k i} x^h_i \approx [k \sim_k i]\, x^k_i + \frac{n - 1}{m - 1} \sum_{h \in S,\, h \sim_k i,\, h \neq k} x^h_i

With m = 1 no other subgraph is in the sample, and their part of such a sum is 0. Values that are looked up in a single subgraph, such as x[i, i], are not
scaled. Messages of a convolution of PyG are not scaled either.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from reign.bags._graph import cached
from reign.bags._wiring import Entries, Neighbours, Triples, WeightedSum, WeightedWiring, Where, _targets


@dataclass(frozen=True, eq=False)
class SampledWiring(WeightedWiring):
    """The sums of a bag in which some nodes have no subgraph, and whose edges may have weights."""

    some_rows = True

    def sub_of(self, node: Tensor) -> Tensor:
        """The subgraph of a node, or -1."""
        return self.bag.sub_of[node]

    def root_of(self, sub: Tensor) -> Tensor:
        """The root of a subgraph."""
        return self.bag.root[sub]

    def row(self, sub: Tensor, node: Tensor) -> Tensor:
        """The row of a pair, or -1 if it is not stored or has no subgraph."""
        return torch.where(sub < 0, -1, self.bag.row_within(sub.clamp(min=0), node))

    # -- scales ----------------------------------------------------------------------------------------------------

    @cached
    def share(self) -> Float[Tensor, "graphs"]:
        """n / m for each graph."""
        return self.bag.graph.sizes.double() / self._number.clamp(min=1)

    @cached
    def share_of_others(self) -> Float[Tensor, "graphs"]:
        """(n - 1) / (m - 1) for each graph, and 1 if m is 1."""
        sizes, number = self.bag.graph.sizes.double(), self._number
        return torch.where(number > 1, (sizes - 1) / (number - 1).clamp(min=1), 1.0)

    @cached
    def _number(self) -> Int[Tensor, "graphs"]:
        return torch.bincount(self.bag.sub_batch, minlength=self.bag.num_graphs)

    def scaled(self, total: Shaped[Tensor, "rows channels"], rows: Literal["node", "graph"]) -> Shaped[Tensor, "rows channels"]:
        """n / m times a sum over the subgraphs in the sample."""
        share = self.share if rows == "graph" else self.share[self.bag.graph.batch]
        return total * share.to(total.dtype)[:, None]

    def at_root(
        self, total: Float[Tensor, "nodes channels"], root: Callable[[], Float[Tensor, "subgraphs channels"]]
    ) -> Float[Tensor, "subgraphs channels"]:
        """See ``Wiring.at_root``."""
        share, others = (values[self.bag.sub_batch].to(total.dtype)[:, None] for values in (self.share, self.share_of_others))
        return total[self.bag.root] * (others / share) + root() * (1 - others)

    def over_two(
        self, total: Float[Tensor, "nodes channels"], h: Float[Tensor, "pairs channels"]
    ) -> Float[Tensor, "nodes channels"]:
        """See ``Wiring.over_two``. The given sum has scales for g and for h apart, but g = h is in the sample more often than g and another h."""
        share, others = (values[self.bag.graph.batch].to(h.dtype)[:, None] for values in (self.share, self.share_of_others))
        return total * (others / share) + self.rows("agg", "kj")(h) * (1 - others)

    def factor(self, read: Tensor, target: Tensor, space: str) -> Float[Tensor, "entries"]:
        """See ``WeightedWiring.factor``."""
        if space == "node":
            return self.share[self.bag.graph.batch[target]].double()
        own = target if space == "sub" else self.bag.sub[target]
        return torch.where(read == own, 1.0, self.share_of_others[self.bag.sub_batch[read]])

    # -- sums ------------------------------------------------------------------------------------------------------

    def triples(self, neighbours: Neighbours, where: Where = "off") -> Triples:
        """See ``Wiring.triples``. The edges of a subgraph that is missing are not known."""
        if neighbours == "Ai":
            self.bag.require_node_based("a sum along the edges of subgraph i")
        return super().triples(neighbours, where)

    def roots(self, neighbours: Neighbours, where: Where = "off") -> WeightedSum:
        """See ``Wiring.roots``."""

        def entries() -> Entries:
            t = self.triples(neighbours, where)
            return Entries(self.sub_of(t.j), t.edge, t.target, t.size)

        return self._sum_along(("roots", neighbours, where), entries, ("sub", _targets(neighbours, where)))

    def _rows_of(self, space: str) -> int:
        return self.bag.num_subgraphs if space == "sub" else super()._rows_of(space)
