"""A model as data: its policy, its layers as rules, its pooling; read off the modules, or given as lists of terms."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from torch import Tensor, nn

from reign.bags import Domain, SubgraphBag
from reign.nn import (
    GIN,
    AKConv,
    DeepSets,
    EncoderSlot,
    GraphConv,
    IGNPooling,
    MeanPooling,
    Model,
    OuterMPNN,
    PPGNConv,
    RootPooling,
    SubgraphConv,
    TermSlot,
    term,
)
from reign.policies import Policy, policy
from reign.theory._pools import POOLS, Flat, Nested, OnAndOff, Outer, Pool, Roots
from reign.theory._rules import Block, Layer, Merge, Product, Rule, Slot


@dataclass(frozen=True)
class Plan:
    """What a model computes, without weights and widths.

    Args:
        policy: how a graph becomes a bag.
        rules: the layers.
        pool: from pairs to graphs.
        domain: what sums range over.
        lift: from features of nodes to features of pairs, marks included.
        residual: whether what comes into a layer is added to what it gives.
        jk: the layers that are pooled: the "last", or all of them, in a "sum" or side by side ("cat").
    """

    policy: Policy
    rules: tuple[Rule, ...]
    pool: Pool
    domain: Domain = "all"
    lift: Callable[[Tensor, SubgraphBag], Tensor] = lambda x, bag: bag.lift(x)
    residual: bool = False
    jk: str = "last"


def plan_of_terms(
    terms: Sequence[str], root_terms: Sequence[str] | None, name: str | Policy, domain: Domain, pooling: str, aggregation: dict[str, Any]
) -> Plan:
    """The plan of a list of terms; "own+local" stands for both."""

    def slots(names: Sequence[str]) -> tuple[Slot, ...]:
        return tuple(Slot((term(part).name,)) for name in names for part in name.split("+"))

    if not terms or isinstance(terms, str):
        raise ValueError(f"terms are {terms!r}, expected a list of at least one name, as ['own', 'local']; see reign.list_terms().")
    if pooling not in POOLS:
        raise ValueError(f"pooling is {pooling!r}, expected {', '.join(map(repr, POOLS))}.")
    layer = Layer(slots(terms), None if root_terms is None else slots(root_terms), domain, aggregation)
    return Plan(policy(name), (layer,), POOLS[pooling], domain)


def plan_of_model(model: Model) -> Plan:
    """The plan of a model. Norms are left out: they are affine maps in evaluation mode, which the weights can undo."""
    if model.jk == "max":
        raise ValueError("jk='max' has no exact form: a maximum needs an order of numbers; use 'cat', 'sum' or 'last'.")
    chosen = copy.deepcopy(model.policy).train(False)
    if chosen.num_draws > 1:
        raise ValueError(f"policy '{model.policy}' draws subgraphs at random, and exact tests need all of them; leave out eval_draws.")
    if getattr(model, "edge_channels", 0):
        raise ValueError(f"{type(model).__name__} was made for edge features, and exact tests cover graphs without them.")
    rules = tuple(rule_of(layer) for layer in model.layers)
    return Plan(
        chosen, rules, pool_of(model.pooling), model.domain, model.lift, model.residual is not None, model.jk or "last"
    )


@singledispatch
def rule_of(layer: nn.Module) -> Rule:
    """A layer as a rule; ``rule_of.register`` adds another kind of layer."""
    raise ValueError(f"layer {layer!r} has no exact form here; layers of terms (SubgraphConv) have one.")


@rule_of.register
def _(layer: SubgraphConv) -> Rule:
    off = tuple(slot_of(slot) for slot in layer.slots())
    on = None if layer.root_terms is None else tuple(slot_of(slot) for slot in layer.slots(on=True))
    return Layer(off, on, layer.domain, layer.aggregation)


@rule_of.register
def _(layer: AKConv) -> Rule:
    inner = rule_of(layer.inner[0])
    assert isinstance(inner, Layer)
    return Block(
        inner, len(layer.inner), tuple(layer.parts), layer.combine, layer.aggregation, bool(layer.marks), layer.max_distance
    )


@rule_of.register
def _(layer: PPGNConv) -> Rule:
    return Product()


def slot_of(slot: TermSlot | EncoderSlot) -> Slot:
    """A term with its transform, or terms with their encoder."""
    parts = tuple(term(part).name for part in slot.name.split("+"))
    return Slot(parts, merge_of(slot.transform if isinstance(slot, TermSlot) else slot.encoder))


@singledispatch
def merge_of(module: nn.Module) -> Merge:
    """How a module transforms or merges terms: an MLP, unless it is one of the kinds below."""
    if hasattr(module, "lin1"):
        return "mlp"
    raise ValueError(
        f"{type(module).__name__} has no exact form here; use conv='gin' or 'graphconv' without edge features (GCN has square roots)."
    )


@merge_of.register
def _(module: nn.Linear) -> Merge:
    return "linear"


@merge_of.register
def _(module: GraphConv) -> Merge:
    return "linear"


@merge_of.register
def _(module: GIN) -> Merge:
    if module.edge_encoder is not None:
        raise ValueError("the encoder was made for edge features, and exact tests cover graphs without them.")
    return "gin" if module.eps.requires_grad else "gin-0"


@singledispatch
def pool_of(pooling: nn.Module) -> Pool:
    """A pooling as data; ``pool_of.register`` adds another kind."""
    raise ValueError(f"pooling {pooling!r} has no exact form here; use one of reign.nn.")


@pool_of.register
def _(pooling: MeanPooling) -> Pool:
    return Flat(pooling.over_nodes, pooling.over_subgraphs)


@pool_of.register
def _(pooling: DeepSets) -> Pool:
    return Nested(pooling.over_nodes, "mean", len(pooling.each), pooling.invariance == "late")


@pool_of.register
def _(pooling: RootPooling) -> Pool:
    return Roots(pooling.over_roots)


@pool_of.register
def _(pooling: OuterMPNN) -> Pool:
    layers = [rule_of(layer) for layer in pooling.layers]
    return Outer(tuple(layer for layer in layers if isinstance(layer, Layer)), pooling.over_nodes, pooling.over_graph)


@pool_of.register
def _(pooling: IGNPooling) -> Pool:
    return OnAndOff(pooling.over)
