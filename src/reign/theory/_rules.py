"""The layers and poolings of networks as data. They are evaluated in any algebra, as a colour test or as a network over a finite field.

A rule computes new values of pairs. Its ``steps`` yield the values after each round, and whether the rule ends there. A layer of terms
has one round; a GNN-AK block has one round for each inner layer (as if the block ended there). A pool maps values of pairs to one row per graph.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from reign.bags import Domain, SubgraphBag, Where
from reign.nn import ALONG, State, Term, term
from reign.policies import whole
from reign.theory._algebra import Algebra, Key, Values, partition, rows

# -- values of pairs ----------------------------------------------------------------------------------------------------------


class ExactState(State):
    """A ``State`` of integers. Terms are evaluated by their own formulas, and means use the division of the algebra."""

    def __init__(
        self, h: Values, bag: SubgraphBag, domain: Domain, algebra: Algebra, aggregation: dict[str, str] | None = None
    ) -> None:
        super().__init__(h, bag, domain, aggregation)  # type: ignore[arg-type]
        self.algebra = algebra

    def get(self, term: Term, where: Where = "off") -> Values:
        """The value of a term, a sum or a mean, for all pairs or for the roots."""
        if self.aggregation.get(term.name, "sum") == "sum":
            return self.sum(term, where)

        def mean() -> Values:
            count = self._count(term, where).round().long().clamp(min=1)
            return self.algebra.divide(self.sum(term, where), count)

        return self.once(("mean", term.name, where), mean)

    def product(self, one: Values, other: Values) -> Values:
        """The product of two values, which folklore terms sum."""
        return self.algebra.multiply(one, other)


# -- layers -------------------------------------------------------------------------------------------------------------------

Merge = Literal["linear", "mlp", "gin", "gin-0", "folklore", "folklore-0"]


@dataclass(frozen=True)
class Slot:
    """Terms that a layer transforms together.

    Args:
        terms: names of the terms. If there are several, the first is the target's own value.
        merge: "linear" or "mlp" for a linear map or an MLP of each term; "gin" for an MLP of (1 + eps) times the first term plus the
            others; "gin-0" for the same without eps; "folklore" for the same with each of the others, which sum a function of two
            values; "folklore-0" without eps.
    """

    terms: tuple[str, ...]
    merge: Merge = "linear"

    def __call__(self, state: ExactState, where: Where, key: Key) -> Values:
        """The transformed terms."""
        if self.merge.startswith("folklore"):
            return self._folklore(state, where, key)
        value = state.get if len({term(name).scope for name in self.terms}) == 1 else state.spread
        own, *others = (value(term(name), where) for name in self.terms)
        algebra = state.algebra
        if not self.merge.startswith("gin"):
            return (algebra.mlp if self.merge == "mlp" else algebra.linear)(key, own, *others)
        if len(others) > 1:
            others = [algebra.linear((*key, "mix"), *others)]
        own = algebra.scale(key, own) if self.merge == "gin" else own
        return algebra.mlp(key, sum(others, own))

    def _folklore(self, state: ExactState, where: Where, key: Key) -> Values:
        """Folklore sums: both values of a message are merged before they are summed."""
        algebra, found = state.algebra, []
        own = state.get(term(self.terms[0]), where)
        for p, name in enumerate(self.terms[1:]):
            messages = state.bag.wiring.folklore(ALONG[name], where, state.masked)
            pair = messages.from_subgraph(state.h), messages.from_node(state.h)
            message = algebra.act(key, algebra.linear((*key, "pair"), *(pair if name == "folklore" else pair[::-1])))
            mine = algebra.scale((*key, p), own) if self.merge == "folklore" else own
            found.append(algebra.mlp((*key, p), mine + messages.into_targets(message)))
        return _add(found)

    @property
    def scope(self) -> str:
        """The scope of the terms."""
        return term(self.terms[0]).scope


@dataclass(frozen=True)
class Layer:
    """A layer from a list of terms, and optionally another list for roots."""

    slots: tuple[Slot, ...]
    root_slots: tuple[Slot, ...] | None = None
    domain: Domain = "all"
    aggregation: dict[str, Any] = field(default_factory=dict)

    def steps(self, h: Values, bag: SubgraphBag, algebra: Algebra, key: Key) -> Iterator[tuple[Values, bool]]:
        """The values after the layer."""
        state = ExactState(h, bag, self.domain, algebra, self.aggregation)
        out = algebra.act((*key, "off"), self._all_pairs(state, key))
        if self.root_slots is not None:
            values = [slot(state, "on", (*key, "on", s)) for s, slot in enumerate(self.root_slots)]
            out = out.index_copy(0, bag.wiring.root_row, algebra.act((*key, "on"), _add(values)))
        yield out, True

    def _all_pairs(self, state: ExactState, key: Key) -> Values:
        """The sum of all transformed terms, broadcast to pairs."""
        by_scope: dict[str, list[Tensor]] = {"pair": [], "subgraph": [], "node": [], "graph": []}
        for s, slot in enumerate(self.slots):
            by_scope[slot.scope].append(slot(state, "off", (*key, "off", s)))
        return state.bag.wiring.on_pairs(by_scope)


@dataclass(frozen=True)
class Block:
    """A block of GNN-AK: ``depth`` layers in every subgraph, then the parts of every node.

    Args:
        inner: the layer in subgraphs.
        depth: number of inner layers; None to repeat until the partition of pairs occurs again.
        parts: terms of nodes that are combined.
        combine: "sum" for the sum of the parts; otherwise a linear map of all parts, which also stands for their concatenation.
        aggregation: "sum" or "mean" over the nodes of a subgraph, and over subgraphs.
        act: whether the block ends with an activation.
        remark: whether to add marks before the block.
        max_distance: the largest hop distance of GNN-AK+, which has an embedding before the block and gates before the parts.
    """

    inner: Layer
    depth: int | None
    parts: tuple[str, ...]
    combine: Literal["sum", "cat", "linear"] = "cat"
    aggregation: str = "sum"
    act: bool = False
    remark: bool = False
    max_distance: int | None = None

    def steps(self, h: Values, bag: SubgraphBag, algebra: Algebra, key: Key) -> Iterator[tuple[Values, bool]]:
        """The values after the block, for each number of inner layers."""
        if self.remark:
            assert bag.mark is not None
            h = h + algebra.embed(rows(bag.mark.double()), *key, "mark")
        if self.max_distance is not None:
            h = h + algebra.embed(bag.hops(self.max_distance), *key, "distance")
        seen: set[int] = set()
        for t in count():
            ((h, _),) = self.inner.steps(h, bag, algebra, (*key, t))
            parts = [self._part(name, h, bag, algebra, (*key, name)) for name in self.parts]
            if self.combine == "sum":
                out = _add(parts)
            elif self.act:
                out = algebra.linear((*key, "cat"), *parts)
            else:  # as far as sums of it are concerned, random multiples are as good as a concatenation, and no more
                out = _add([algebra.scale((*key, name), part) for name, part in zip(self.parts, parts, strict=True)])
            stable = self.depth is None and (found := partition(h)) in seen
            ends = stable or t + 1 == self.depth
            yield bag.wiring.to_node.t(algebra.act((*key, "out"), out) if self.act else out), ends
            if ends:
                return
            if self.depth is None:
                seen.add(found)

    def _part(self, name: str, h: Values, bag: SubgraphBag, algebra: Algebra, key: Key) -> Int[Tensor, "nodes width"]:
        if self.max_distance is not None:
            h = algebra.gate(key, algebra.mlp(key, h), bag.hops(self.max_distance))
        how = {} if name == "node_root" else {name: self.aggregation}
        return ExactState(h, bag, self.inner.domain, algebra, how).get(term(name))


@dataclass(frozen=True)
class Product:
    """A block of PPGN: a matrix product over nodes, and the value itself.

    Args:
        residual: whether the block is one with a root of the product (any function of it here) and a residual connection; if not, the
            product is divided by the number of nodes.
    """

    residual: bool = False

    def steps(self, h: Values, bag: SubgraphBag, algebra: Algebra, key: Key) -> Iterator[tuple[Values, bool]]:
        """The values after the block."""
        left, right = algebra.mlp((*key, "left"), h), algebra.mlp((*key, "right"), h)
        products = []
        sizes = bag.graph.sizes.tolist()
        for n, a, b in zip(sizes, *(x.split([n * n for n in sizes]) for x in (left, right)), strict=True):
            products.append(algebra.product(a.view(n, n, -1), b.view(n, n, -1)).view(n * n, -1))
        if self.residual:
            root = algebra.act((*key, "root"), torch.cat(products))
            yield h + algebra.mlp((*key, "both"), h, root), True
            return
        mean = algebra.divide(torch.cat(products), bag.graph.sizes[bag.pair_batch][:, None])
        out = algebra.act((*key, "out"), algebra.linear((*key, "skip"), h, mean))
        yield out, True


Rule = Layer | Block | Product


def _add(values: list[Tensor]) -> Tensor:
    return sum(values[1:], values[0])


# -- poolings -----------------------------------------------------------------------------------------------------------------

How = Literal["sum", "mean"]
Pairs = Int[Tensor, "pairs width"]
Subgraphs = Int[Tensor, "subgraphs width"]
Graphs = Int[Tensor, "graphs width"]


Pool = Callable[[Pairs, SubgraphBag, Domain, Algebra], Graphs]


def flat(h: Pairs, bag: SubgraphBag, domain: Domain, algebra: Algebra, nodes: How = "sum", subgraphs: How = "sum") -> Graphs:
    """Sum or mean over the nodes of each subgraph, then over subgraphs, without a transform in between."""
    return _over_subgraphs(_readout(h, bag, domain, algebra, nodes), bag, algebra, subgraphs)


def nested(
    h: Pairs, bag: SubgraphBag, domain: Domain, algebra: Algebra,
    nodes: How = "sum", subgraphs: How = "sum", layers: int = 1, late: bool = False,
) -> Graphs:  # fmt: skip
    """A set of sets: the readout of every subgraph is transformed before pooling (if ``late``, together with the other readouts)."""
    x = _readout(h, bag, domain, algebra, nodes)
    for t in range(layers):
        others = [bag.wiring.sub_to_graph.t(_over_subgraphs(x, bag, algebra, subgraphs))] if late else []
        x = algebra.act(("pool", t), algebra.linear(("pool", t), x, *others))
    return _over_subgraphs(x, bag, algebra, subgraphs)


def roots(h: Pairs, bag: SubgraphBag, domain: Domain, algebra: Algebra, how: How = "sum") -> Graphs:
    """Only the roots."""
    return _over_subgraphs(ExactState(h, bag, domain, algebra).root, bag, algebra, how)


def outer(h: Pairs, bag: SubgraphBag, domain: Domain, algebra: Algebra, layers: Sequence[Layer], nodes: How, graph: How) -> Graphs:
    """NGNN's pooling: the readout of each subgraph at its root, message passing on the graph, then a pooling of all nodes."""
    bag.require_node_based("NGNN's outer network")
    x = _readout(h, bag, domain, algebra, nodes)
    for t, layer in enumerate(layers):
        ((x, _),) = layer.steps(x, whole(bag), algebra, ("outer", t))
    total = bag.wiring.node_to_graph(x)
    return total if graph == "sum" else algebra.divide(total, bag.graph.sizes.clamp(min=1)[:, None])


