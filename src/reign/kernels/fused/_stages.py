r"""A whole layer as two stages: all maps on nodes, subgraphs and roots; and all slots on pairs with what follows them.

.. math:: x^k_i = \sigma \Big( \sum_t \mathrm{norm}_t(y_t)^k_i + S_k + N_i \Big), \quad x^k_k = \sigma(R_k) \text{ if roots have their own terms}
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from reign.kernels._plan import NodeInput, NodePlan, PairPlan, PairSlot, PassedMessages, Stack
from reign.kernels.fused._launch import apart, block, chunks, floats, launch, numbers, pointers, row_type
from reign.kernels.fused._linear import Saved, _moments, addresses, backward_maps, forward_maps, norm_sums
from reign.kernels.fused._passing import collect, collect_back, own_back
from reign.kernels.fused._sums import Partial, add_up, all_sums, sums_back, sums_of

COMBINE = (32, 4)


@triton.jit
def _add_groups(
    y, stats, gamma, beta, group, norms, flags, out, R, C: tl.constexpr, T, BC: tl.constexpr, BM: tl.constexpr, MASKED: tl.constexpr
):
    """``out[q] = sum of norm_t(y_t)`` over the slots t of group q (axis 1)."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    q = tl.program_id(1)
    c = tl.arange(0, BC)
    m, ok = rows < R, c < C
    mok = m[:, None] & ok[None, :]
    at = rows[:, None].to(tl.int64) * C + c[None, :]
    counted = m
    if MASKED:
        counted = (tl.load(flags + rows, mask=m, other=0) & 1) != 0
    total = tl.zeros([BM, BC], tl.float32)
    for t in range(0, T):
        if tl.load(group + t) == q:
            value = tl.load(y + t * R.to(tl.int64) * C + at, mask=mok, other=0.0).to(tl.float32)
            if (norms >> t) & 1:
                mean, rstd, scale, shift = _moments(stats, gamma, beta, t, c, ok, C)
                value = (value - mean[None, :]) * (rstd * scale)[None, :] + shift[None, :]
                value = tl.where(counted[:, None], value, 0.0)
            total += value
    tl.store(out + q * R.to(tl.int64) * C + at, total, mask=mok)


