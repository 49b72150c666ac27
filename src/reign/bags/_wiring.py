"""Which rows are summed into which, for every term. The maps are built once for each bag, on first use.

A local term sums over triples: the pair (k, i) that is updated and a neighbour j of i. The rows it reads are given by two of these
letters: ``local`` reads x[k, j], ``needle@Ak`` reads x[j, i], and so on.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from reign._validate import kind_of
from reign.bags._graph import PerRow, cached
from reign.kernels import Sum

if TYPE_CHECKING:
    from reign.bags._bag import SubgraphBag


Where = Literal["off", "on"]  # update all pairs (roots are overwritten later), or only the roots
Neighbours = Literal["Ak", "Ai", "A", "nodes", "agg", "swap"]
Sources = Literal["all", "roots", "others"]  # who sends messages: all pairs, the roots alone, or all but the roots


T = TypeVar("T")


class Triples(NamedTuple):
    """The pair (k, i) that a local term updates, a neighbour j, the row ``target`` (out of ``size``) that the value is added to, and the edge."""

    k: Tensor
    i: Tensor
    j: Tensor
    target: Tensor
    edge: Tensor
    size: int


class Entries(NamedTuple):
    """What a sum along edges adds up: the row that is read (-1 if it is not stored), the edge, and the row ``target`` (out of ``size``)."""

    row: Tensor
    edge: Tensor
    target: Tensor
    size: int

    def stored(self) -> "Entries":
        """The entries whose rows are stored; the others have the value 0."""
        there = (self.row >= 0).nonzero().squeeze(1)
        return Entries(self.row[there], self.edge[there], self.target[there], self.size)


class Messages(NamedTuple):
    """Message passing in two steps: make every message from its source row and its edge, then sum the messages."""

    from_rows: Sum
    from_edges: Sum
    into_targets: Sum


class FolkloreMessages(NamedTuple):
    """Message passing from two rows at once: make every message from x[k, j], x[j, i] and its edge, then sum the messages."""

    from_subgraph: Sum
    from_node: Sum
    from_edges: Sum
    into_targets: Sum


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """``sum(x)[t]`` is the sum of ``weight[e] * x[source of e]`` over the entries e with target t.

    Without ``rows``, x already has one row per entry. ``index_t`` is the target of each entry, as in ``Sum``.
    """

    rows: Sum | None
    weight: Float[Tensor, "entries"]
    into: Sum

    @property
    def index_t(self) -> Int[Tensor, "entries"]:
        """The target of each entry."""
        return self.into.index_t

    def __call__(self, x: Shaped[Tensor, "sources channels"]) -> Shaped[Tensor, "targets channels"]:
        """Sum the rows of x."""
        values = x if self.rows is None else self.rows(x)
        return self.into(values * self.weight.to(x.dtype)[:, None])


@dataclass(frozen=True, eq=False)
class FeaturedSum:
    """``sum(x)[t]`` is the sum of relu(x + e) over the messages into t, with the vector e of the edge of each message."""

    messages: Messages
    edges: Float[Tensor, "edges channels"]

    def __call__(self, x: Float[Tensor, "sources channels"]) -> Float[Tensor, "targets channels"]:
        """Sum the messages of x."""
        return self.messages.into_targets((self.messages.from_rows(x) + self.messages.from_edges(self.edges)).relu())


@dataclass(frozen=True, eq=False)
class Wiring:
    """The sums of one bag. It has no state: the bag caches all maps that are made here."""

    bag: "SubgraphBag"

    def cache(self, key: Hashable, make: Callable[[], T]) -> T:
        """Store a value in the cache of the bag."""
        return self.bag.cache(key, make)

    # -- subgraphs and nodes: equal numbers in a bag with one subgraph per node; ``SampledWiring`` has others ----------

    def sub_of(self, node: Tensor) -> Tensor:
        """The subgraph of a node."""
        return node

    def root_of(self, sub: Tensor) -> Tensor:
        """The root of a subgraph."""
        return sub

    def row(self, sub: Tensor, node: Tensor) -> Tensor:
        """The row of a pair, or -1 if it is not stored."""
        return self.bag.row_within(sub, node)

    def scaled(self, total: Shaped[Tensor, "rows channels"], rows: Literal["node", "graph"]) -> Shaped[Tensor, "rows channels"]:
        """Sums over the subgraphs of a graph, scaled if some are missing."""
        return total

    def at_root(
        self, total: Shaped[Tensor, "nodes channels"], root: Callable[[], Shaped[Tensor, "subgraphs channels"]]
    ) -> Shaped[Tensor, "subgraphs channels"]:
        """sum_h x[h, k] in subgraph k, from the scaled sum at every node, and x[k, k]."""
        return total

    def over_two(
        self, total: Shaped[Tensor, "nodes channels"], h: Shaped[Tensor, "pairs channels"]
    ) -> Shaped[Tensor, "nodes channels"]:
        """sum_g sum_{j ~_g i} sum_h x[h, j], from this sum with equal scales."""
        return total

    # -- between scopes --------------------------------------------------------------------------------------------

    @cached
    def to_sub(self) -> Sum:
        """From pairs to subgraphs; its transpose goes from subgraphs to pairs."""
        rows = torch.arange(self.bag.num_pairs, device=self.bag.device)
        return Sum(rows, self.bag.row_ptr, self.bag.sub, None, "pair", "sub")

    @cached
    def to_node(self) -> Sum:
        """From pairs to nodes: sums over subgraphs."""
        return Sum.broadcast(self.bag.node, self.bag.num_nodes, ("node", "pair")).t

    @cached
    def sub_to_graph(self) -> Sum:
        """From subgraphs to graphs."""
        return Sum.broadcast(self.bag.sub_batch, self.bag.num_graphs, ("graph", "sub")).t

    @cached
    def node_to_graph(self) -> Sum:
        """From nodes to graphs."""
        return Sum.broadcast(self.bag.graph.batch, self.bag.num_graphs, ("graph", "node")).t

    @cached
    def edge_ends(self) -> tuple[Sum, Sum]:
        """From nodes to the sources and the targets of edges."""
        source, target = self.bag.graph.edge_index
        nodes, spaces = self.bag.num_nodes, ("node", "edge")
        return Sum.broadcast(source, nodes, spaces), Sum.broadcast(target, nodes, spaces)

    def on_pairs(self, values: Iterable[tuple[str, Tensor]]) -> Shaped[Tensor, "pairs channels"]:
        """The sum of values on pairs, subgraphs, nodes and graphs at every pair: first added where they live, then broadcast."""
        by_scope: dict[str, list[Tensor]] = {"pair": [], "subgraph": [], "node": [], "graph": []}
        for scope, value in values:
            by_scope[scope].append(value)

        def add(values: list[Tensor]) -> Tensor:
            return sum(values[1:], values[0])

        parts = by_scope["pair"]
        if by_scope["graph"]:
            by_scope["subgraph"].append(self.sub_to_graph.t(add(by_scope["graph"])))
        if by_scope["subgraph"]:
            parts.append(self.to_sub.t(add(by_scope["subgraph"])))
        if by_scope["node"]:
            parts.append(self.to_node.t(add(by_scope["node"])))
        return add(parts)

    @cached
    def root_row(self) -> Int[Tensor, "nodes"]:
        """The rows of the roots. Raise ``ValueError`` if some roots have no row."""
        rows = self.bag.root_row
        if self.bag.domain == "members" and bool((rows < 0).any()):
            raise ValueError(self.rootless())
        return rows

    def rootless(self) -> str:
        """The message for roots that are not members."""
        return (
            f"policy '{self.bag.policy}' with domain='members' leaves roots without a row, but this model uses terms of roots "
            "(root, node_root, roots, root_terms, strict sums or pooling of roots); use domain='all'."
        )

    @cached
    def roots_are_members(self) -> bool:
        """Whether every root is a member of its own subgraph."""
        return bool(self.bag.member[self.root_row].all())

    @cached
    def off_mask(self) -> PerRow:
        """Which rows are not roots."""
        off = torch.ones(self.bag.num_pairs, dtype=torch.bool, device=self.bag.device)
        return PerRow(off.index_fill_(0, self.root_row, False), "pair")

    @cached
    def off_rows(self) -> Int[Tensor, "_"]:
        """The rows that are not roots."""
        return self.off_mask.values.nonzero().squeeze(1)

    @cached
    def off_member_rows(self) -> Int[Tensor, "_"]:
        """The rows of members that are not roots."""
        return self.off_rows[self.bag.member[self.off_rows]]

    @cached
    def member_rows(self) -> Int[Tensor, "_"]:
        """The rows of members."""
        return self.bag.member.nonzero().squeeze(1)

    @cached
    def transpose(self) -> Sum:
        """From pair (i, k) to pair (k, i)."""
        rows = torch.arange(self.bag.num_pairs, device=self.bag.device)
        bag = self.bag
        read = bag.transpose if bag.missing is None else self.row(self.sub_of(bag.node), self.root_of(bag.sub))
        return self._sum_of_rows(Entries(read, rows, rows, rows.numel()), ("pair", "pair"))

    # -- along edges -----------------------------------------------------------------------------------------------

    def triples(self, neighbours: Neighbours, where: Where = "off") -> Triples:
        """All (k, i, j), with j a neighbour of i in subgraph k ("Ak") or in the graph ("A"), for pairs (k, i) or roots (i, i).

        For nodes i, j is a neighbour in the graph ("nodes"), counted once for each subgraph in which it is a neighbour ("agg"). Along the
        other axis, j is a neighbour of k in the graph ("swap") or in subgraph i ("Ai").
        """

        def build() -> Triples:
            bag, graph = self.bag, self.bag.graph
            if neighbours == "nodes":
                source, target = graph.edge_index
                return Triples(target, target, source, target, torch.arange(source.numel(), device=bag.device), bag.num_nodes)
            if neighbours == "agg":
                inside = self.triples("Ak")
                return inside._replace(target=inside.i, size=bag.num_nodes)
            if neighbours == "Ai":  # the edges of subgraph i, read along the other axis; at roots both are the same
                inside = self.triples("Ak", where)
                if where == "on":
                    return inside
                target = bag.row_within(inside.i, inside.k)
                there = (target >= 0).nonzero().squeeze(1)  # pairs that are not stored are not updated
                i, k, j, edge = (letter[there] for letter in (inside.k, inside.i, inside.j, inside.edge))
                return Triples(k, i, j, target[there], edge, bag.num_pairs)
            if where == "on":
                k, rows = torch.arange(bag.num_subgraphs, device=bag.device), self.root_row
            else:
                k, rows = bag.sub, torch.arange(bag.num_pairs, device=bag.device)
            if neighbours == "Ak":
                source, target, edge = bag.pair_edges
                if where == "on":
                    keep = (target == self.root_row[bag.sub[target]]).nonzero().squeeze(1)
                    source, target, edge = source[keep], target[keep], edge[keep]
                k, i, j = bag.sub[target], bag.node[target], bag.node[source]
                return Triples(k, i, j, k if where == "on" else target, edge, rows.numel())
            i = bag.node[rows]
            via, j, edge = graph.in_edges.expand(self.root_of(k) if neighbours == "swap" else i)
            return Triples(k[via], i[via], j, via, edge, rows.numel())

        return self.cache(("triples", neighbours, where), build)

    def rows(self, neighbours: Neighbours, values: str, where: Where = "off") -> Sum | WeightedSum | FeaturedSum:
        """The sum of x[a, b] over the neighbours. ``values`` holds the letters a and b, each one of k, i, j."""

        def entries() -> Entries:
            t, a, b = self.triples(neighbours, where), values[0], values[1]
            sub = t.k if a == "k" else self.sub_of(getattr(t, a))
            node = self.root_of(t.k) if b == "k" else getattr(t, b)
            return Entries(self.row(sub, node), t.edge, t.target, t.size)

        return self._sum_along(("rows", neighbours, values, where), entries, ("pair", _targets(neighbours, where)))

    def nodes(self, neighbours: Neighbours, where: Where = "off") -> Sum | WeightedSum | FeaturedSum:
        """The sum over the neighbours j of a value on nodes."""

        def entries() -> Entries:
            t = self.triples(neighbours, where)
            return Entries(t.j, t.edge, t.target, t.size)

        return self._sum_along(("nodes", neighbours, where), entries, ("node", _targets(neighbours, where)))

    def roots(self, neighbours: Neighbours, where: Where = "off") -> Sum | WeightedSum | FeaturedSum:
        """The sum over the neighbours j of a value on subgraphs, at subgraph j."""
        return self.nodes(neighbours, where)

    def root_messages(self, where: Where = "off") -> Sum | WeightedSum | FeaturedSum:
        """The messages of roots to their neighbours in the subgraph."""

        def entries() -> Entries:
            t = self.triples("Ak", where)
            mine = (t.j == self.bag.root[t.k]).nonzero().squeeze(1)
            return Entries(self.bag.row_within(t.k[mine], t.j[mine]), t.edge[mine], t.target[mine], t.size)

        return self._sum_along(("root_messages", where), entries, ("pair", _targets("Ak", where)))

    def messages(self, neighbours: Neighbours, where: Where = "off") -> Messages:
        """The maps that a base encoder needs: from rows to messages, from edges to messages, and from messages to targets."""

        return self.cache(("messages", neighbours, where), lambda: self.make_messages(neighbours, where))

    def make_messages(self, neighbours: Neighbours, where: Where = "off", sources: Sources = "all") -> Messages:
        """As ``messages``, but computed again and not cached; perhaps only the messages from roots, or those from others."""
        t = self.triples(neighbours, where)
        on_nodes = neighbours in ("nodes", "agg")
        row = t.j if on_nodes else self.row(*((self.sub_of(t.j), t.i) if neighbours == "swap" else (t.k, t.j)))
        there: Tensor | slice = slice(None)
        if self.some_rows or sources != "all":
            chosen = row >= 0
            if sources != "all":
                _ = self.root_row  # raises an error if some roots have no row
                chosen &= (t.j == self.bag.root[t.k]) == (sources == "roots")
            there = chosen.nonzero().squeeze(1)
        spaces = "node" if on_nodes else "pair", _targets(neighbours, where)
        return self._maps(
            Entries(row[there], t.edge[there], t.target[there], t.size), spaces, f"messages {neighbours} {where} {sources}"
        )

    def _maps(self, entries: Entries, spaces: tuple[str, str], own: str) -> Messages:
        """The maps from rows and edges to messages, which have a space of their own, and on to targets."""
        return Messages(
            Sum.broadcast(entries.row, self._rows_of(spaces[0]), (spaces[0], own)),
            Sum.broadcast(entries.edge, self.bag.graph.edge_index.size(1), ("edge", own)),
            Sum.broadcast(entries.target, entries.size, (spaces[1], own)).t,
        )

    def folklore(self, neighbours: Neighbours, where: Where = "off", members: bool = False) -> FolkloreMessages:
        """The maps for a folklore sum over the neighbours j of i ("A"), or of k ("swap"): the rows of x[k, j] and of x[j, i].

        Args:
            neighbours: the kind of neighbours.
            where: whether the sum is for all pairs (k, i) or for the roots.
            members: whether to leave out triples in which one of the pairs is not a member of its subgraph.
        """
        return self.cache(("folklore", neighbours, where, members), lambda: self.make_folklore(neighbours, where, members))

    def pairs_of_edges(self, neighbours: Neighbours) -> Sum:
        """From pairs to edges, each of which is read at a pair of its ends: for a folklore sum over j ~ i ("A") at (j, i), over j ~ k ("swap")
        at (k, j). A pair that is not stored is read as the first one, but no message uses it."""

        def build() -> Sum:
            j, other = self.bag.graph.edge_index
            row = self.row(*((self.sub_of(j), other) if neighbours == "A" else (self.sub_of(other), j)))
            return Sum.broadcast(row.clamp(min=0), self.bag.num_pairs, ("pair", "edge"))

        return self.cache(("pairs of edges", neighbours), build)

    def make_folklore(self, neighbours: Neighbours, where: Where, members: bool) -> FolkloreMessages:
        """As ``folklore``, but computed again and not cached."""
        bag = self.bag
        t = self.triples(neighbours, where)
        row, other = bag.row_within(t.k, t.j), self.row(self.sub_of(t.j), t.i)
        there: Tensor | slice = slice(None)
        if members or self.some_rows:
            there = (row >= 0) & (other >= 0)
            if members or bag.domain == "members":
                there &= bag.member[row] & bag.member[other]
            there = there.nonzero().squeeze(1)
        own = f"folklore {neighbours} {where} {members}"
        maps = self._maps(Entries(row[there], t.edge[there], t.target[there], t.size), ("pair", _targets(neighbours, where)), own)
        return FolkloreMessages(maps.from_rows, Sum.broadcast(other[there], bag.num_pairs, ("pair", own)), *maps[1:])

    def _sum_along(
        self, key: tuple[str, ...], entries: Callable[[], Entries], spaces: tuple[str, str]
    ) -> Sum | WeightedSum | FeaturedSum:
        """The sum of some rows along edges, of pairs or nodes, stored under a key."""
        return self.cache(key, lambda: self._sum_of_rows(entries(), spaces))

    def _sum_of_rows(self, entries: Entries, spaces: tuple[str, str]) -> Sum:
        row, _, target, size = entries.stored() if self.some_rows else entries
        return Sum.build(row, target, self._rows_of(spaces[0]), size, spaces)

    @property
    def some_rows(self) -> bool:
        """Whether some of the pairs that are read may have no row."""
        return self.bag.domain == "members"

    def _rows_of(self, space: str) -> int:
        return self.bag.num_pairs if space == "pair" else self.bag.num_nodes


def _targets(neighbours: Neighbours, where: Where) -> str:
    """The space of the sums over neighbours."""
    if neighbours in ("nodes", "agg"):
        return "node"
    return "sub" if where == "on" else "pair"


# -- edge features ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FeaturedWiring(Wiring):
    """The sums of a bag in which messages have edge features: each sum of x along edges is one of relu(x + e).

    Args:
        bag: the bag.
        edges: a vector for each edge of the graph.
        masked: whether to leave out messages from pairs that are not members of their subgraph.
    """

    edges: Float[Tensor, "edges channels"]
    masked: bool = False

    def cache(self, key: Any, make: Any) -> Any:
        """Store a value in the cache of the bag without weights, since none of these values depends on edges."""
        return self.bag.plain.cache(key, make)

    def _sum_along(self, key: tuple[str, ...], entries: Callable[[], Entries], spaces: tuple[str, str]) -> FeaturedSum:
        own = f"messages of {' '.join(key)}{' of members' if self.masked else ''}"

        def build() -> Messages:
            kept = entries().stored() if self.bag.domain == "members" else entries()
            if self.masked and spaces[0] == "pair":
                there = self.bag.member[kept.row].nonzero().squeeze(1)
                kept = Entries(kept.row[there], kept.edge[there], kept.target[there], kept.size)
            return self._maps(kept, spaces, own)

        messages = self.cache(own, build)
        if (weight := self.bag.edge_weight) is not None:
            into: Any = WeightedSum(None, weight[messages.from_edges.index], messages.into_targets)
            messages = messages._replace(into_targets=into)
        return FeaturedSum(messages, self.edges)


# -- edge weights -------------------------------------------------------------------------------------------------------------
# Weights multiply the messages in every sum over neighbours. Membership and hop distances do not change. Explanations use them, to find out
# which edges matter for a prediction. An edge of weight 0 carries no message.

WEIGHT, PLAIN = "edge weight", "bag without weights"


def weigh(bag: "SubgraphBag", weight: Float[Tensor, "edges"]) -> "SubgraphBag":
    """The same bag with a weight for each edge, which multiplies its messages in every sum over neighbours. Used for explanations."""
    edges = bag.graph.edge_index.size(1)
    if not isinstance(weight, Tensor) or weight.shape != (edges,) or not weight.is_floating_point():
        raise ValueError(f"weight is {kind_of(weight)}, expected one floating-point number for each of the {edges} edges.")
    other = replace(bag)
    other._cache[WEIGHT], other._cache[PLAIN] = weight, bag.plain
    return other


class WeightedWiring(Wiring):
    """The sums of a bag in which entries of sums count differently: by the weights of their edges, or as ``factor`` says. The index maps are those of
    the bag without weights, which caches them."""

    def cache(self, key: Any, make: Any) -> Any:
        """Store a value in the cache of the bag without weights, since none of these values depends on the weights."""
        return self.bag.plain.cache(key, make)

    def factor(self, read: Tensor, target: Tensor, space: str) -> Float[Tensor, "entries"] | None:
        """How often values of the subgraphs ``read`` count in sums on nodes, in subgraphs ("sub") or on their pairs; None if all count once."""
        return None

    def messages(self, neighbours: Neighbours, where: Where = "off") -> Messages:
        """See ``Wiring.messages``."""
        plain = super().messages(neighbours, where)
        source, target, factor = plain.from_rows.index, plain.into_targets.index_t, None
        if neighbours in ("agg", "swap"):
            factor = self.factor(source if neighbours == "agg" else self.bag.sub[source], target, _targets(neighbours, where))
        return self._weighted(plain, factor)

    def folklore(self, neighbours: Neighbours, where: Where = "off", members: bool = False) -> FolkloreMessages:
        """See ``Wiring.folklore``."""
        plain = super().folklore(neighbours, where, members)
        sub, target = self.bag.sub[plain.from_node.index], plain.into_targets.index_t
        return self._weighted(plain, self.factor(sub, target, _targets(neighbours, where)))

    def _weighted(self, plain: Any, factor: Tensor | None) -> Any:
        if factor is None and self.bag.edge_weight is None:
            return plain
        edge = plain.from_edges.index
        weight = self._with_edges(_ones(edge) if factor is None else factor, edge)
        return plain._replace(into_targets=WeightedSum(None, weight, plain.into_targets))

    def _with_edges(self, factor: Tensor, edge: Tensor) -> Tensor:
        weight = self.bag.edge_weight
        return factor if weight is None else factor.to(weight.dtype) * weight[edge]

    def _sum_along(self, key: tuple[str, ...], entries: Callable[[], Entries], spaces: tuple[str, str]) -> WeightedSum:
        def build() -> tuple[Sum, Tensor, Tensor, Sum]:
            row, edge, target, size = entries().stored()
            factor = None
            if not ((key[0] == "nodes" and key[1] != "agg") or (key[0] == "rows" and key[2][0] == "i")):  # a sum over subgraphs
                factor = self.factor(self.bag.sub[row] if spaces[0] == "pair" else row, target, spaces[1])
            factor = _ones(edge) if factor is None else factor
            return Sum.broadcast(row, self._rows_of(spaces[0])), factor, edge, Sum.broadcast(target, size).t

        rows, factor, edge, into = self.cache((f"weighted {key[0]}", *key[1:]), build)
        return WeightedSum(rows, self._with_edges(factor, edge), into)


def _ones(like: Tensor) -> Float[Tensor, "entries"]:
    return torch.ones(like.numel(), dtype=torch.float64, device=like.device)
