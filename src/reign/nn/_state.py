"""The values x[k, i] of a bag at one layer, and the sums that have been computed so far."""

import copy
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from reign.bags import ALL, Domain, FeaturedWiring, PerRow, SubgraphBag, Where, Wiring, along, check_along, kernel_near
from reign.kernels import Sum
from reign.nn._mlp import NormRows
from reign.nn._terms import SUMS, TERMS, Rows, Scope, Term

Aggregation = Literal["sum", "mean"]
T = TypeVar("T")
SHARED = {(name,) for name in SUMS}  # sums that do not depend on the options of a layer


class State:
    """Values on the pairs of a bag. Sums that several terms share are computed once.

    With ``domain="members"`` on a bag that stores all pairs, values outside subgraphs are set to zero, so that every sum is a sum over
    members. A mean divides by the number of members that are summed, and is 0 if there are none.

    Args:
        h: the values.
        bag: the bag they belong to.
        domain: what sums and means range over.
        aggregation: terms that take a mean in place of a sum, for example {"needle": "mean"}.
        wanted: the sums of the new values that are needed after the layer: "readout", "needle", "root", "near".
    """

    h: Shaped[Tensor, "pairs channels"]
    bag: SubgraphBag
    domain: Domain
    _featured: FeaturedWiring | None = None

    def __init__(
        self,
        h: Shaped[Tensor, "rows channels"],
        bag: SubgraphBag,
        domain: Domain = "all",
        aggregation: dict[str, Aggregation] | None = None,
        wanted: frozenset[str] = frozenset(),
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
        self.h = self.masked_values(h)
        self.aggregation, self.wanted = aggregation or {}, wanted
        self._computed: dict[tuple[str, ...], Tensor] = {}
        self._for_all: dict[tuple[str, ...], Any] = {}
        self._along: dict[str, State] = {}

    def masked_values(self, h: Rows) -> Rows:
        """Values with zeros outside subgraphs, if the domain requires it."""
        return h * self.bag.member[:, None] if self.masked else h

    def view(self, domain: Domain, aggregation: dict[str, Aggregation], wanted: frozenset[str] = frozenset()) -> "State":
        """The same values with the options of another layer; sums that have been computed are kept."""
        new = State.__new__(State)
        new.masked = domain == "members" and self.bag.domain == "all"
        if new.masked != self.masked or (domain == "all" and self.bag.domain == "members"):
            return State(self.h, self.bag, domain, aggregation, wanted)
        new.h, new.bag, new.domain, new.aggregation, new.wanted = self.h, self.bag, domain, aggregation, wanted
        new._computed = {key: value for key, value in self._computed.items() if key in SHARED}
        new._for_all, new._along = self._for_all, {}
        return new

    def with_edges(self, edges: Float[Tensor, "edges channels"]) -> "State":
        """The same values with a vector e for each edge: each sum of x along edges is one of relu(x + e), as in GINE."""
        if self.bag.missing is not None:
            raise ValueError(f"edge_terms=True needs all subgraphs, but policy '{self.bag.policy}' leaves some out.")
        new = self.view(self.domain, self.aggregation)
        new._featured = FeaturedWiring(self.bag, edges, self.masked)
        return new

    @property
    def wiring(self) -> Wiring:
        """The sums of the bag, with edge features if there are some."""
        return self._featured or self.bag.wiring

    def next(self, h: Rows, sums: dict[str, Tensor | None]) -> "State":
        """The next state: new values (already zero outside subgraphs, if the domain requires it) and their sums."""
        new = State.__new__(State)
        new.masked, new.h, new.bag, new.domain, new.aggregation, new.wanted = self.masked, h, self.bag, self.domain, {}, frozenset()
        new._computed, new._for_all, new._along = {}, self._for_all, {}
        new.add(sums)
        return new

    def add(self, sums: dict[str, Tensor | None]) -> None:
        """Add sums that were computed elsewhere."""
        self._computed |= {(name,): value for name, value in sums.items() if value is not None}

    def has(self, names: frozenset[str]) -> bool:
        """Whether these sums have been computed."""
        return all((name,) in self._computed for name in names)

    def once(self, key: tuple[str, ...], compute: Callable[[], Rows]) -> Rows:
        """The value stored under a key, which is computed on first use."""
        if key not in self._computed:
            self._computed[key] = compute()
        return self._computed[key]

    def once_for_all(self, key: tuple[str, ...], compute: Callable[[], T]) -> T:
        """As ``once``, for values that depend on the bag only and are shared by all layers of a model."""
        if key not in self._for_all:
            self._for_all[key] = compute()
        value: T = self._for_all[key]
        return value

    # -- terms -----------------------------------------------------------------------------------------------------

    def get(self, term: Term, where: Where = "off") -> Rows:
        """The value of a term, for all pairs or for the roots."""
        if self.aggregation.get(term.name, "sum") == "sum":
            return self.sum(term, where)
        return self.once(("mean", term.name, where), lambda: self._mean(term, where))

    def sum(self, term: Term, where: Where = "off") -> Rows:
        """The plain sum of a term, regardless of its aggregation. Other terms are built from it."""
        if term.node_based:
            self.bag.require_roots(f"term '{term.name}'", term.name)
        return self.once(("sum", term.name, where), lambda: term.value(self, where))

    def spread(self, term: Term, where: Where = "off") -> Rows:
        """The value of a term, broadcast to every pair (or to every root)."""
        value, wiring = self.get(term, where), self.bag.wiring
        if where == "on" or term.scope == "pair":
            return value
        if term.scope == "node":
            return wiring.to_node.t(value)
        return wiring.to_sub.t(wiring.sub_to_graph.t(value) if term.scope == "graph" else value)

    def along(self, term: Term, place: str, where: Where) -> Rows:
        """The plain sum of a term along a root of each subgraph, or the sum over all roots of it."""
        name = f"term '{term.name}:{place}'"
        if self.bag.node_based:  # the bag is its own slice
            if place not in ("1", ALL):
                check_along(self.bag, place, name)
            slices, state = None, self._slice(place, self.bag, self.h)
        else:
            if where == "on":
                self.bag.root  # noqa: B018  # raises an error: there are several
            slices = along(self.bag, place, name)
            if self._featured is not None:
                raise ValueError(f"{name} has edge features, but terms along one of several roots take none; leave edge_terms out.")
            if term.along is not None and not slices.complete:
                raise ValueError(
                    f"{name} needs a subgraph for each tuple of nodes, which policy '{self.bag.policy}' does not make."
                )
            state = self._slice(place, slices.bag, self.h, slices.pairs)
        value, wiring = state.sum(term, where), state.bag.wiring
        if where == "off" and term.scope in ("node", "graph"):
            value = wiring.to_node.t(value) if term.scope == "node" else wiring.sub_to_graph.t(value)
        if slices is None:
            return value
        return (slices.pairs if term.scope in ("pair", "node") else slices.subs).t(value)

    def _slice(self, place: str, bag: SubgraphBag, h: Rows, pairs: Sum | None = None) -> "State":
        """These values in the slices of the bag. It takes means of the terms of which this state takes means along the same root."""
        if place not in self._along:
            new = copy.copy(self)
            new.bag, new.h, new.wanted = bag, h if pairs is None else pairs(h), frozenset()
            new.aggregation = {
                name.removesuffix(f":{place}"): how for name, how in self.aggregation.items() if name.endswith(f":{place}")
            }
            new._computed, new._for_all, new._along = {}, {}, {}
            self._along[place] = new
        return self._along[place]

    def _mean(self, term: Term, where: Where) -> Rows:
        total = self.sum(term, where)
        key = ("count", term.name, where, self.aggregation.get(term.over or "", "sum"), str(total.dtype))
        return total / self.once_for_all(key, lambda: self._count(term, where).clamp(min=1).to(total.dtype))

    def _count(self, term: Term, where: Where) -> Rows:
        """The number of values that a term sums, computed as the term of ones. It depends on the bag only, so the bag stores it."""
        domain: Domain = "members" if self.masked else self.bag.domain
        inner: dict[str, Aggregation] = {term.over: "mean"} if term.over and self.aggregation.get(term.over) == "mean" else {}
        bag = self.bag.plain

        def count() -> Tensor:
            real = bag.real("pair")
            counted = torch.ones_like(bag.member) if real is None else real
            ones = self.masked_values(counted.to(torch.float64)[:, None])  # the bag of a slice may not know which pairs are masked
            return State(ones, bag, domain, inner).get(term, where)

        rows = "sub" if where == "on" or term.scope == "subgraph" else term.scope
        return bag.cache(("count", term.name, where, domain, bool(inner)), lambda: PerRow(count(), rows)).values

    def product(self, one: Rows, other: Rows) -> Rows:
        """The product of two values in every channel, which folklore terms sum."""
        return one * other

    # -- sums that several terms share -----------------------------------------------------------------------------

    @property
    def root(self) -> Shaped[Tensor, "subgraphs channels"]:
        """x[k, k]."""
        if self.masked and not self.bag.wiring.roots_are_members:
            raise ValueError(self.bag.wiring.rootless())
        return self.once(("root",), lambda: self.h.index_select(0, self.bag.wiring.root_row))

    @property
    def readout(self) -> Shaped[Tensor, "subgraphs channels"]:
        """sum_j x[k, j]."""
        return self.once(("readout",), lambda: self.bag.wiring.to_sub(self.h))

    @property
    def needle(self) -> Shaped[Tensor, "nodes channels"]:
        """sum_h x[h, i]."""
        return self.once(("needle",), lambda: self.bag.wiring.scaled(self.bag.wiring.to_node(self.h), "node"))

    @property
    def near(self) -> Float[Tensor, "near channels"]:
        """The pairs (k, j) with j a neighbour of the root k: where messages to roots come from."""
        return self.once(("near",), lambda: self.h.index_select(0, kernel_near(self.bag)[0].rows))

    @property
    def roots(self) -> Shaped[Tensor, "graphs channels"]:
        """sum_j x[j, j]."""
        return self.once(("roots",), lambda: self.bag.wiring.scaled(self.bag.wiring.sub_to_graph(self.root), "graph"))

    @property
    def total(self) -> Shaped[Tensor, "graphs channels"]:
        """sum_{h, j} x[h, j]."""
        return self.once(("total",), lambda: self.bag.wiring.scaled(self.bag.wiring.sub_to_graph(self.readout), "graph"))

    # -- nodes without a subgraph (see ``reign.policies.Sampled``); in all other bags, nodes and subgraphs have the same numbers --

    @property
    def node_root(self) -> Shaped[Tensor, "nodes channels"]:
        """x[i, i], looked up in the subgraph of every node i."""
        return self.filled(self.bag.to_roots(self.root), None, lambda mean: mean)

    @property
    def node_readout(self) -> Shaped[Tensor, "nodes channels"]:
        """sum_j x[i, j], looked up in the subgraph of every node i."""
        return self.bag.at_roots(self.readout, "a readout of the subgraph of a node")

    @property
    def root_needle(self) -> Shaped[Tensor, "subgraphs channels"]:
        """sum_h x[h, k]."""
        return self.bag.wiring.at_root(self.needle, lambda: self.root)

    @property
    def transpose(self) -> Shaped[Tensor, "pairs channels"]:
        """x[i, k]."""
        bag = self.bag
        return self.filled(bag.wiring.transpose(self.h), bag.node, lambda mean: mean.index_select(0, bag.root[bag.sub]))

    def filled(self, value: Rows, node: Tensor | None, of_mean: Callable[[Rows], Rows]) -> Rows:
        """A value looked up in the subgraphs of nodes (of all nodes if None); with ``missing="mean"``, it is made of the means over h of x[h, j] where
        a node has no subgraph."""
        if self.bag.missing != "mean":
            return value
        gone = (self.bag.sub_of if node is None else self.bag.sub_of[node]) < 0
        means = self.view(self.domain, {"needle": "mean"})
        return torch.where(gone[:, None], of_mean(means.get(TERMS["needle"])), value)

    # -- rows for the statistics of norms --------------------------------------------------------------------------

    def norm_rows(self, scope: Scope, where: Where = "off", roots_apart: bool = False) -> NormRows:
        """The rows that a norm takes its statistics over; None for all.

        For pairs these are the members, without the roots if roots have their own norm. Padding never counts. For a padded bag the result
        is a Boolean mask, because the number of real rows is known only on the device.
        """
        if where == "on" or scope != "pair":
            return self.bag.real("sub" if where == "on" or scope == "subgraph" else scope)
        wiring, real = self.bag.wiring, self.bag.real("pair")
        if real is not None:
            real = real & self.bag.member if self.masked else real
            return real & wiring.off_mask.values if roots_apart else real
        if roots_apart:
            return wiring.off_member_rows if self.masked else wiring.off_rows
        return wiring.member_rows if self.masked else None