@triton.jit
def _combine(
    plain, normed, stats, gamma, beta, S, N, R, sub, node, flags, out, P, C: tl.constexpr,
    PLAIN: tl.constexpr, NORMED: tl.constexpr, BC: tl.constexpr, BM: tl.constexpr,
    HAS_S: tl.constexpr, HAS_N: tl.constexpr, HAS_R: tl.constexpr, ACT: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    """The slots without a norm come first."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    m, ok = rows < P, c < C
    mok = m[:, None] & ok[None, :]
    at = rows[:, None].to(tl.int64) * C + c[None, :]
    bits = tl.load(flags + rows, mask=m, other=0)
    total = tl.zeros([BM, BC], tl.float32)
    for t in tl.static_range(PLAIN):
        total += tl.load(plain + t * P.to(tl.int64) * C + at, mask=mok, other=0.0).to(tl.float32)
    for t in tl.static_range(NORMED):
        value = tl.load(normed + t * P.to(tl.int64) * C + at, mask=mok, other=0.0).to(tl.float32)
        mean, rstd, scale, shift = _moments(stats, gamma, beta, PLAIN + t, c, ok, C)
        value = (value - mean[None, :]) * (rstd * scale)[None, :] + shift[None, :]
        total += tl.where(((bits & 2) != 0)[:, None], value, 0.0)
    if HAS_S or HAS_R:
        k = tl.load(sub + rows, mask=m, other=0)[:, None].to(tl.int64) * C + c[None, :]
    if HAS_S:
        total += tl.load(S + k, mask=mok, other=0.0).to(tl.float32)
    if HAS_N:
        i = tl.load(node + rows, mask=m, other=0)[:, None].to(tl.int64) * C + c[None, :]
        total += tl.load(N + i, mask=mok, other=0.0).to(tl.float32)
    if HAS_R:
        root = ((bits & 4) != 0)[:, None]
        total = tl.where(root, tl.load(R + k, mask=mok & root, other=0.0).to(tl.float32), total)
    if ACT:
        total = tl.maximum(total, 0.0)
    if MASK:
        total = tl.where(((bits & 8) != 0)[:, None], total, 0.0)
    tl.store(out + at, total, mask=mok)


@triton.jit
def _add_gradients(g, value, out, R, C: tl.constexpr, T, BC: tl.constexpr, BM: tl.constexpr):
    """``out[v] = sum of g[t]`` over all t of the value v (axis 1)."""
    rows, v = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    here = (rows < R)[:, None] & (c < C)[None, :]
    at = rows[:, None].to(tl.int64) * C + c[None, :]
    total = tl.zeros([BM, BC], tl.float32)
    for t in range(0, T):
        if tl.load(value + t) == v:
            total += tl.load(g + t * R.to(tl.int64) * C + at, mask=here, other=0.0).to(tl.float32)
    tl.store(out + v * R.to(tl.int64) * C + at, total, mask=here)


class NodeStage(NodePlan):
    """Slots on nodes and subgraphs, in fused kernels."""

    def __call__(self, inputs: Sequence[NodeInput]) -> tuple[Tensor, ...]:
        """The sum of the slots of each group, shape (rows, out). Inputs with messages come last."""
        kind, own = row_type(inputs[0].own), {id(one.own): one.own for one in inputs}  # several slots may read the same values
        values = tuple(list(own).index(id(one.own)) for one in inputs)
        sources = [None if one.source is None else one.source.to(kind).contiguous() for one in inputs]
        weights = [weight for one in inputs for weight in one.tensors()[2:]]
        out: tuple[Tensor, ...] = _NodeStage.apply(  # type: ignore[no-untyped-call]
            self, [one.messages for one in inputs], values, *(value.to(kind).contiguous() for value in own.values()), *sources, *weights,
            *self.stack.parameters(),
        )  # fmt: skip
        return out


class _NodeStage(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, stage: NodeStage, messages: list[PassedMessages | None], values: tuple[int, ...], *rest: Tensor
    ) -> tuple[Tensor, ...]:
        rows, stack, slots, number = stage.rows, stage.stack, len(messages), max(values) + 1
        own, source = [rest[v] for v in values], rest[number : number + slots]
        x = own[0].new_empty(slots, rows.number, own[0].size(1))
        plain = messages.count(None)
        if plain:
            torch.cat(own[:plain], out=x[:plain].view(-1, x.size(2)))
        for ts in _together(messages, source):
            collect([own[t] for t in ts], [_source(own, source, t) for t in ts], [messages[t] for t in ts], [x[t] for t in ts])  # type: ignore[misc]
        y = x.new_empty(slots, rows.number, stack.out_channels)
        saved = forward_maps(stack, list(x), rows, stage.training, list(y))
        channels, outer, none = stack.out_channels, stack.outer, pointers(stack.b1)
        out = x.new_empty(max(stage.groups) + 1, rows.number, channels)
        launch(_add_groups, (triton.cdiv(rows.number, 32), out.size(0)),
            y, y if saved.outer is None else saved.outer, none if outer is None else addresses(outer, "scale"),
            none if outer is None else addresses(outer, "shift"), numbers(stage.groups, x.device), 0 if outer is None else outer.mask,
            rows.flags, out, rows.number, channels, stack.slots, BC=block(channels), BM=32, MASKED=rows.outer != 0, num_warps=4,
        )  # fmt: skip
        ctx.stage, ctx.messages, ctx.values = stage, messages, values
        read = [None if m is None else t for m, t in zip(messages, own, strict=True)]
        ctx.save_for_backward(x, None if outer is None else y, *read, *source, *saved.tensors())
        return tuple(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor) -> tuple[Any, ...]:
        stage, messages, values, slots, later = ctx.stage, ctx.messages, ctx.values, len(ctx.messages), Partial()
        x, y, *rest = ctx.saved_tensors
        own, source, saved = rest[:slots], rest[slots : 2 * slots], Saved.of(rest[2 * slots :])
        g, stride = _as_one(given)
        group, plain = numbers(stage.groups, x.device), messages.count(None)
        room = x.new_empty(2 * slots - plain, *x.shape[1:])
        gx, g_own = (
            list(room[:slots]),
            [*room[:plain], *room[slots:]],
        )  # of what maps read, with messages, and of the values themselves
        sums = None if y is None else norm_sums(list(y), saved.outer, stage.rows, g, stride, group)
        out = list(x) if y is None else list(y)
        weights = backward_maps(stage.stack, saved, list(x), out, stage.rows, g, stride, group, sums, gx, later)
        g_source: list[Tensor | None] = [None] * slots
        g_messages: list[Tensor | None] = [None] * (2 * slots)
        for ts in _together(messages, source):
            same = source[ts[0]] is None
            froms = [_source(own, source, t) for t in ts]
            g_from = [g_own[t] if same else torch.empty_like(f) for t, f in zip(ts, froms, strict=True)]
            tables, eps = collect_back([gx[t] for t in ts], froms, [messages[t] for t in ts], g_from, later, own=same, add=False)
            for t, found, table, g_eps in zip(ts, g_from, tables, eps, strict=True):
                if not same:
                    _, (g_eps,) = own_back([gx[t]], own[t], [messages[t].eps], later, g_own[t])
                    g_source[t] = found
                g_messages[2 * t : 2 * t + 2] = table, g_eps
        g_values = _of_values(room, (*values[:plain], *[-1] * (slots - plain), *values[plain:]))
        later.finish()
        return None, None, None, *g_values, *g_source, *g_messages, *weights


def _as_one(given: Sequence[Tensor]) -> tuple[Tensor, int]:
    """Gradients as the first of some tensors at equal distances in memory, and the distance. They often are."""
    ends = [g.data_ptr() // g.element_size() for g in given]
    gaps = {after - before for before, after in pairwise(ends)}
    if len(gaps) > 1 or min(gaps, default=1) <= 0 or not all(g.is_contiguous() for g in given):
        given = tuple(torch.stack(list(given)))
    return given[0], apart(given)


def _of_values(g: Tensor, values: tuple[int, ...]) -> Sequence[Tensor]:
    """The gradient of each value: the sum of some of g, as ``values`` says."""
    slots, rows, channels = g.shape
    if len(set(values) - {-1}) == sum(v >= 0 for v in values):
        return tuple(g[values.index(v)] for v in range(max(values) + 1))
    out, (size, pieces) = g.new_empty(max(values) + 1, rows, channels), chunks(channels)
    launch(_add_gradients, (triton.cdiv(rows, 32), out.size(0), pieces),
        g, numbers(values, g.device), out, rows, channels, slots, BC=size, BM=32, num_warps=4,
    )  # fmt: skip
    return tuple(out)


def _source(own: Sequence[Tensor], source: Sequence[Tensor | None], t: int) -> Tensor:
    found = source[t]
    return own[t] if found is None else found


def _together(messages: Sequence[PassedMessages | None], source: Sequence[Tensor | None]) -> list[list[int]]:
    """The slots in groups of one or two whose messages are passed together."""
    found: list[list[int]] = []
    for t, m in enumerate(messages):
        if m is None:
            continue
        for ts in found:
            first = messages[ts[0]]
            assert first is not None
            if len(ts) == 1 and first.fits(m) and (source[ts[0]] is None) == (source[t] is None):
                ts.append(t)
                break
        else:
            found.append([t])
    return found


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
        others = [other.to(h.dtype) for other in others]
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
        y, stats = [*plain, *normed], floats(h, len(slots), 2, channels)
        made: list[Tensor | None] = []
        for slot in slots:
            made.append(None if slot.messages is None else torch.empty_like(h))
            if slot.messages is not None:
                collect([h], [h], [slot.messages], [made[-1]])  # type: ignore[list-item]
        x, kept = _inputs(stage, h, rest, made), list[Tensor | None]()
        for t, stack in stage.groups:
            end = t + stack.slots
            kept += forward_maps(stack, x[t:end], stage.rows, stage.training, y[t:end], stats[t:end]).tensors()
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
        back, grads, later = _Back(h, others), list[list[Tensor | None]](), Partial()
        for t, stack in stage.groups:
            end, size = t + stack.slots, 4 + stack.slots * bool(stack.w2)
            group = numbers((0,) * stack.slots, h.device)
            sums = [_norm_sums(stage, between, normed, stats, n, gy) for n in range(max(t, stage.plain), end)]
            found = None if not sums else sums[0].expand(stack.slots, -1, -1) if len(sums) == 1 else torch.cat(sums)
            targets, add = back.targets(stage.slots[t:end])
            own = backward_maps(
                stack, Saved.of(kept[:size]), x[t:end], y[t:end], stage.rows, gy, 0, group, found, targets, later, add
            )
            kept = kept[size:]
            grads += back.of_weights(stage.slots[t:end], own, targets, later)
        later.finish()
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
    found = add_up(between.part).view(1, 2, gy.size(1))
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

    def of_weights(
        self, slots: Sequence[PairSlot], grads: list[Tensor], gx: Sequence[Tensor], later: Partial
    ) -> list[list[Tensor | None]]:
        """The gradients of the weights of each slot, from those of a stack. Gradients of messages are passed on to the pairs."""
        found = list[list[Tensor | None]]()
        for t, slot in enumerate(slots):
            own: list[Tensor | None] = []
            if slot.messages is not None:
                (table,), (eps,) = collect_back([gx[t]], [self.h], [slot.messages], [self.gh], later, own=True, add=self.written)
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
        launch(_combine, (triton.cdiv(number, tile), pieces),
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
        g_nodes = g_roots = g_subs = None
        if subs == nodes == roots and roots is not None:  # one after the other, in the order in which a stage on nodes gives them
            g_nodes, g_roots, g_subs = out.new_empty(3, *roots)
            g_roots.zero_()
        elif roots is not None:
            g_roots = out.new_zeros(roots)
        first = (normed[0], stats[stage.plain]) if normed.size(0) else None
        gy, between.part = sums_back(stage.pairs, stage.picks, given, out, g_roots, stage.act, stage.masked, first)
        g_subs, g_nodes, *_ = all_sums(gy, stage.pairs, subs is not None, nodes is not None, into=(g_subs, g_nodes))
        return None, None, gy.expand(stage.plain, *gy.shape), gy.expand(normed.size(0), *gy.shape), g_subs, g_nodes, g_roots


def _tables(stage: PairStage) -> tuple[Tensor, Tensor]:
    """The addresses of the scales and shifts of the norms, one per slot. A slot without a norm has the address of any other, which is not
    read."""
    norms = [slot.stack.outer for slot in stage.slots]
    some = next((n for n in norms if n is not None), None)
    if some is None:
        none = pointers(stage.slots[0].stack.b1)
        return none, none
    scale = pointers([(n or some).scale[0] for n in norms])  # type: ignore[misc]
    return scale, pointers([(n or some).shift[0] for n in norms])  # type: ignore[misc]
