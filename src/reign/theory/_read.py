"""Turn the layers and poolings of models into data."""

from functools import singledispatch

from torch import nn

from reign.nn import (
    GIN,
    AKConv,
    DeepSets,
    EncoderSlot,
    Folklore,
    GraphConv,
    IGNPooling,
    MeanPooling,
    OuterMPNN,
    PPGNConv,
    PPGNRootConv,
    ReadoutPooling,
    RootPooling,
    SubgraphConv,
    SumPooling,
    TermSlot,
)
from reign.theory._pools import Flat, Nested, OnAndOff, OnAndPerNode, Outer, Pool, Roots
from reign.theory._rules import Block, Layer, Merge, Product, Rule, Slot


@singledispatch
def rule_of(layer: nn.Module) -> Rule:
    """Turn a layer into a rule. ``rule_of.register`` adds another kind of layer."""
    raise ValueError(f"exact tests do not support the layer {layer!r}; use a layer of terms (SubgraphConv).")


@rule_of.register
def _(layer: SubgraphConv) -> Rule:
    if layer.roots == "added":
        raise ValueError(
            f"layer {layer!r} adds terms of roots to those of all pairs, which exact tests do not support; use roots='apart'."
        )
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


@rule_of.register
def _(layer: PPGNRootConv) -> Rule:
    return Product(residual=True)


def slot_of(slot: TermSlot | EncoderSlot) -> Slot:
    """A term with its transform, or terms with their encoder."""
    if isinstance(slot, TermSlot) and slot.on_pairs:
        raise ValueError(f"'{slot.name}' is transformed at every pair, which exact tests do not support.")
    if len({part.scope for part in slot.terms}) > 1 and slot.terms[0].scope != "pair":
        raise ValueError(f"'{slot.name}' merges terms with values on different scopes, which exact tests do not support.")
    return Slot(tuple(part.name for part in slot.terms), merge_of(slot.transform if isinstance(slot, TermSlot) else slot.encoder))


@singledispatch
def merge_of(module: nn.Module) -> Merge:
    """How a module transforms or merges terms: as an MLP, unless it is one of the kinds below."""
    if hasattr(module, "lin1"):
        return "mlp"
    raise ValueError(
        f"exact tests do not support {type(module).__name__}; use conv='gin' or 'graphconv' without edge features (GCN has square roots)."
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
        raise ValueError("the encoder was made for edge features, but exact tests cover only graphs without edge features.")
    return "gin" if module.eps.requires_grad else "gin-0"


@merge_of.register
def _(module: Folklore) -> Merge:
    if module.edge_encoders:
        raise ValueError("the encoder was made for edge features, but exact tests cover only graphs without edge features.")
    return "folklore" if module.eps.requires_grad else "folklore-0"


@singledispatch
def pool_of(pooling: nn.Module) -> Pool:
    """Turn a pooling into data. ``pool_of.register`` adds another kind."""
    raise ValueError(f"exact tests do not support the pooling {pooling!r}; use another pooling of reign.nn.")


@pool_of.register
def _(pooling: MeanPooling) -> Pool:
    return Flat(pooling.over_nodes, pooling.over_subgraphs)


@pool_of.register
def _(pooling: DeepSets) -> Pool:
    return Nested(pooling.over_nodes, "mean", len(pooling.each), pooling.invariance == "late")


@pool_of.register
def _(pooling: RootPooling) -> Pool:
    if pooling.unit:
        raise ValueError(
            "exact tests do not support a pooling of roots of unit length, because it has square roots; use unit=False."
        )
    return Roots(pooling.over_roots)


@pool_of.register
def _(pooling: OuterMPNN) -> Pool:
    layers = [rule_of(layer) for layer in pooling.layers]
    return Outer(tuple(layer for layer in layers if isinstance(layer, Layer)), pooling.over_nodes, pooling.over_graph)


@pool_of.register
def _(pooling: IGNPooling) -> Pool:
    return OnAndOff(pooling.over)


@pool_of.register
def _(pooling: ReadoutPooling) -> Pool:
    return Nested("sum", "mean")


@pool_of.register
def _(pooling: SumPooling) -> Pool:
    return OnAndPerNode()
