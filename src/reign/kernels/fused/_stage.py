"""A whole layer on pairs, and all its maps on nodes and subgraphs, as two differentiable functions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import triton
from torch import Tensor

from reign.kernels._indices import Edges, Pairs, Picks, Segments
from reign.kernels.fused import _rows, _stack
from reign.kernels.fused._linear import add_up, block, programs
from reign.kernels.fused._passing import collect, collect_back
from reign.kernels.fused._stack import Rows, Saved, Stack, norm_sums, numbers

COMBINE, COMBINE_BACK = (32, 4), (32, 528, 4)


@dataclass(frozen=True, eq=False)
class PairSlot:
    """One slot on pairs: its maps (a stack of one), perhaps with messages in front, or of other values than those of the pairs.

    Args:
        stack: the maps.
        edges, table, eps: the messages that are added to the values, as in ``pass_messages``.
        other: the place of its input among the ``others`` of the stage.
    """

    stack: Stack
    edges: Edges | None = None
    table: Tensor | None = None
    eps: Tensor | None = None
    other: int | None = None

    def parameters(self) -> list[Tensor]:
        """Its weights: of the messages, then of the maps."""
        return [w for w in (self.table, self.eps) if w is not None] + self.stack.parameters()


@dataclass(frozen=True, eq=False)
class PairStage:
    """What is computed on pairs: the slots, which norms skip which rows, and what is wanted of the result."""

    pairs: Pairs
    slots: list[PairSlot]
    inner: int
    outer: int
    act: bool
    masked: bool
    training: bool
    picks: Picks | None = None
    wanted: frozenset[str] = frozenset(("readout", "needle", "root"))

    @property
    def rows(self) -> Rows:
        """The rows that norms look at."""
        return Rows(self.pairs.number, self.pairs.flags, self.inner, self.outer)

    @property
    def first_norm(self) -> int | None:
        """The first slot with a norm after it: its sums are computed where the gradient arrives."""
        return next((t for t, slot in enumerate(self.slots) if slot.stack.outer is not None), None)

    def __call__(
        self,
        h: Tensor,
        subs: Tensor | None,
        nodes: Tensor | None,
        roots: Tensor | None,
        others: Sequence[Tensor] = (),
        join: Callable[[], None] = lambda: None,
    ) -> tuple[Tensor | None, ...]:
        """New values of the pairs, and of these readout, needle, roots and picked rows (see ``sums``).

        Args:
            h: the values of the pairs.
            subs, nodes, roots: what is added for each subgraph and each node, and what roots become.
            others: inputs of slots that look at other values.
            join: is called when ``subs``, ``nodes`` and ``roots`` are needed; they may be computed at the same time as the slots.
        """
        between = _Between()
        weights = [w for slot in self.slots for w in slot.parameters()]
        y = _Slots.apply(self, between, len(others), h, *others, *weights)  # type: ignore[no-untyped-call]
        join()
        return _Combine.apply(self, between, y, subs, nodes, roots)  # type: ignore[no-untyped-call, no-any-return]


@dataclass(eq=False)
class _Between:
    """What the two halves of a stage tell each other: statistics of the slots' results, and on the way back sums for a norm."""

    parts: list[Saved] = field(default_factory=list)
    stats: Tensor | None = None
    part: Tensor | None = None


def segment_sum(x: Tensor, segments: Segments) -> Tensor:
    """Sums of rows, one row a segment."""
    number, channels = segments.ptr.numel() - 1, x.size(1)
    out = x.new_empty(number, channels)
    if number == 0:
        return out
    _rows._segment_sum[(number,)](
        x, segments.ptr, segments.ptr if segments.index is None else segments.index, out, channels,
        BC=block(channels), BM=32, INDEXED=segments.index is not None, num_warps=4,
    )  # fmt: skip
    return out


