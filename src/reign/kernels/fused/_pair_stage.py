"""A whole layer on pairs as one stage: the slots, the sum of their results and of other terms, the roots, and the activation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from reign.kernels._plan import PairPlan, PairSlot, Stack
from reign.kernels.fused import _rows, _stack
from reign.kernels.fused._launch import launch
from reign.kernels.fused._linear import add_up, chunks
from reign.kernels.fused._passing import collect, collect_back
from reign.kernels.fused._stack import Saved, norm_sums, numbers
from reign.kernels.fused._sums import segment_sum, sums_back, sums_of

COMBINE = (32, 4)


@dataclass(frozen=True, eq=False)
class PairStage(PairPlan):
    """The computation on pairs, in fused kernels."""

    def __post_init__(self) -> None:
        self.slots.sort(key=lambda slot: slot.stack.outer is not None)  # results that no norm follows are not stored

    @property
    def plain(self) -> int:
        """The number of slots that no norm follows. These slots come first."""
        return sum(slot.stack.outer is None for slot in self.slots)

    @cached_property
    def groups(self) -> list[tuple[int, Stack]]:
        """The slots in groups of one or two that are evaluated together: the first slot of each group, and the maps."""
        found: list[tuple[int, Stack]] = []
        for t, slot in enumerate(self.slots):
            first, stack = found[-1] if found else (t, slot.stack)
            if found and stack.slots == 1 and stack.fits(slot.stack) and not slot.reads_as(self.slots[first]):
                found[-1] = first, stack.with_(slot.stack)
            else:
                found.append((t, slot.stack))
        return found

    def __call__(
        self,
        h: Tensor,
        subs: Tensor | None,
        nodes: Tensor | None,
        roots: Tensor | None,
        others: Sequence[Tensor] = (),
        join: Callable[[], None] = lambda: None,
        shortcut: None = None,
    ) -> tuple[Tensor | None, ...]:
        """The new values of the pairs, with their readout, needle, roots and selected rows (see ``sums``).

        Args:
            h: the values of the pairs.
            subs, nodes, roots: the values added for each subgraph and each node, and the new values of roots.
            others: inputs of slots that read other values.
            join: function that is called when ``subs``, ``nodes`` and ``roots`` are needed; they may be computed in parallel with the slots.
            shortcut: is not supported.
        """
        between = _Between()
        weights = [w for slot in self.slots for w in slot.parameters()]
        plain, normed = _Slots.apply(self, between, len(others), h, *others, *weights)  # type: ignore[no-untyped-call]
        join()
        return _Combine.apply(self, between, plain, normed, subs, nodes, roots)  # type: ignore[no-untyped-call, no-any-return]


@dataclass(eq=False)
class _Between:
    """Values that the two halves of a stage share: statistics of the slots' results, and in the backward pass sums for the first norm."""

    stats: Tensor | None = None
    part: Tensor | None = None


