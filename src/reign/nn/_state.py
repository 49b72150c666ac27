"""The values x[k, i] of a bag at one layer, and the sums of them that were asked for so far."""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Shaped
from torch import Tensor

from reign.bags import Domain, SubgraphBag, Where
from reign.nn._terms import Term

Aggregation = Literal["sum", "mean"]


class State:
    """Values on the pairs of a bag. Sums that several terms need are computed once.

    With domain members on a bag that stores all pairs, values outside subgraphs are set to zero, so every sum is one over
    members; a mean divides by the number of values that really are summed (and is 0 where there are none).

    Args:
        h: the values.
        bag: their bag.
        domain: what sums and means range over.
        aggregation: terms whose sum is to be a mean, as {"needle": "mean"}.
    """

    h: Tensor
    bag: SubgraphBag

    def __init__(
        self, h: Tensor, bag: SubgraphBag, domain: Domain = "all", aggregation: dict[str, Aggregation] | None = None
    ) -> None:
        if domain == "all" and bag.domain == "members":
            raise ValueError(
                "the bag stores members only, but this layer sums over all pairs (domain='all'); make the bag with "
                "domain='all', or the model with domain='members'."
            )
        if h.size(0) != bag.num_pairs:
            raise ValueError(f"h has {h.size(0)} rows, expected one per pair of the bag: {bag.num_pairs}; see bag.lift.")
        self.masked = domain == "members" and bag.domain == "all"
        self.bag, self.domain = bag, domain
        self.h = h * bag.member[:, None] if self.masked else h
        self.aggregation = aggregation or {}
        self._values: dict[tuple[str, Where], Tensor] = {}
        self._sums: dict[str, Tensor] = {}

    def get(self, term: Term, where: Where = "off") -> Tensor:
        """The value of a term, for all pairs or for the roots."""
        key = (term.name, where)
        if key not in self._values:
            if term.node_based:
                self.bag.require_node_based(f"term '{term.name}'")
            value = term.value(self, where)
            if self.aggregation.get(term.name, "sum") == "mean":
                value = value / self._count(term, where).clamp(min=1).to(value.dtype)
            self._values[key] = value
        return self._values[key]

    def sum(self, term: Term, where: Where = "off") -> Tensor:
        """A plain sum, whatever the aggregation of the term is: what other terms are made of."""
        if self.aggregation.get(term.name, "sum") == "sum":
            return self.get(term, where)
        return self._once(f"{term.name} {where}", lambda: term.value(self, where))

    def _count(self, term: Term, where: Where) -> Tensor:
        """How many values a term sums: the term itself, of ones."""
        domain: Domain = "members" if self.masked else self.bag.domain
        inner: dict[str, Aggregation] = (
            {"needle": "mean"} if self.aggregation.get("needle") == "mean" and term.name != "needle" else {}
        )

        def count() -> Tensor:
            ones = torch.ones(self.bag.num_pairs, 1, dtype=torch.float64, device=self.bag.device)
            return State(ones, self.bag, domain, inner).get(term, where)

        return self.bag.keep(("count", term.name, where, domain, bool(inner)), count)

    # -- rows that norms look at -----------------------------------------------------------------------------------

    def norm_rows(self, roots_apart: bool) -> Tensor | None:
        """The rows of pairs that count for a norm: members only, or without the roots if these have their own; None: all."""
        wiring = self.bag.wiring
        if roots_apart:
            return wiring.off_member_rows if self.masked else wiring.off_rows
        return wiring.member_rows if self.masked else None

    # -- sums that several terms share -----------------------------------------------------------------------------

    def _once(self, name: str, compute: Callable[[], Tensor]) -> Tensor:
        if name not in self._sums:
            self._sums[name] = compute()
        return self._sums[name]

    @property
    def root(self) -> Shaped[Tensor, "subgraphs channels"]:
        """x[k, k]."""
        if self.masked and not self.bag.wiring.roots_are_members:
            raise ValueError(self.bag.wiring.rootless())
        return self._once("root", lambda: self.h.index_select(0, self.bag.wiring.root_row))

    @property
    def readout(self) -> Shaped[Tensor, "subgraphs channels"]:
        """sum_j x[k, j]."""
        return self._once("readout", lambda: self.bag.wiring.to_sub(self.h))

    @property
    def needle(self) -> Shaped[Tensor, "nodes channels"]:
        """sum_h x[h, i]."""
        return self._once("needle", lambda: self.bag.wiring.to_node(self.h))

    @property
    def roots(self) -> Shaped[Tensor, "graphs channels"]:
        """sum_j x[j, j]."""
        return self._once("roots", lambda: self.bag.wiring.sub_to_graph(self.root))

    @property
    def total(self) -> Shaped[Tensor, "graphs channels"]:
        """sum_{h, j} x[h, j]."""
        return self._once("total", lambda: self.bag.wiring.sub_to_graph(self.readout))
