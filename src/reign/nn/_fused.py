"""The plan of a layer for fused kernels on a GPU and for blocks of rows on a CPU: which slots are computed together.

All maps on nodes and subgraphs (single terms, base encoders on the graph, terms of roots) form one stack of MLPs, evaluated together. All
slots on pairs, the addition of all parts, the roots and the activation form one stage, which also returns the sums of the new values that
the next layer needs. If some part of a layer is not covered by a kernel, the layer runs with plain operations.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from reign.bags import Where, narrow_edges, narrow_near, narrow_pairs
from reign.kernels import INNER, OUTER, blocked, stages_for
from reign.nn._base_encoders import GIN
from reign.nn._covered import ends_with_norm, hooked, known_to_be_covered, modules_inside, watched
from reign.nn._messages import messages_of, types_of_edges
from reign.nn._mlp import BatchNorm, normalise
from reign.nn._needed_sums import SUMS, needs, passes, with_sums
from reign.nn._neighbourhood import EdgeAttr, Neighbourhood
from reign.nn._slots import EncoderSlot, Slot
from reign.nn._stacks import shape_of, stack_of
from reign.nn._state import State

if TYPE_CHECKING:
    from reign.nn._conv import SubgraphConv

WORTH_BLOCKS = 2**18  # numbers of a layer's output; smaller ones lie in the cache, and plain operations take less time


def update_fused(conv: "SubgraphConv", state: State, edge_attr: EdgeAttr, shortcut: nn.Module | None) -> State | None:
    """The new state of a layer with its shortcut, or None where it has to run with plain operations."""
    bag, kernels = state.bag, stages_for(state.h)
    if kernels is None or bag.num_pairs == 0 or bag.edge_weight is not None:
        return None
    small = bag.num_pairs * conv.out_channels < WORTH_BLOCKS
    if kernels is blocked and (small or bag.real("pair") is not None):
        return None
    picks_nodes = any(isinstance(slot, EncoderSlot) and slot.scope == "node" for slot in conv.slots(on=True))
    if picks_nodes and not bag.node_based:  # norms take their statistics over all nodes, and only some are roots
        return None
    inside = modules_inside(conv)
    if not known_to_be_covered(conv, inside, kernels.WIDEST) or (kernels is blocked and watched(inside)):
        return None
    state.h = state.h.contiguous()
    update = _Update(conv, state, edge_attr, kernels, inside)
    in_stage = shortcut is None or (kernels is blocked and type(shortcut) in (nn.Identity, nn.Linear) and not hooked(shortcut))
    if in_stage and not ends_with_norm(conv):
        return update.run(shortcut)
    state.wanted = frozenset()  # sums are of the final values
    new = update.run()
    out = normalise(conv.norm, new.h, state.norm_rows("pair"), conv.act) if ends_with_norm(conv) else new.h
    return new.next(new.masked_values(out if shortcut is None else out + shortcut(state.h)), {})


@dataclass
class _NodeSlot:
    """A slot on nodes, subgraphs or roots: its input, the sum that its result is added to, and the kind of its rows."""

    slot: Slot
    input: Any
    into: str
    rows: str


@dataclass
class _Update:
    """One update of a state by a layer."""

    conv: "SubgraphConv"
    state: State
    edge_attr: EdgeAttr
    kernels: ModuleType
    inside: list[nn.Module]

    def run(self, shortcut: nn.Module | None = None) -> State:
        """Evaluate the layer, in blocks with its shortcut."""
        conv, state, bag = self.conv, self.state, self.state.bag
        roots_apart = conv.root_terms is not None
        pairs = narrow_pairs(bag, roots_apart, state.masked)
        if roots_apart and pairs.root is None:
            raise ValueError(bag.wiring.rootless())
        with_sums(state, self.kernels, needs(conv))
        types_of_edges(state, self.edge_attr)  # before the work splits into two streams
        with self._aside() as join:
            nodes = [self._node_slot(slot, "off") for slot in conv.slots() if slot.scope in ("subgraph", "node")]
            nodes += [self._node_slot(slot, "on") for slot in conv.slots(on=True) if not _everywhere(slot)]
            found = self._node_stages(nodes)
            for slot in conv.slots(on=True):
                if _everywhere(slot):
                    value = self._encode_everywhere(slot)
                    found["root"] = found["root"] + value if "root" in found else value
        for slot in conv.slots():
            if slot.scope == "graph":
                value = bag.wiring.sub_to_graph.t(slot(state, "off", roots_apart, self.edge_attr))
                found["subgraph"] = found["subgraph"] + value if "subgraph" in found else value
        others: list[Tensor] = []
        padded = bag.real("pair") is not None
        inner = INNER if padded or state.masked else 0
        stage = self.kernels.PairStage(
            pairs,
            [self._pair_slot(slot, others) for slot in conv.slots() if slot.scope == "pair"],
            inner,
            OUTER if inner or roots_apart else 0,
            isinstance(conv.act, nn.ReLU) and not ends_with_norm(conv),
            state.masked,
            conv.training,
            narrow_near(bag)[0] if "near" in state.wanted else None,
            state.wanted,
        )
        more = {} if shortcut is None else {"shortcut": shortcut}
        out = stage(state.h, found.get("subgraph"), found.get("node"), found.get("root"), others, join, **more)
        _count_batches(conv, self.inside)
        return state.next(out[0], dict(zip(SUMS, out[1:], strict=True)))

    @contextmanager
    def _aside(self) -> Iterator[Callable[[], None]]:
        """In a CUDA graph, run the work on nodes and subgraphs in parallel with the work on pairs, until the yielded function is called."""
        simple = all(slot.scope != "graph" and (isinstance(slot, EncoderSlot) or slot.name == "own") for slot in self._pair_slots())
        if not simple or not self.state.h.is_cuda or not torch.cuda.is_current_stream_capturing():
            yield lambda: None
            return
        main, side = torch.cuda.current_stream(), _side_stream(self.state.h.device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            yield lambda: main.wait_stream(side)

    def _pair_slots(self) -> list[Slot]:
        return [slot for slot in self.conv.slots() if slot.scope in ("pair", "graph")]

    # -- nodes, subgraphs and roots --------------------------------------------------------------------------------

    def _node_slot(self, slot: Slot, where: Where) -> _NodeSlot:
        into = "root" if where == "on" else slot.scope
        rows = "sub" if where == "on" or slot.scope == "subgraph" else "node"
        if not isinstance(slot, EncoderSlot):
            return _NodeSlot(slot, self.kernels.NodeInput(self.state.get(slot.term, where)), into, rows)
        assert isinstance(slot.encoder, GIN)
        bag, on_pairs = self.state.bag, slot.scope == "pair"
        near = Neighbourhood(self.state, slot.name, where if on_pairs else "off", self.edge_attr, None)
        if not passes(slot) or near.averaged or (on_pairs and near.neighbours != "Ak"):
            return _NodeSlot(slot, self.kernels.NodeInput(slot.encoder.collected(near)), into, rows)
        edges = narrow_near(bag)[1] if on_pairs else narrow_edges(bag, near.neighbours)
        source = self.state.once(("near",), lambda: self.state.near) if on_pairs else None
        return _NodeSlot(
            slot, self.kernels.NodeInput(near.own, messages_of(slot.encoder, edges, near, self.kernels), source), into, rows
        )

    def _node_stages(self, slots: Sequence[_NodeSlot]) -> dict[str, Any]:
        """Stacks of slots of one shape, each with its sums for subgraphs, nodes and roots, which some kernels compute later."""
        same_rows = self.state.bag.node_based
        groups: dict[Any, list[_NodeSlot]] = {}
        for slot in sorted(slots, key=lambda slot: slot.input.messages is not None):
            groups.setdefault((shape_of(slot.slot), "node" if same_rows else slot.rows), []).append(slot)
        found: dict[str, Any] = {}
        for (_, rows), members in groups.items():
            into = sorted({slot.into for slot in members})
            own, real = members[0].input.own, self.state.bag.real(rows)
            flags = own if real is None else self._flags(rows, real)
            bit = 0 if real is None else 1
            stage = self.kernels.NodeStage(
                stack_of(self.kernels, [slot.slot for slot in members]),
                tuple(into.index(slot.into) for slot in members),
                self.kernels.Rows(own.size(0), flags, bit, bit),
                self.conv.training,
            )
            sums = stage([slot.input for slot in members])
            for name, value in zip(into, sums, strict=True):
                found[name] = found[name] + value if name in found else value
        return found

    def _flags(self, rows: str, real: Tensor) -> Tensor:
        """Which rows are real and not padding, in the format of the kernels."""
        return self.state.once_for_all(("flags", rows), lambda: real.to(torch.int32))

    # -- pairs -----------------------------------------------------------------------------------------------------

    def _pair_slot(self, slot: Slot, others: list[Tensor], outer: bool = True) -> Any:
        stack = stack_of(self.kernels, [slot], outer)
        if not isinstance(slot, EncoderSlot):
            if slot.term.name == "own":
                return self.kernels.PairSlot(stack)
            others.append(slot.value(self.state).contiguous())
            return self.kernels.PairSlot(stack, other=len(others) - 1)
        assert isinstance(slot.encoder, GIN)
        near = Neighbourhood(self.state, slot.name, "off", self.edge_attr, None)
        if not passes(slot) or near.averaged:
            others.append(slot.encoder.collected(near).contiguous())
            return self.kernels.PairSlot(stack, other=len(others) - 1)
        edges = narrow_edges(self.state.bag, near.neighbours)
        return self.kernels.PairSlot(stack, messages_of(slot.encoder, edges, near, self.kernels))

    def _encode_everywhere(self, slot: Slot) -> Tensor:
        """What an encoder of roots gives there if it is evaluated at all pairs."""
        assert isinstance(slot, EncoderSlot)
        state, others = self.state, list[Tensor]()
        pairs = narrow_pairs(state.bag, False, state.masked)
        inner = INNER if state.bag.real("pair") is not None or state.masked else 0
        slots = [self._pair_slot(slot, others, outer=False)]
        stage = self.kernels.PairStage(
            pairs, slots, inner, inner and OUTER, False, state.masked, self.conv.training, None, frozenset({"root"})
        )
        out = stage(state.h, None, None, None, others)
        return slot.at_roots(state, out[1 + SUMS.index("root")])


def _everywhere(slot: Slot) -> bool:
    """Whether the slot is an encoder of roots that is evaluated at all pairs."""
    return isinstance(slot, EncoderSlot) and slot.everywhere


@cache
def _side_stream(device: torch.device) -> Any:
    """A second stream of a device, for work that can run in parallel."""
    return torch.cuda.Stream(device)


def _count_batches(conv: "SubgraphConv", inside: list[nn.Module]) -> None:
    """Increase the batch counters of all batch norms of a layer at once, as training does."""
    if conv.training:
        elsewhere = {conv.norm, *(slot.norm for slot in conv.slots(on=True) if _everywhere(slot))}  # these count themselves
        elsewhere |= {module for slot in conv.slots() if slot.scope == "graph" for module in slot.modules()}
        norms = [m for m in inside if isinstance(m, BatchNorm) and m not in elsewhere]
        counters = [m.num_batches_tracked for m in norms if m.num_batches_tracked is not None]
        if counters:
            torch._foreach_add_(counters, 1)
