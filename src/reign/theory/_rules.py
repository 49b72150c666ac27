"""The layers and poolings of a model as rules, which are evaluated in any algebra, as a colour test or as a network over a finite field.

A rule computes new values of pairs: it yields the values after each round, and whether it ends there. A layer of terms has one round; a
GNN-AK block has one round for each inner layer (as if the block ended there). A pool maps values of pairs to one row per graph. Weights and
widths of modules do not matter, and a module without an exact form raises ``ValueError`` before anything is computed.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import singledispatch
from itertools import count
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor, nn

import reign.nn
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

    def _mean(self, term: Term, where: Where) -> Values:
        count = self._count(term, where).round().long().clamp(min=1)
        return self.algebra.divide(self.sum(term, where), count)

    def product(self, one: Values, other: Values) -> Values:
        """The product of two values, which folklore terms sum."""
        return self.algebra.multiply(one, other)


# -- terms with their transforms ----------------------------------------------------------------------------------------------

Slot = reign.nn.TermSlot | reign.nn.EncoderSlot
Merge = Callable[[ExactState, Where, Key], Values]
NO_EDGES = "was made for edge features, but exact tests cover only graphs without edge features."


def merge_of(slot: Slot) -> Merge:
    """The transformed terms of a slot, as a function of a state."""
    if isinstance(slot, reign.nn.TermSlot) and slot.edge_encoder is not None:
        raise ValueError(f"'{slot.name}' {NO_EDGES}")
    if isinstance(slot, reign.nn.TermSlot) and slot.on_pairs:
        raise ValueError(f"'{slot.name}' is transformed at every pair, which exact tests do not support.")
    if len({part.scope for part in slot.terms}) > 1 and slot.scope != "pair":
        raise ValueError(f"'{slot.name}' merges terms with values on different scopes, which exact tests do not support.")
    return _merge_by(slot.transform if isinstance(slot, reign.nn.TermSlot) else slot.encoder, slot.terms)


@singledispatch
def _merge_by(module: nn.Module, terms: Sequence[Term]) -> Merge:
    """How a module transforms or merges terms: as an MLP, unless it is one of the kinds below."""
    if not hasattr(module, "lin1"):
        raise ValueError(
            f"exact tests do not support {type(module).__name__}; use conv='gin' or 'graphconv' without edge features (GCN has square roots)."
        )
    return lambda state, where, key: state.algebra.mlp(key, *_values(state, terms, where))


@_merge_by.register
def _(module: nn.Linear | reign.nn.GraphConv, terms: Sequence[Term]) -> Merge:
    return lambda state, where, key: state.algebra.linear(key, *_values(state, terms, where))


@_merge_by.register
def _(module: reign.nn.GIN, terms: Sequence[Term]) -> Merge:
    """An MLP of (1 + eps) times the first term plus the others, or without a trained eps, of their sum."""
    if module.edge_encoder is not None:
        raise ValueError(f"the encoder {NO_EDGES}")

    def merge(state: ExactState, where: Where, key: Key) -> Values:
        algebra, (own, *others) = state.algebra, _values(state, terms, where)
        if len(others) > 1:
            others = [algebra.linear((*key, "mix"), *others)]
        own = algebra.scale(key, own) if module.eps.requires_grad else own
        return algebra.mlp(key, sum(others, own))

    return merge


@_merge_by.register
def _(module: reign.nn.Folklore, terms: Sequence[Term]) -> Merge:
    """The same with each of the other terms, in which both values of a message are merged before they are summed."""
    if module.edge_encoders:
        raise ValueError(f"the encoder {NO_EDGES}")

    def merge(state: ExactState, where: Where, key: Key) -> Values:
        algebra, parts = state.algebra, []
        own = state.get(terms[0], where)
        for p, name in enumerate(part.name for part in terms[1:]):
            messages = state.bag.wiring.folklore(ALONG[name], where, state.masked)
            pair = messages.from_subgraph(state.h), messages.from_node(state.h)
            message = algebra.act(key, algebra.linear((*key, "pair"), *(pair if name == "folklore" else pair[::-1])))
            mine = algebra.scale((*key, p), own) if module.eps.requires_grad else own
            parts.append(algebra.mlp((*key, p), mine + messages.into_targets(message)))
        return _add(parts)

    return merge


def _values(state: ExactState, terms: Sequence[Term], where: Where) -> list[Values]:
    value = state.get if len({part.scope for part in terms}) == 1 else state.spread
    return [value(part, where) for part in terms]


def _add(values: list[Tensor]) -> Tensor:
    return sum(values[1:], values[0])


# -- layers -------------------------------------------------------------------------------------------------------------------

Rule = Callable[[Values, SubgraphBag, Algebra, Key, bool], Iterator[tuple[Values, bool]]]
"""From values of pairs, with the place of the rule in the network; with True, inner layers repeat until the partition of pairs occurs again."""


@singledispatch
def rule_of(layer: nn.Module) -> Rule:
    """Turn a layer into a rule. ``rule_of.register`` adds another kind of layer."""
    raise ValueError(f"exact tests do not support the layer {layer!r}; use a layer of terms (SubgraphConv).")


@rule_of.register
def _(layer: reign.nn.SubgraphConv) -> Rule:
    if layer.roots == "added":
        raise ValueError(
            f"layer {layer!r} adds terms of roots to those of all pairs, which exact tests do not support; use roots='apart'."
        )
    off, on = ([merge_of(slot) for slot in layer.slots(on)] for on in (False, True))
    scopes = [slot.scope for slot in layer.slots()]

    def steps(h: Values, bag: SubgraphBag, algebra: Algebra, key: Key, _: bool = False) -> Iterator[tuple[Values, bool]]:
        state = ExactState(h, bag, layer.domain, algebra, layer.aggregation)  # type: ignore[arg-type]
        values = [merge(state, "off", (*key, "off", s)) for s, merge in enumerate(off)]
        out = algebra.act((*key, "off"), bag.wiring.on_pairs(zip(scopes, values, strict=True)))
        if on:
            values = [merge(state, "on", (*key, "on", s)) for s, merge in enumerate(on)]
            out = out.index_copy(0, bag.wiring.root_row, algebra.act((*key, "on"), _add(values)))
        yield out, True

    return steps


@rule_of.register
def _(layer: reign.nn.AKConv) -> Rule:
    inner = rule_of(layer.inner[0])

    def part(name: str, h: Values, bag: SubgraphBag, algebra: Algebra, key: Key) -> Int[Tensor, "nodes width"]:
        if layer.max_distance is not None:
            h = algebra.gate(key, algebra.mlp(key, h), bag.hops(layer.max_distance))
        how = {} if name == "node_root" else {name: layer.aggregation}
        return ExactState(h, bag, layer.domain, algebra, how).get(term(name))  # type: ignore[arg-type]

    def steps(h: Values, bag: SubgraphBag, algebra: Algebra, key: Key, endless: bool = False) -> Iterator[tuple[Values, bool]]:
        act = not isinstance(layer.act, nn.Identity)
        if layer.marks:
            assert bag.mark is not None
            h = h + algebra.embed(rows(bag.mark.double()), *key, "mark")
        if layer.max_distance is not None:
            h = h + algebra.embed(bag.hops(layer.max_distance), *key, "distance")
        seen: set[int] = set()
        for t in count():
            ((h, _),) = inner(h, bag, algebra, (*key, t), False)
            parts = [part(name, h, bag, algebra, (*key, name)) for name in layer.parts]
            if layer.combine == "sum":
                out = _add(parts)
            elif act:
                out = algebra.linear((*key, "cat"), *parts)
            else:  # as far as sums of it are concerned, random multiples are as good as a concatenation, and no more
                out = _add([algebra.scale((*key, name), value) for name, value in zip(layer.parts, parts, strict=True)])
            ends = t + 1 == len(layer.inner)
            if endless:
                ends = (found := partition(h)) in seen
                seen.add(found)
            yield bag.wiring.to_node.t(algebra.act((*key, "out"), out) if act else out), ends
            if ends:
                return

    return steps


@rule_of.register
def _(layer: reign.nn.PPGNConv | reign.nn.PPGNRootConv) -> Rule:
    """A matrix product over nodes, and the value itself. The signed root of a product is any function of it."""
    residual = isinstance(layer, reign.nn.PPGNRootConv)
    if isinstance(layer, reign.nn.PPGNRootConv) and layer.products != "all":
        raise ValueError(
            f"the layer has products={layer.products!r}, but exact tests cover products of all pairs; use products='all'."
        )

    def steps(h: Values, bag: SubgraphBag, algebra: Algebra, key: Key, _: bool = False) -> Iterator[tuple[Values, bool]]:
        left, right = algebra.mlp((*key, "left"), h), algebra.mlp((*key, "right"), h)
        products = []
        sizes = bag.graph.sizes.tolist()
        for n, a, b in zip(sizes, *(x.split([n * n for n in sizes]) for x in (left, right)), strict=True):
            products.append(algebra.product(a.view(n, n, -1), b.view(n, n, -1)).view(n * n, -1))
        if residual:
            root = algebra.act((*key, "root"), torch.cat(products))
            yield h + algebra.mlp((*key, "both"), h, root), True
            return
        mean = algebra.divide(torch.cat(products), bag.graph.sizes[bag.pair_batch][:, None])
        yield algebra.act((*key, "out"), algebra.linear((*key, "skip"), h, mean)), True

    return steps


# -- poolings -----------------------------------------------------------------------------------------------------------------

How = Literal["sum", "mean"]
Subgraphs = Int[Tensor, "subgraphs width"]
Graphs = Int[Tensor, "graphs width"]
Pool = Callable[[ExactState], Graphs]


@singledispatch
def pool_of(pooling: nn.Module) -> Pool:
    """Turn a pooling into a function of a state. ``pool_of.register`` adds another kind."""
    raise ValueError(f"exact tests do not support the pooling {pooling!r}; use another pooling of reign.nn.")


@pool_of.register
def _(pooling: reign.nn.MeanPooling) -> Pool:
    return lambda state: _flat(state, pooling.over_nodes, pooling.over_subgraphs)


@pool_of.register
def _(pooling: reign.nn.DeepSets) -> Pool:
    late = pooling.invariance == "late"
    return lambda state: _nested(state, pooling.over_nodes, pooling.over_subgraphs, len(pooling.each), late)


@pool_of.register
def _(pooling: reign.nn.ReadoutPooling) -> Pool:
    return lambda state: _nested(state, "sum", "mean")


@pool_of.register
def _(pooling: reign.nn.RootPooling) -> Pool:
    if pooling.unit:
        raise ValueError(
            "exact tests do not support a pooling of roots of unit length, because it has square roots; use unit=False."
        )
    return lambda state: _over_subgraphs(state.root, state, pooling.over_roots)


@pool_of.register
def _(pooling: reign.nn.OuterMPNN) -> Pool:
    layers = [rule_of(layer) for layer in pooling.layers]

    def pool(state: ExactState) -> Graphs:
        bag, algebra = state.bag, state.algebra
        bag.require_node_based("NGNN's outer network")
        x = _total(state, "readout", pooling.over_nodes)
        for t, layer in enumerate(layers):
            ((x, _),) = layer(x, whole(bag), algebra, ("outer", t), False)
        total = bag.wiring.node_to_graph(x)
        return total if pooling.over_graph == "sum" else algebra.divide(total, bag.graph.sizes.clamp(min=1)[:, None])

    return pool


@pool_of.register
def _(pooling: reign.nn.IGNPooling) -> Pool:
    return lambda state: state.algebra.linear(("pool",), *(_total(state, name, pooling.over) for name in ("roots", "non_roots")))


@pool_of.register
def _(pooling: reign.nn.SumPooling) -> Pool:
    def pool(state: ExactState) -> Graphs:
        algebra, sizes = state.algebra, state.bag.graph.sizes.clamp(min=1)[:, None]
        return algebra.linear(("pool",), state.get(term("roots")), algebra.divide(state.get(term("non_roots")), sizes))

    return pool


POOLS: dict[str, Pool] = {
    "flat": lambda state: _flat(state, "sum", "sum"),
    "nested": lambda state: _nested(state, "sum", "sum"),
    "roots": lambda state: _over_subgraphs(state.root, state, "sum"),
}


def _flat(state: ExactState, nodes: How, subgraphs: How) -> Graphs:
    """Sum or mean over the nodes of each subgraph, then over subgraphs, without a transform in between."""
    return _over_subgraphs(_total(state, "readout", nodes), state, subgraphs)


def _nested(state: ExactState, nodes: How, subgraphs: How, layers: int = 1, late: bool = False) -> Graphs:
    """A set of sets: the readout of every subgraph is transformed before pooling (if ``late``, together with the other readouts)."""
    x, algebra = _total(state, "readout", nodes), state.algebra
    for t in range(layers):
        others = [state.bag.wiring.sub_to_graph.t(_over_subgraphs(x, state, subgraphs))] if late else []
        x = algebra.act(("pool", t), algebra.linear(("pool", t), x, *others))
    return _over_subgraphs(x, state, subgraphs)


def _total(state: ExactState, name: str, how: How) -> Values:
    """The sum or mean of a term."""
    return ExactState(state.h, state.bag, state.domain, state.algebra, {name: how}).get(term(name))


def _over_subgraphs(x: Subgraphs, state: ExactState, how: How) -> Graphs:
    bag, total = state.bag, state.bag.wiring.sub_to_graph(x)
    if how == "sum":
        return total
    count = torch.bincount(bag.sub_batch, minlength=bag.num_graphs).clamp(min=1)
    return state.algebra.divide(total, count[:, None])
