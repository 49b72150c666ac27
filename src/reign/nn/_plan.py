"""How a layer is evaluated: by its own modules, or by stages of kernels, which are fused on a GPU and work in blocks of rows on a CPU.

All maps on nodes and subgraphs (single terms, base encoders on the graph, terms of roots) form one stack of MLPs, evaluated together. All
slots on pairs, the addition of all parts, the roots and the activation form one stage, which also returns the sums of the new values that
the next layer needs. If some part of a layer is not covered by stages, the layer runs with plain operations, which define what a layer is.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reign.bags import SubgraphBag, Where, kernel_edges, kernel_near, kernel_pairs
from reign.kernels import BACKENDS, INNER, OUTER, CountedRows, Limits, NodeInput, Norms, PairSlot, Stack, stages_for
from reign.nn._convs import GIN, types_of_edges
from reign.nn._encoders import EdgeAttr
from reign.nn._mlp import MLP, BatchNorm, Linear, NoNorm, normalise
from reign.nn._slots import EncoderSlot, Neighbourhood, Slot, TermLayer
from reign.nn._state import State
from reign.nn._terms import SUMS, TERMS

Added = dict[str, Any]  # sums of stages on nodes, subgraphs and roots, by what they are added to; some kernels compute them later
_plans: "WeakKeyDictionary[nn.Module, tuple[object, LayerPlan]]" = WeakKeyDictionary()  # what a plan was made from, and the plan


class LayerPlan:
    """A layer as stages take it: which slots are computed together, and what about the layer no stage can compute.

    Args:
        layer: the layer.
        inside: all modules inside of it.
    """

    def __init__(self, layer: TermLayer, inside: list[nn.Module]) -> None:
        slots, root_slots = layer.slots(), layer.slots(on=True)
        self.pairs = [slot for slot in slots if slot.scope == "pair"]
        self.graphs = [slot for slot in slots if slot.scope == "graph"]
        self.everywhere = [slot for slot in root_slots if isinstance(slot, EncoderSlot) and slot.everywhere]
        self.rows: list[tuple[Slot, Where]] = [(slot, "off") for slot in slots if slot.scope in ("subgraph", "node")]
        self.rows += [(slot, "on") for slot in root_slots if slot not in self.everywhere]
        self.picks_nodes = any(isinstance(slot, EncoderSlot) and slot.scope == "node" for slot in root_slots)
        self.ends_with_norm = not isinstance(layer.norm, NoNorm)  # the norm and the activation then follow after the stage
        self.needs, self.inside = layer.needs, inside
        self.widest = max([layer.in_channels, *(m.out_features for m in inside if isinstance(m, nn.Linear))])
        self.reason = _reason(layer, self)
        self.norms = [] if self.reason is not None else self._norms_of_stages()

    def unsupported(self, limits: Limits) -> str | None:
        """What about the layer is not supported by kernels with these limits, or None if all is."""
        if self.reason is None and limits.channels is not None and self.widest > limits.channels:
            return f"it has {self.widest} channels, and kernels take up to {limits.channels}"
        return self.reason

    def _norms_of_stages(self) -> list[BatchNorm]:
        """The batch norms that stages compute, and whose batches they count: those of maps, and those after encoders. All others run as modules."""
        slots = [*self.pairs, *(slot for slot, _ in self.rows), *self.everywhere]
        after = [slot.norm for slot in slots if isinstance(slot, EncoderSlot) and slot not in self.everywhere]
        inner = [module for slot in slots for module in slot.maps.modules()]
        return list(dict.fromkeys(norm for norm in [*inner, *after] if isinstance(norm, BatchNorm)))


def plan_of(layer: TermLayer) -> LayerPlan:
    """The plan of a layer. It is made once, as long as the modules inside of the layer, and their norms, stay the same."""
    inside = _modules_inside(layer)
    made_from = inside, [(m.momentum is None, m.running_mean is None) for m in inside if isinstance(m, BatchNorm)]
    if layer not in _plans or _plans[layer][0] != made_from:
        _plans[layer] = made_from, LayerPlan(layer, inside)
    return _plans[layer][1]


def _modules_inside(module: nn.Module) -> list[nn.Module]:
    """All modules inside of a module; ``modules()`` takes several times as long, which counts where batches are small."""
    inside = [m for m in module._modules.values() if m is not None]
    for m in inside:
        inside.extend(inner for inner in m._modules.values() if inner is not None)
    return list(dict.fromkeys(inside))


# -- what stages support -----------------------------------------------------------------------------------------------


def runs_where(layer: TermLayer) -> str:
    """Where a layer is computed in stages, and why not elsewhere.

    >>> from reign.nn import SubgraphConv
    >>> runs_where(SubgraphConv(8, 200, ["own+local"]))
    'in blocks on a CPU, but not fused on a GPU, because it has 200 channels, and kernels take up to 128'
    """
    plan = plan_of(layer)
    if plan.reason is not None:
        return f"plain operations, because {plan.reason}"
    reasons = {limits.name: plan.unsupported(limits) for limits in BACKENDS}
    supported = ", ".join(name for name, reason in reasons.items() if reason is None)
    return supported + "".join(f", but not {name}, because {reason}" for name, reason in reasons.items() if reason is not None)


def plan_for(layer: TermLayer, bag: SubgraphBag, limits: Limits) -> LayerPlan | str:
    """The plan of a layer, or why the layer has to run with plain operations on a bag, as stages with these limits cannot compute it."""
    if bag.num_pairs == 0 or bag.num_pairs * layer.out_channels < limits.numbers:
        return "the batch is small"
    if bag.edge_weight is not None:
        return "edges have weights"
    if torch.is_autocast_enabled(bag.device.type) and any(weight.dtype != torch.float32 for weight in layer.parameters()):
        return "the weights are not float32"
    if bag.missing is not None:
        return "some nodes have no subgraph"
    if not limits.padding and bag.real("pair") is not None:
        return "the bag is padded"
    plan = plan_of(layer)
    if plan.picks_nodes and not bag.node_based:
        return "norms take their statistics over all nodes, and only some are roots"
    if limits.hooks and _watched(plan.inside):
        return "a module inside has hooks, which only run where it is called"
    return plan.unsupported(limits) or plan


def _reason(layer: TermLayer, plan: LayerPlan) -> str | None:
    """What about a layer no stage can compute, or None."""
    if not plan.pairs:
        return "no term has a value for each pair"
    if layer.roots != "apart":
        return "the terms of roots are added to those of all pairs"
    if (plan.ends_with_norm and layer.root_terms is not None) or not isinstance(layer.root_norm, NoNorm | None):
        return "the sum of all terms is normalised, and roots have terms of their own"
    if not isinstance(layer.act, nn.ReLU | nn.Identity):
        return f"the activation is {type(layer.act).__name__}, and kernels compute ReLU"
    reasons = (_reason_of(slot) for slot in [*layer.slots(), *layer.slots(on=True)])
    return _reason_of_norm(layer.norm) or next((reason for reason in reasons if reason is not None), None)


def _reason_of(slot: Slot) -> str | None:
    """None for a linear map, or an MLP with ReLU and with batch norms or no norms."""
    if isinstance(slot, EncoderSlot):
        if not isinstance(slot.encoder, GIN):
            return f"the base encoder of {slot.name} is {type(slot.encoder).__name__}, and kernels compute GIN"
        return _reason_of_norm(slot.norm) or _reason_of_mlp(slot.encoder.mlp)
    if type(slot.transform) is MLP:
        return _reason_of_mlp(slot.transform)
    return None if type(slot.transform) is Linear else f"the transform of {slot.name} is {type(slot.transform).__name__}"


def _reason_of_mlp(mlp: MLP) -> str | None:
    if not isinstance(mlp.act, nn.ReLU):
        return f"the activation is {type(mlp.act).__name__}, and kernels compute ReLU"
    for lin in (mlp.lin1, mlp.lin2):
        if type(lin).forward is not nn.Linear.forward:
            return f"a linear map is {type(lin).__name__}, which has a forward of its own"
    return _reason_of_norm(mlp.norm)


def _reason_of_norm(norm: nn.Module) -> str | None:
    if isinstance(norm, NoNorm) or (isinstance(norm, BatchNorm) and norm.momentum is not None and norm.running_mean is not None):
        return None
    return f"a norm is {type(norm).__name__}, and kernels compute batch norm with a momentum"


def _watched(inside: list[nn.Module]) -> bool:
    """Whether some of the modules inside of a layer has hooks, which only run where the module itself is called."""
    every = nn.modules.module
    hooks = every._global_forward_hooks or every._global_forward_pre_hooks or every._global_backward_hooks
    return bool(hooks) or any(_hooked(m) for m in inside)


def _hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks)


# -- backends: functions of a layer, a state, edge features and the map of the residual connection ----------------------


def update(layer: TermLayer, state: State, edge_attr: EdgeAttr, shortcut: nn.Module | None) -> State:
    """The new state of a layer with its shortcut: in stages of kernels where these support it, otherwise with plain operations."""
    kernels = stages_for(state.h)
    plan = "there are no kernels" if kernels is None else plan_for(layer, state.bag, kernels.LIMITS)
    if kernels is None or isinstance(plan, str):
        return update_plainly(layer, state, edge_attr, shortcut)
    return _Update(layer, plan, state, edge_attr, kernels).run(shortcut)


def update_plainly(layer: TermLayer, state: State, edge_attr: EdgeAttr, shortcut: nn.Module | None) -> State:
    """The new state of a layer, by its own modules."""
    wiring, roots_apart = state.bag.wiring, layer.root_norm is not None
    out = _all_pairs(layer, state, roots_apart, edge_attr)
    if layer.root_terms is not None and not roots_apart:
        out = out.index_add(0, wiring.root_row, _roots(layer, state, edge_attr))
    rows = None if isinstance(layer.norm, NoNorm) else state.norm_rows("pair", "off", roots_apart)
    out = normalise(layer.norm, out, rows, layer.act)
    if layer.root_norm is not None:
        roots = normalise(layer.root_norm, _roots(layer, state, edge_attr), state.norm_rows("subgraph", "on"), layer.act)
        out = out.index_copy(0, wiring.root_row, roots)
    return state.next(state.masked_values(out if shortcut is None else out + shortcut(state.h)), {})


def _all_pairs(layer: TermLayer, state: State, roots_apart: bool, edge_attr: EdgeAttr) -> Float[Tensor, "pairs out_channels"]:
    """Transform every term where its values live, then broadcast the sums from graphs to subgraphs to pairs, and from nodes to pairs."""
    return state.bag.wiring.on_pairs((slot.scope, slot(state, "off", roots_apart, edge_attr)) for slot in layer.slots())


def _roots(layer: TermLayer, state: State, edge_attr: EdgeAttr) -> Float[Tensor, "subgraphs out_channels"]:
    """The sum of the root terms."""
    return _add([slot(state, "on", layer.root_norm is not None, edge_attr) for slot in layer.slots(on=True)])


def _add(values: list[Tensor]) -> Tensor:
    return sum(values[1:], values[0])


@dataclass
class _Update:
    """One update of a state by a layer, in stages."""

    layer: TermLayer
    plan: LayerPlan
    state: State
    edge_attr: EdgeAttr
    kernels: ModuleType

    def run(self, shortcut: nn.Module | None) -> State:
        """The new state. What the stages do not do follows after them: the norm of the sum of all terms, and some shortcuts."""
        layer, state, ends_with_norm = self.layer, self.state, self.plan.ends_with_norm
        mixed = torch.is_autocast_enabled(state.h.device.type)  # rows are then stored in bfloat16
        state.h = state.h.to(torch.bfloat16 if mixed else state.h.dtype).contiguous()
        linear = type(shortcut) in (nn.Identity, nn.Linear) and self.kernels.LIMITS.shortcut
        if (shortcut is None or (linear and not _hooked(shortcut))) and not ends_with_norm:
            return self.in_stages(shortcut)
        state.wanted = frozenset()  # sums are of the final values
        new = self.in_stages()
        out = normalise(layer.norm, new.h, state.norm_rows("pair"), layer.act) if ends_with_norm else new.h
        return new.next(new.masked_values(out if shortcut is None else out + shortcut(state.h)), {})

    def in_stages(self, shortcut: nn.Module | None = None) -> State:
        """Evaluate the stages, and the shortcut in the last of them."""
        layer, plan, state, bag = self.layer, self.plan, self.state, self.state.bag
        roots_apart = layer.root_terms is not None
        if roots_apart and kernel_pairs(bag, True, state.masked).root is None:
            raise ValueError(bag.wiring.rootless())
        self._compute_sums()
        types_of_edges(state, self.edge_attr)  # before the work splits into two streams
        with self._aside() as join:
            added = self._node_stages()
            for encoder in plan.everywhere:
                _add_to(added, "root", self._encode_everywhere(encoder))
        for slot in plan.graphs:
            _add_to(added, "subgraph", bag.wiring.sub_to_graph.t(slot(state, "off", roots_apart, self.edge_attr)))
        others: list[Tensor] = []
        act = isinstance(layer.act, nn.ReLU) and not plan.ends_with_norm
        stage = self._pair_stage([self._pair_slot(slot, others) for slot in plan.pairs], roots_apart, act, state.wanted)
        out = stage(state.h, added.get("subgraph"), added.get("node"), added.get("root"), others, join, shortcut)
        if layer.training:
            counters = [norm.num_batches_tracked for norm in plan.norms if norm.num_batches_tracked is not None]
            if counters:
                torch._foreach_add_(counters, 1)
        return state.next(out[0], dict(zip(SUMS, out[1:], strict=True)))

    def _compute_sums(self) -> None:
        """Compute the sums that the layer needs, unless the state has them already."""
        state, needs = self.state, self.plan.needs
        if state.has(needs):
            return
        pairs = kernel_pairs(state.bag, False, state.masked)
        if pairs.root is None:
            needs -= {"root", "near"}
        out = self.kernels.sums(state.h, pairs, _picks(state.bag, needs), needs)
        state.h = out[0]
        state.add(dict(zip(SUMS, out[1:], strict=True)))

    @contextmanager
    def _aside(self) -> Iterator[Callable[[], None]]:
        """In a CUDA graph, run the work on nodes and subgraphs in parallel with the work on pairs, until the yielded function is called."""
        own = TERMS["own"]
        simple = not self.plan.graphs and all(isinstance(slot, EncoderSlot) or slot.term is own for slot in self.plan.pairs)
        if not simple or not self.state.h.is_cuda or not torch.cuda.is_current_stream_capturing():
            yield lambda: None
            return
        main, side = torch.cuda.current_stream(), _side_stream(self.state.h.device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            yield lambda: main.wait_stream(side)

    # -- nodes, subgraphs and roots --------------------------------------------------------------------------------

    def _read(self, slot: Slot, where: Where = "off") -> NodeInput:
        """What the maps of a slot read: a term, or the values that an encoder collects, where kernels can as values and the messages to them."""
        if not isinstance(slot, EncoderSlot):
            return NodeInput(slot.value(self.state, where, self.edge_attr))
        assert isinstance(slot.encoder, GIN)
        bag, at_roots = self.state.bag, where == "on" and slot.scope == "pair"
        near = Neighbourhood(self.state, slot.merge, "on" if at_roots else "off", self.edge_attr, None)
        if not slot.merge.passes or near.averaged or (at_roots and near.neighbours != "Ak"):
            return NodeInput(slot.encoder.collected(near))
        edges = kernel_near(bag)[1] if at_roots else kernel_edges(bag, near.neighbours)
        return NodeInput(near.own, slot.encoder.messages(edges, near, self.kernels), self.state.near if at_roots else None)

    def _node_stages(self) -> Added:
        """Stacks of slots of one shape, each with its sums for subgraphs, nodes and roots, which some kernels compute later."""
        bag = self.state.bag
        groups: dict[Any, list[tuple[Slot, NodeInput, str]]] = {}
        read = [(slot, self._read(slot, where), "root" if where == "on" else slot.scope) for slot, where in self.plan.rows]
        for slot, given, into in sorted(read, key=lambda one: one[1].messages is not None):
            rows = "node" if bag.node_based or into == "node" else "sub"
            groups.setdefault((_shape_of(slot), rows), []).append((slot, given, into))
        added: Added = {}
        for (_, rows), members in groups.items():
            slots, inputs, places = zip(*members, strict=True)
            names = sorted(set(places))
            real = bag.real(rows)
            flags = inputs[0].own if real is None else self._flags(rows, real)
            bit = 0 if real is None else 1
            counted = CountedRows(inputs[0].own.size(0), flags, bit, bit)
            stage = self.kernels.NodeStage(_stack_of(slots), tuple(map(names.index, places)), counted, self.layer.training)
            for name, value in zip(names, stage(inputs), strict=True):
                _add_to(added, name, value)
        return added

    def _flags(self, rows: str, real: Tensor) -> Tensor:
        """Which rows are real and not padding, in the format of the kernels."""
        return self.state.once_for_all(("flags", rows), lambda: real.to(torch.int32))

    # -- pairs -----------------------------------------------------------------------------------------------------

    def _pair_slot(self, slot: Slot, others: list[Tensor], outer: bool = True) -> PairSlot:
        stack, read = _stack_of([slot], outer), self._read(slot)
        if read.messages is not None or read.own is self.state.h:
            return PairSlot(stack, read.messages)
        others.append(read.own.contiguous())
        return PairSlot(stack, other=len(others) - 1)

    def _pair_stage(self, slots: list[PairSlot], roots_apart: bool, act: bool, wanted: frozenset[str]) -> Any:
        """The computation on pairs. Padding and pairs that are masked do not count for norms, and roots apart not for those after slots."""
        bag, masked = self.state.bag, self.state.masked
        inner = INNER if bag.real("pair") is not None or masked else 0
        pairs, outer = kernel_pairs(bag, roots_apart, masked), OUTER if inner or roots_apart else 0
        return self.kernels.PairStage(pairs, slots, inner, outer, act, masked, self.layer.training, _picks(bag, wanted), wanted)

    def _encode_everywhere(self, slot: EncoderSlot) -> Tensor:
        """What an encoder of roots gives there if it is evaluated at all pairs."""
        others = list[Tensor]()
        stage = self._pair_stage([self._pair_slot(slot, others, outer=False)], False, False, frozenset({"root"}))
        out = stage(self.state.h, None, None, None, others)
        return slot.at_roots(self.state, out[1 + SUMS.index("root")])


def _picks(bag: SubgraphBag, wanted: frozenset[str]) -> Any:
    return kernel_near(bag)[0] if "near" in wanted else None


def _add_to(added: Added, name: str, value: Any) -> None:
    added[name] = added[name] + value if name in added else value


@cache
def _side_stream(device: torch.device) -> Any:
    """A second stream of a device, for work that can run in parallel."""
    return torch.cuda.Stream(device)


# -- the weights of slots ----------------------------------------------------------------------------------------------


def _shape_of(slot: Slot) -> tuple[bool, int, int, bool]:
    """The shape of a slot: whether it is linear, its hidden and input channels, and whether it has an inner norm. Slots of equal shape can
    be stacked."""
    maps: Any = slot.maps
    if isinstance(maps, Linear):
        return True, 0, maps.in_features, False
    return False, maps.lin1.out_features, maps.lin1.in_features, isinstance(maps.norm, BatchNorm)


def _stack_of(slots: Sequence[Slot], outer_norm: bool = True) -> Stack:
    """The weights of some slots of the same shape; ``outer_norm`` says whether the norms after encoders are part of it."""
    maps: list[Any] = [slot.maps for slot in slots]
    outer = _norms([slot.norm if isinstance(slot, EncoderSlot) and outer_norm else None for slot in slots])
    if isinstance(maps[0], Linear):
        return Stack([m.weight for m in maps], [_bias(m) for m in maps], outer=outer)
    return Stack(
        [m.lin1.weight for m in maps],
        [_bias(m.lin1) for m in maps],
        _norms([m.norm for m in maps]),
        [m.lin2.weight for m in maps],
        [_bias(m.lin2) for m in maps],
        outer,
    )


def _norms(norms: Sequence[nn.Module | None]) -> Norms | None:
    real = [norm if isinstance(norm, BatchNorm) else None for norm in norms]
    some = next((norm for norm in real if norm is not None), None)
    if some is None:
        return None
    names = ("weight", "bias", "running_mean", "running_var")
    scale, shift, mean, var = ([None if norm is None else getattr(norm, name) for norm in real] for name in names)
    return Norms(scale, shift, mean, var, some.momentum, some.eps)  # type: ignore[arg-type]


def _bias(linear: nn.Linear) -> Tensor:
    """The bias of a linear map, or zeros if it has none."""
    return _zeros(linear.out_features, linear.weight.device, linear.weight.dtype) if linear.bias is None else linear.bias


@cache
def _zeros(channels: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Zeros that stay where they are: kernels keep the addresses of weights."""
    return torch.zeros(channels, dtype=dtype, device=device)