class _Slots(torch.autograd.Function):
    """The slots of a stage. Their norms come later: what flows back here is the gradient of the normalised results, the same for all slots."""

    @staticmethod
    def forward(ctx: Any, stage: PairStage, between: _Between, number: int, h: Tensor, *rest: Tensor) -> Tensor:
        channels = stage.slots[0].stack.out_channels
        y, stats = h.new_empty(len(stage.slots), stage.pairs.number, channels), h.new_empty(len(stage.slots), 2, channels)
        inputs = []
        for t, slot in enumerate(stage.slots):
            x = h if slot.other is None else rest[slot.other]
            if slot.edges is not None:
                assert slot.eps is not None
                x = collect(h, h, slot.edges, slot.table, slot.eps)
            inputs.append(None if x is h else x)
            between.parts.append(_stack.forward(slot.stack, x, 0, stage.rows, stage.training, y[t : t + 1], stats[t : t + 1]))
        between.stats = stats
        ctx.stage, ctx.between, ctx.inputs, ctx.number = stage, between, inputs, number
        ctx.save_for_backward(h, *rest)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        stage, between = ctx.stage, ctx.between
        h, gy, channels, rows = ctx.saved_tensors[0], g[0], g.size(2), stage.rows
        gh, grads, group = torch.empty_like(h), list[Any](), numbers((0,), h.device)
        written, g_others = False, list[Any]([None] * ctx.number)
        for t, slot in enumerate(stage.slots):
            sums, saved, x = None, between.parts[t], ctx.inputs[t]
            if t == stage.first_norm:
                sums = add_up(between.part, gy.new_empty(1, 2 * channels)).view(1, 2, channels)
            elif slot.stack.outer is not None:
                sums = norm_sums(saved, slice(0, 1), rows, gy, 0, group)
            if slot.other is not None:
                seen = g_others[slot.other] is not None
                if not seen:
                    g_others[slot.other] = torch.empty_like(x)
                grads += _stack.backward(slot.stack, saved, x, 0, rows, gy, 0, group, sums, g_others[slot.other], add=seen)
                continue
            if slot.edges is None:
                grads += _stack.backward(slot.stack, saved, h, 0, rows, gy, 0, group, sums, gh, add=written)
            else:
                assert slot.eps is not None
                gx = torch.empty_like(h)
                own = _stack.backward(slot.stack, saved, x, 0, rows, gy, 0, group, sums, gx)
                g_table, g_eps = collect_back(gx, h, slot.edges, slot.table, slot.eps, gh, own=True, add=written)
                grads += ([] if slot.table is None else [g_table]) + [g_eps, *own]
            written = True
        return None, None, None, gh if written else None, *g_others, *grads


class _Combine(torch.autograd.Function):
    """The sum of the normalised results and of what is added for subgraphs and nodes; roots; activation; sums of the result."""

    @staticmethod
    def forward(
        ctx: Any, stage: PairStage, between: _Between, y: Tensor, subs: Tensor | None, nodes: Tensor | None, roots: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        pairs, (slots, number, channels) = stage.pairs, y.shape
        out = y.new_empty(number, channels)
        tile, warps = COMBINE
        scale, shift, norms = _tables(stage)
        _rows._combine[(triton.cdiv(number, tile),)](
            y, between.stats, scale, shift, *(y if v is None else v for v in (subs, nodes, roots)), pairs.sub, pairs.node, pairs.flags, out,
            number, channels, T=slots, NORMS=norms, BC=block(channels), BM=tile, HAS_S=subs is not None, HAS_N=nodes is not None,
            HAS_R=roots is not None, ACT=stage.act, MASK=stage.masked, num_warps=warps,
        )  # fmt: skip
        ctx.stage, ctx.between, ctx.slots = stage, between, slots
        ctx.shapes = [None if v is None else v.shape for v in (subs, nodes, roots)]
        ctx.save_for_backward(out)
        return out, *_sums_of(out, pairs, stage.picks, stage.wanted)

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Any, ...]:
        stage, between = ctx.stage, ctx.between
        (out,) = ctx.saved_tensors
        subs, nodes, roots = ctx.shapes
        g_roots = None if roots is None else out.new_zeros(roots)
        normed = None if stage.first_norm is None else between.parts[stage.first_norm]
        gy, between.part = _back(stage.pairs, stage.picks, given, out, g_roots, stage.act, stage.masked, normed)
        g_subs = None if subs is None else segment_sum(gy, stage.pairs.to_sub)
        g_nodes = None if nodes is None else segment_sum(gy, stage.pairs.to_node)
        return None, None, gy.expand(ctx.slots, *gy.shape), g_subs, g_nodes, g_roots