class _Slots(torch.autograd.Function):
    """The slots of a stage. Their norms are applied later, so the incoming gradient is that of the normalised results, which is the same for
    all slots."""

    @staticmethod
    def forward(ctx: Any, stage: PairStage, between: _Between, number: int, h: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
        slots, channels = stage.slots, stage.slots[0].stack.out_channels
        plain = h.new_empty(stage.plain, stage.pairs.number, channels)
        normed = h.new_empty(len(slots) - stage.plain, stage.pairs.number, channels)
        y, stats = [*plain, *normed], h.new_empty(len(slots), 2, channels)
        made: list[Tensor | None] = []
        for slot in slots:
            made.append(None if slot.messages is None else torch.empty_like(h))
            if slot.messages is not None:
                collect([h], [h], [slot.messages], [made[-1]])  # type: ignore[list-item]
        x, kept = _inputs(stage, h, rest, made), list[Tensor | None]()
        for t, stack in stage.groups:
            end = t + stack.slots
            kept += _stack.forward(stack, x[t:end], stage.rows, stage.training, y[t:end], stats[t:end]).tensors()
        between.stats = stats
        ctx.stage, ctx.between, ctx.number = stage, between, number
        ctx.save_for_backward(h, normed, stats, *rest[:number], *made, *kept)
        return plain, normed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g_plain: Tensor, g_normed: Tensor) -> tuple[Any, ...]:
        stage, between, number = ctx.stage, ctx.between, ctx.number
        h, normed, stats, *saved = ctx.saved_tensors
        gy = (g_plain if stage.plain else g_normed)[0]
        others, made, kept = saved[:number], saved[number : number + len(stage.slots)], saved[number + len(stage.slots) :]
        x, y = _inputs(stage, h, others, made), [*[gy] * stage.plain, *normed]  # results without a norm are not read
        back, grads = _Back(h, others), list[list[Tensor | None]]()
        for t, stack in stage.groups:
            end, size = t + stack.slots, 4 + stack.slots * bool(stack.w2)
            group = numbers((0,) * stack.slots, h.device)
            sums = [_norm_sums(stage, between, normed, stats, n, gy) for n in range(max(t, stage.plain), end)]
            found = None if not sums else sums[0].expand(stack.slots, -1, -1) if len(sums) == 1 else torch.cat(sums)
            targets, add = back.targets(stage.slots[t:end])
            own = _stack.backward(stack, Saved.of(kept[:size]), x[t:end], y[t:end], stage.rows, gy, 0, group, found, targets, add)
            kept = kept[size:]
            grads += back.of_weights(stage.slots[t:end], own, targets)
        return None, None, None, back.gh if back.written else None, *back.others, *(g for slot in grads for g in slot)


def _inputs(stage: PairStage, h: Tensor, others: Sequence[Tensor], made: Sequence[Tensor | None]) -> list[Tensor]:
    """The inputs of the maps of each slot: values with messages, other values, or the values of the pairs."""
    found = []
    for slot, with_messages in zip(stage.slots, made, strict=True):
        x = h if slot.other is None else others[slot.other]
        found.append(x if with_messages is None else with_messages)
    return found


def _norm_sums(stage: PairStage, between: _Between, normed: Tensor, stats: Tensor, t: int, gy: Tensor) -> Tensor:
    """The sums that the norm after slot t needs. For the first norm they were computed when the gradient arrived."""
    if t > stage.plain:
        return norm_sums([normed[t - stage.plain]], stats[t : t + 1], stage.rows, gy, 0, numbers((0,), gy.device))
    assert between.part is not None
    found = add_up(between.part, gy.new_empty(1, 2 * gy.size(1))).view(1, 2, gy.size(1))
    between.part = None
    return found


class _Back:
    """Gradients of the inputs of slots, which are accumulated."""

    def __init__(self, h: Tensor, others: Sequence[Tensor]) -> None:
        self.h, self.gh, self.written = h, torch.empty_like(h), False
        self.like, self.others = others, list[Tensor | None]([None] * len(others))

    def targets(self, slots: Sequence[PairSlot]) -> tuple[list[Tensor], int]:
        """The tensors for the gradients of the maps' inputs, and a bit for each one that is added to existing values."""
        found, add = list[Tensor](), 0
        for t, slot in enumerate(slots):
            if slot.messages is not None:
                found.append(torch.empty_like(self.h))
            elif slot.other is not None:
                seen = self.others[slot.other]
                add |= int(seen is not None) << t
                self.others[slot.other] = seen = torch.empty_like(self.like[slot.other]) if seen is None else seen
                found.append(seen)
            else:
                add |= int(self.written) << t
                self.written = True
                found.append(self.gh)
        return found, add

    def of_weights(self, slots: Sequence[PairSlot], grads: list[Tensor], gx: Sequence[Tensor]) -> list[list[Tensor | None]]:
        """The gradients of the weights of each slot, from those of a stack. Gradients of messages are passed on to the pairs."""
        found = list[list[Tensor | None]]()
        for t, slot in enumerate(slots):
            own: list[Tensor | None] = []
            if slot.messages is not None:
                (table,), (eps,) = collect_back([gx[t]], [self.h], [slot.messages], [self.gh], own=True, add=self.written)
                self.written = True
                own = [eps] if slot.messages.table is None else [table, eps]
            found.append(own)
        for mine, share in zip(found, _shares(slots, grads), strict=True):
            mine += share
        return found