def on_and_off(h: Pairs, bag: SubgraphBag, domain: Domain, algebra: Algebra, how: How) -> Graphs:
    """2-IGN's pooling: the roots, and all other pairs."""
    state = ExactState(h, bag, domain, algebra, {"roots": how, "non_roots": how})
    return algebra.linear(("pool",), *(state.get(term(name)) for name in ("roots", "non_roots")))


def on_and_per_node(h: Pairs, bag: SubgraphBag, domain: Domain, algebra: Algebra) -> Graphs:
    """The sum over the roots, and the sum over all other pairs divided by the number of nodes."""
    state = ExactState(h, bag, domain, algebra)
    others = algebra.divide(state.get(term("non_roots")), bag.graph.sizes.clamp(min=1)[:, None])
    return algebra.linear(("pool",), state.get(term("roots")), others)


POOLS: dict[str, Pool] = {"flat": flat, "nested": nested, "roots": roots}


def _readout(h: Pairs, bag: SubgraphBag, domain: Domain, algebra: Algebra, how: How) -> Subgraphs:
    return ExactState(h, bag, domain, algebra, {"readout": how}).get(term("readout"))


def _over_subgraphs(x: Subgraphs, bag: SubgraphBag, algebra: Algebra, how: How) -> Graphs:
    total = bag.wiring.sub_to_graph(x)
    if how == "sum":
        return total
    count = torch.bincount(bag.sub_batch, minlength=bag.num_graphs).clamp(min=1)
    return algebra.divide(total, count[:, None])