def _back(
    pairs: Pairs, picks: Picks | None, given: tuple[Tensor | None, ...], out: Tensor, g_roots: Tensor | None, act: bool, masked: bool,
    normed: Saved | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """What flows back to the pairs from themselves, readout, needle and picked rows; and sums for the norm of one slot."""
    tile, most, warps = COMBINE_BACK
    channels, count = out.size(1), programs(pairs.number, tile, most)
    gy, part = torch.empty_like(out), out.new_empty(1, count, 2 * channels)
    given = tuple(None if g is None else g.contiguous() for g in given)
    _rows._combine_backward[(count,)](
        *(out if g is None else g for g in given), pairs.sub if picks is None else picks.ptr, pairs.sub if picks is None else picks.index, out,
        out if normed is None else normed.out, out if normed is None else normed.outer, pairs.sub, pairs.node, pairs.flags, gy,
        out if g_roots is None else g_roots, part, pairs.number, channels, BC=block(channels), BM=tile,
        HAS_G=given[0] is not None, HAS_SUB=given[1] is not None, HAS_NODE=given[2] is not None, HAS_ROOT=given[3] is not None,
        HAS_PICK=given[4] is not None,
        HAS_R=g_roots is not None, ACT=act, MASK=masked, NORM=normed is not None, num_warps=warps,
    )  # fmt: skip
    return gy, part


def _sums_of(h: Tensor, pairs: Pairs, picks: Picks | None, wanted: frozenset[str]) -> tuple[Tensor | None, ...]:
    readout = segment_sum(h, pairs.to_sub) if "readout" in wanted else None
    needle = segment_sum(h, pairs.to_node) if "needle" in wanted else None
    roots = h.index_select(0, pairs.root) if "root" in wanted and pairs.root is not None else None
    return readout, needle, roots, None if picks is None else h.index_select(0, picks.rows)


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, pairs: Pairs, picks: Picks | None, wanted: frozenset[str]) -> tuple[Tensor | None, ...]:
        ctx.pairs, ctx.picks, ctx.like = pairs, picks, h.detach()
        return h.view_as(h), *_sums_of(h, pairs, picks, wanted)

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        return _back(ctx.pairs, ctx.picks, given, ctx.like, None, False, False, None)[0], None, None, None


def sums(h: Tensor, pairs: Pairs, picks: Picks | None, wanted: frozenset[str]) -> tuple[Tensor | None, ...]:
    """Values of pairs as they are, and those of readout, needle, roots ("root") and picked rows that are wanted.

    What flows back to the pairs from all of them is added up in one pass.
    """
    return _Sums.apply(h, pairs, picks, wanted)  # type: ignore[no-untyped-call, no-any-return]


def _tables(stage: PairStage) -> tuple[Tensor, Tensor, int]:
    outer = [slot.stack.outer for slot in stage.slots]
    normed = [norms for norms in outer if norms is not None]
    if not normed:
        none = _stack.pointers(stage.slots[0].stack.b1)
        return none, none, 0
    scale = _stack.pointers([(norms or normed[0]).scale[0] for norms in outer])  # type: ignore[misc]
    shift = _stack.pointers([(norms or normed[0]).shift[0] for norms in outer])  # type: ignore[misc]
    return scale, shift, sum(1 << t for t, norms in enumerate(outer) if norms is not None)


@dataclass(frozen=True, eq=False)
class NodeStage:
    """Slots on nodes and subgraphs: one stack, whose results are added up in groups.

    Args:
        stack: the slots.
        groups: the group of each slot.
        rows: how many rows there are, and which count for norms.
        training: whether norms take the statistics of these rows.
    """

    stack: Stack
    groups: tuple[int, ...]
    rows: Rows
    training: bool

    def __call__(self, x: Tensor) -> Tensor:
        """One sum of slots a group: (slots, rows, in) -> (groups, rows, out)."""
        out: Tensor = _NodeStage.apply(self, x, *self.stack.parameters())  # type: ignore[no-untyped-call]
        return out


class _NodeStage(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, stage: NodeStage, x: Tensor, *weights: Tensor) -> Tensor:
        rows, stack = stage.rows, stage.stack
        saved: Saved = _stack.forward(stack, x, x.size(1) * x.size(2), rows, stage.training)
        channels, outer = stack.out_channels, stack.outer
        out = x.new_empty(max(stage.groups) + 1, rows.number, channels)
        none = _stack.pointers(stack.b1)
        _rows._add_groups[(triton.cdiv(rows.number, 32), out.size(0))](
            saved.out, saved.out if saved.outer is None else saved.outer, none if outer is None else outer.table("scale"),
            none if outer is None else outer.table("shift"), numbers(stage.groups, x.device), 0 if outer is None else outer.mask,
            rows.flags, out, rows.number, channels, stack.slots, BC=block(channels), BM=32, MASKED=rows.outer != 0, num_warps=4,
        )  # fmt: skip
        ctx.stage, ctx.parts = stage, saved
        ctx.save_for_backward(x, *weights)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        stage: NodeStage = ctx.stage
        x, g = ctx.saved_tensors[0], g.contiguous()
        group, stride, gx = numbers(stage.groups, x.device), g.size(1) * g.size(2), torch.empty_like(x)
        sums = None
        if stage.stack.outer is not None:
            sums = norm_sums(ctx.parts, slice(None), stage.rows, g, stride, group)
        grads = _stack.backward(stage.stack, ctx.parts, x, x.size(1) * x.size(2), stage.rows, g, stride, group, sums, gx)
        return None, gx, *grads