def _shares(slots: Sequence[PairSlot], grads: list[Tensor]) -> list[list[Tensor]]:
    """The gradients of a stack, slot by slot: those of the first weights of all slots come first, then those of the first biases, and so on."""
    left, found = list(grads), [list[Tensor]() for _ in slots]
    stacks = [slot.stack for slot in slots]
    parts = [
        [len(s.w1) for s in stacks], [len(s.b1) for s in stacks], [len(s.w2) for s in stacks], [len(s.b2) for s in stacks],
        *([int(s.inner is not None) for s in stacks],) * 2, *([int(s.outer is not None) for s in stacks],) * 2,
    ]  # fmt: skip
    for part in parts:
        for t, has in enumerate(part):
            found[t] += left[:has]
            left = left[has:]
    return found


class _Combine(torch.autograd.Function):
    """The sum of the normalised results and of the values of subgraphs and nodes, followed by roots, activation and sums of the result."""

    @staticmethod
    def forward(
        ctx: Any, stage: PairStage, between: _Between, plain: Tensor, normed: Tensor, subs: Tensor | None, nodes: Tensor | None,
        roots: Tensor | None,
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        pairs, (_, number, channels), stats = stage.pairs, plain.shape, between.stats
        assert stats is not None
        out, (tile, warps), (size, pieces) = plain.new_empty(number, channels), COMBINE, chunks(channels)
        some = plain if stage.plain else normed
        launch(_rows._combine, (triton.cdiv(number, tile), pieces),
            some, normed if normed.size(0) else some, stats, *_tables(stage), *(some if v is None else v for v in (subs, nodes, roots)),
            pairs.sub, pairs.node, pairs.flags, out, number, channels, PLAIN=stage.plain, NORMED=normed.size(0), BC=size, BM=tile,
            HAS_S=subs is not None, HAS_N=nodes is not None, HAS_R=roots is not None, ACT=stage.act, MASK=stage.masked, num_warps=warps,
        )  # fmt: skip
        ctx.stage, ctx.between = stage, between
        ctx.shapes = [None if v is None else v.shape for v in (subs, nodes, roots)]
        ctx.save_for_backward(out, normed, stats)
        return out, *sums_of(out, pairs, stage.picks, stage.wanted)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Any, ...]:
        stage, between = ctx.stage, ctx.between
        out, normed, stats = ctx.saved_tensors
        subs, nodes, roots = ctx.shapes
        g_roots = None if roots is None else out.new_zeros(roots)
        first = (normed[0], stats[stage.plain]) if normed.size(0) else None
        gy, between.part = sums_back(stage.pairs, stage.picks, given, out, g_roots, stage.act, stage.masked, first)
        g_subs = None if subs is None else segment_sum(gy, stage.pairs.to_sub)
        g_nodes = None if nodes is None else segment_sum(gy, stage.pairs.to_node)
        return None, None, gy.expand(stage.plain, *gy.shape), gy.expand(normed.size(0), *gy.shape), g_subs, g_nodes, g_roots


def _tables(stage: PairStage) -> tuple[Tensor, Tensor]:
    """The addresses of the scales and shifts of the norms, one per slot. A slot without a norm has the address of any other, which is not
    read."""
    norms = [slot.stack.outer for slot in stage.slots]
    some = next((n for n in norms if n is not None), None)
    if some is None:
        none = _stack.pointers(stage.slots[0].stack.b1)
        return none, none
    scale = _stack.pointers([(n or some).scale[0] for n in norms])  # type: ignore[misc]
    return scale, _stack.pointers([(n or some).shift[0] for n in norms])  # type: ignore[misc]
