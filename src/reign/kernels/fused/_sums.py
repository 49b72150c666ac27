"""Sums of values over ragged sets of rows: subgraphs, nodes, and any others; and the lift from nodes to pairs, whose gradient is such a sum.

The backward pass adds in one step the gradients of the pairs themselves, of their sums over subgraphs (readout) and over nodes (needle), and
of selected rows (roots and their neighbours).
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from reign.kernels._plan import PairIndex, Picks, Segments
from reign.kernels.fused._launch import block, chunks, floats, launch, programs

# -- partial sums: every program stores its own, and they are added in a fixed order, so that results do not depend on the order of execution ---

COLUMNS, ROWS, WARPS = 32, 256, 4  # of a table that a program adds at a time, and its warps
TABLES = 6  # in a launch


@triton.jit
def _add_columns(part, out, G, S, N, at, BN: tl.constexpr, BG: tl.constexpr):
    """Add some columns of one slot of a table in a fixed order: (slots, G, N) -> (slots, N), rows at distance S."""
    pieces = tl.cdiv(N, BN)
    t = at // pieces
    n, g = (at % pieces) * BN + tl.arange(0, BN), tl.arange(0, BG)
    part += t.to(tl.int64) * G * S
    total = tl.zeros([BG, BN], tl.float32)
    for g0 in range(0, G, BG):
        here = (g0 + g < G)[:, None] & (n < N)[None, :]
        total += tl.load(part + (g0 + g)[:, None] * S + n[None, :], mask=here, other=0.0)
    tl.store(out + t * N + n, tl.sum(total, 0), mask=n < N)


@triton.jit
def _add_up(
    a, a_out, a_G, a_S, a_N, a_end, b, b_out, b_G, b_S, b_N, b_end, c, c_out, c_G, c_S, c_N, c_end,
    d, d_out, d_G, d_S, d_N, d_end, e, e_out, e_G, e_S, e_N, e_end, f, f_out, f_G, f_S, f_N, f_end, BN: tl.constexpr, BG: tl.constexpr,
):  # fmt: skip
    """Add the partial sums of up to six tables; a table takes the programs from the end of the one before to its own."""
    pid = tl.program_id(0)
    if pid < a_end:
        _add_columns(a, a_out, a_G, a_S, a_N, pid, BN, BG)
    elif pid < b_end:
        _add_columns(b, b_out, b_G, b_S, b_N, pid - a_end, BN, BG)
    elif pid < c_end:
        _add_columns(c, c_out, c_G, c_S, c_N, pid - b_end, BN, BG)
    elif pid < d_end:
        _add_columns(d, d_out, d_G, d_S, d_N, pid - c_end, BN, BG)
    elif pid < e_end:
        _add_columns(e, e_out, e_G, e_S, e_N, pid - d_end, BN, BG)
    else:
        _add_columns(f, f_out, f_G, f_S, f_N, pid - e_end, BN, BG)


class Partial:
    """Partial sums that nobody needs before the end of a backward pass, where they are added in one launch."""

    def __init__(self) -> None:
        self._tables: list[tuple[Tensor, Tensor]] = []

    def add(self, part: Tensor) -> Tensor:
        """The sums of a table (slots, programs, n) as a tensor (slots, n), which has its values after ``finish``."""
        self._tables.append((part, floats(part, part.size(0), part.size(2))))
        return self._tables[-1][1]

    def finish(self) -> None:
        """Compute the sums."""
        for first in range(0, len(self._tables), TABLES):
            args, end = list[Any](), 0
            for part, out in self._tables[first : first + TABLES]:
                slots, count, n = part.shape
                end += slots * triton.cdiv(n, COLUMNS)
                args += [part, out, count, part.stride(1), n, end]
            args += args[-6:] * (TABLES - len(args) // 6)
            launch(_add_up, (end,), *args, BN=COLUMNS, BG=ROWS, num_warps=WARPS)
        self._tables.clear()


def add_up(part: Tensor) -> Tensor:
    """Add partial sums: (slots, programs, n) -> (slots, n)."""
    one = Partial()
    out = one.add(part)
    one.finish()
    return out


# -- sums over ragged sets of rows --------------------------------------------------------------------------------------


@triton.jit
def _combine_backward(
    g, g_sub, g_node, g_root, g_pick, pick_ptr, pick_index, out, y, stats, sub, node, flags, gy, gR, part, P, C: tl.constexpr,
    BC: tl.constexpr, BM: tl.constexpr, HAS_G: tl.constexpr, HAS_SUB: tl.constexpr, HAS_NODE: tl.constexpr,
    HAS_ROOT: tl.constexpr, HAS_PICK: tl.constexpr, HAS_R: tl.constexpr, ACT: tl.constexpr, MASK: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    """Gradients of the sum of the slots and of the terms of roots, and the sums that the norm of one slot (y, stats) needs."""
    pid = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    ok = c < C
    if NORM:
        mean = tl.load(stats + c, mask=ok, other=0.0)
        rstd = tl.load(stats + C + c, mask=ok, other=0.0)
    s, q = tl.zeros([BC], tl.float32), tl.zeros([BC], tl.float32)
    for tile in range(pid, tl.cdiv(P, BM), tl.num_programs(0)):
        rows = tile * BM + tl.arange(0, BM)
        m = rows < P
        mok = m[:, None] & ok[None, :]
        at = rows[:, None].to(tl.int64) * C + c[None, :]
        bits = tl.load(flags + rows, mask=m, other=0)
        total = tl.zeros([BM, BC], tl.float32)
        if HAS_G:
            total += tl.load(g + at, mask=mok, other=0.0).to(tl.float32)
        k = tl.load(sub + rows, mask=m, other=0)[:, None].to(tl.int64) * C + c[None, :]
        if HAS_SUB:
            total += tl.load(g_sub + k, mask=mok, other=0.0).to(tl.float32)
        if HAS_NODE:
            i = tl.load(node + rows, mask=m, other=0)[:, None].to(tl.int64) * C + c[None, :]
            total += tl.load(g_node + i, mask=mok, other=0.0).to(tl.float32)
        if HAS_ROOT:
            total += tl.load(g_root + k, mask=mok & ((bits & 4) != 0)[:, None], other=0.0).to(tl.float32)
        if HAS_PICK:
            start = tl.load(pick_ptr + rows, mask=m, other=0)
            number = tl.load(pick_ptr + rows + 1, mask=m, other=0) - start
            for d in range(0, tl.max(number, 0)):
                there = d < number
                p = tl.load(pick_index + start + d, mask=there, other=0)[:, None].to(tl.int64) * C + c[None, :]
                total += tl.load(g_pick + p, mask=there[:, None] & ok[None, :], other=0.0).to(tl.float32)
        if ACT:
            total = tl.where(tl.load(out + at, mask=mok, other=0.0).to(tl.float32) > 0, total, 0.0)
        if MASK:
            total = tl.where(((bits & 8) != 0)[:, None], total, 0.0)
        if HAS_R:
            root = ((bits & 4) != 0)[:, None]
            tl.store(gR + k, total, mask=mok & root)
            total = tl.where(root, 0.0, total)
        tl.store(gy + at, total, mask=mok)
        if NORM:
            counted = tl.where(((bits & 2) != 0)[:, None], total, 0.0)
            hat = (tl.load(y + at, mask=mok, other=0.0).to(tl.float32) - mean[None, :]) * rstd[None, :]
            s += tl.sum(counted, 0)
            q += tl.sum(counted * hat, 0)
    if NORM:
        o = part + pid * 2 * C
        tl.store(o + c, s, mask=ok)
        tl.store(o + C + c, q, mask=ok)


@triton.jit
def _sum_rows(
    x, ptr, index, s, c, C: tl.constexpr, S: tl.constexpr, first_channel: tl.constexpr,
    BC: tl.constexpr, BM: tl.constexpr, INDEXED: tl.constexpr,
):  # fmt: skip
    """The sum of x[index[ptr[s]:ptr[s + 1]]] for channels c. Without ``index`` the rows are consecutive. A row has S channels."""
    end = tl.load(ptr + s + 1)
    total = tl.zeros([BM, BC], tl.float32)
    for first in range(tl.load(ptr + s), end, BM):
        row = first + tl.arange(0, BM)
        there = row < end
        if INDEXED:
            row = tl.load(index + row, mask=there, other=0)
        at = row[:, None].to(tl.int64) * S + first_channel + c[None, :]
        total += tl.load(x + at, mask=there[:, None] & (c < C)[None, :], other=0.0).to(tl.float32)
    return tl.sum(total, 0)


@triton.jit
def _segment_sum(
    x, ptr, index, out, C: tl.constexpr, S: tl.constexpr, first_channel: tl.constexpr,
    BC: tl.constexpr, BM: tl.constexpr, INDEXED: tl.constexpr,
):  # fmt: skip
    """``out[s] = sum of x[index[ptr[s]:ptr[s + 1]]]``, one program per segment, for C channels from ``first_channel`` on."""
    s, c = tl.program_id(0), tl.program_id(1) * BC + tl.arange(0, BC)
    tl.store(out + s.to(tl.int64) * C + c, _sum_rows(x, ptr, index, s, c, C, S, first_channel, BC, BM, INDEXED), mask=c < C)


@triton.jit
def _copy_rows(x, index, out, first, R, c, C: tl.constexpr, BM: tl.constexpr):
    """``out[r] = x[index[r]]`` for some rows."""
    rows = first + tl.arange(0, BM)
    m, ok = rows < R, c < C
    at = tl.load(index + rows, mask=m, other=0)
    value = tl.load(x + at[:, None].to(tl.int64) * C + c[None, :], mask=m[:, None] & ok[None, :], other=0.0)
    tl.store(out + rows[:, None].to(tl.int64) * C + c[None, :], value, mask=m[:, None] & ok[None, :])


@triton.jit
def _all_sums(
    x, sub_ptr, node_ptr, node_index, root, pick, readout, needle, roots, near, SUBS, NODES, ROOTS, PICKS, C: tl.constexpr,
    BC: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Readout, needle, roots and selected rows: a program for each subgraph, then for each node, then for BM roots, then for BM selected rows."""
    pid, c = tl.program_id(0), tl.program_id(1) * BC + tl.arange(0, BC)
    copy = pid - SUBS - NODES
    if pid < SUBS:
        tl.store(readout + pid.to(tl.int64) * C + c, _sum_rows(x, sub_ptr, sub_ptr, pid, c, C, C, 0, BC, BM, False), mask=c < C)
    elif copy < 0:
        i = pid - SUBS
        tl.store(needle + i.to(tl.int64) * C + c, _sum_rows(x, node_ptr, node_index, i, c, C, C, 0, BC, BM, True), mask=c < C)
    elif copy < tl.cdiv(ROOTS, BM):
        _copy_rows(x, root, roots, copy * BM, ROOTS, c, C, BM)
    else:
        _copy_rows(x, pick, near, (copy - tl.cdiv(ROOTS, BM)) * BM, PICKS, c, C, BM)


@triton.jit
def _short_segment_sum(
    x, ptr, index, out, N, C: tl.constexpr, S: tl.constexpr, first_channel: tl.constexpr,
    BC: tl.constexpr, BM: tl.constexpr, INDEXED: tl.constexpr,
):  # fmt: skip
    """``_segment_sum`` for N segments of a few rows each: every program has BM segments, and adds one row of each at a time."""
    s, c = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BC + tl.arange(0, BC)
    m, ok = s < N, c < C
    start = tl.load(ptr + s, mask=m, other=0)
    length = tl.load(ptr + s + 1, mask=m, other=0) - start
    total = tl.zeros([BM, BC], tl.float32)
    for d in range(0, tl.max(length, 0)):
        there = d < length
        row = start + d
        if INDEXED:
            row = tl.load(index + row, mask=there, other=0)
        at = row[:, None].to(tl.int64) * S + first_channel + c[None, :]
        total += tl.load(x + at, mask=there[:, None] & ok[None, :], other=0.0).to(tl.float32)
    tl.store(out + s[:, None].to(tl.int64) * C + c[None, :], total, mask=m[:, None] & ok[None, :])


BACKWARD, ALL = (32, 528, 4), (16, 1)  # rows of a tile, largest number of programs, warps
SHORT = 8  # mean number of rows of segments up to which a program takes many of them
MANY = 4096  # number of segments that keep the GPU busy with many of them in a program


def segment_sum(x: Tensor, segments: Segments, first: int = 0) -> Tensor:
    """The sum of the rows of each segment, for the channels from ``first`` on."""
    number, channels = segments.ptr.numel() - 1, x.size(1) - first
    out, (size, pieces) = x.new_empty(number, channels), chunks(channels)
    if number == 0:
        return out
    index, indexed = segments.ptr if segments.index is None else segments.index, segments.index is not None
    if _short(x, segments):
        launch(_short_segment_sum, (triton.cdiv(number, 16), pieces),
            x, segments.ptr, index, out, number, channels, x.size(1), first, BC=size, BM=16, INDEXED=indexed, num_warps=4,
        )  # fmt: skip
    else:
        launch(_segment_sum, (number, pieces),
            x, segments.ptr, index, out, channels, x.size(1), first, BC=size, BM=32, INDEXED=indexed, num_warps=4,
        )  # fmt: skip
    return out


def _short(x: Tensor, segments: Segments) -> bool:
    """Whether there are so many segments of so few rows that a program takes several of them."""
    number, rows = segments.ptr.numel() - 1, x.size(0) if segments.index is None else segments.index.numel()
    return rows <= SHORT * number and number > MANY


def sums_of(h: Tensor, pairs: PairIndex, picks: Picks | None, wanted: frozenset[str]) -> tuple[Tensor | None, ...]:
    """The requested ones of readout, needle, roots and selected rows."""
    roots = pairs.root if "root" in wanted else None
    return all_sums(h, pairs, "readout" in wanted, "needle" in wanted, roots, None if picks is None else picks.rows)


def all_sums(
    h: Tensor, pairs: PairIndex, readout: bool, needle: bool, roots: Tensor | None = None, picks: Tensor | None = None,
    into: Sequence[Tensor | None] = (None, None),
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Sums over the nodes of each subgraph and over the subgraphs of each node (``into`` may have tensors for them), and some rows, in one launch."""
    short = _short(h, pairs.to_sub) or _short(h, pairs.to_node)
    channels, (size, pieces) = h.size(1), chunks(h.size(1))
    numbers = [readout * (pairs.sub_ptr.numel() - 1), needle * (pairs.node_ptr.numel() - 1)]
    numbers += [0 if index is None else index.numel() for index in (roots, picks)]
    out = [h.new_empty(number, channels) if one is None else one for number, one in zip(numbers, (*into, None, None), strict=True)]
    programs = numbers[0] + numbers[1] + triton.cdiv(numbers[2], ALL[0]) + triton.cdiv(numbers[3], ALL[0])
    if short:
        sums = [segment_sum(h, one) if want else None for one, want in ((pairs.to_sub, readout), (pairs.to_node, needle))]
        return *sums, *(None if index is None else h.index_select(0, index) for index in (roots, picks))
    if programs:
        launch(_all_sums, (programs, pieces),
            h, pairs.sub_ptr, pairs.node_ptr, pairs.node_index, *(pairs.sub if index is None else index for index in (roots, picks)),
            *out, *numbers, channels, BC=size, BM=ALL[0], num_warps=ALL[1],
        )  # fmt: skip
    given = readout, needle, roots is not None, picks is not None
    return tuple(one if there else None for one, there in zip(out, given, strict=True))


def sums_back(
    pairs: PairIndex, picks: Picks | None, given: tuple[Tensor | None, ...], out: Tensor, g_roots: Tensor | None = None, act: bool = False,
    masked: bool = False, normed: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradient of the pairs from the pairs themselves, readout, needle and selected rows, and sums for the norm of one slot (values,
    statistics)."""
    tile, most, warps = BACKWARD
    channels, count = out.size(1), programs(pairs.number, tile, most)
    size, pieces = chunks(channels)
    gy, part = torch.empty_like(out), floats(out, 1, count, 2 * channels)
    given = tuple(None if g is None else g.contiguous() for g in given)
    y, stats = (out, out) if normed is None else normed
    launch(_combine_backward, (count, pieces),
        *(out if g is None else g for g in given), pairs.sub if picks is None else picks.ptr, pairs.sub if picks is None else picks.index, out,
        y, stats, pairs.sub, pairs.node, pairs.flags, gy, out if g_roots is None else g_roots, part, pairs.number, channels, BC=size, BM=tile,
        HAS_G=given[0] is not None, HAS_SUB=given[1] is not None, HAS_NODE=given[2] is not None, HAS_ROOT=given[3] is not None,
        HAS_PICK=given[4] is not None, HAS_R=g_roots is not None, ACT=act, MASK=masked, NORM=normed is not None, num_warps=warps,
    )  # fmt: skip
    return gy, part


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, pairs: PairIndex, picks: Picks | None, wanted: frozenset[str]) -> tuple[Tensor | None, ...]:
        ctx.pairs, ctx.picks = pairs, picks
        ctx.save_for_backward(h)
        return h.view_as(h), *sums_of(h, pairs, picks, wanted)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        return sums_back(ctx.pairs, ctx.picks, given, ctx.saved_tensors[0])[0], None, None, None


def sums(h: Tensor, pairs: PairIndex, picks: Picks | None, wanted: frozenset[str]) -> tuple[Tensor | None, ...]:
    """The values of pairs unchanged, with the requested ones of readout, needle, roots ("root") and selected rows.

    Their gradients are added in one pass.
    """
    return _Sums.apply(h, pairs, picks, wanted)  # type: ignore[no-untyped-call, no-any-return]


@triton.jit
def _lift(x, mark, node, out, P, C, M, BC: tl.constexpr, BM: tl.constexpr, MARKS: tl.constexpr):
    """``out[p] = [mark[p], x[node[p]]]``."""
    rows = (tl.program_id(0) * BM + tl.arange(0, BM)).to(tl.int64)
    m, c = rows < P, tl.arange(0, BC)
    i = tl.load(node + rows, mask=m, other=0).to(tl.int64)
    here = m[:, None] & (c < C)[None, :]
    value = tl.load(x + i[:, None] * C + c[None, :], mask=here, other=0.0)
    tl.store(out + rows[:, None] * (M + C) + M + c[None, :], value, mask=here)
    if MARKS:
        k = tl.arange(0, MARKS)
        here = m[:, None] & (k < M)[None, :]
        tl.store(
            out + rows[:, None] * (M + C) + k[None, :],
            tl.load(mark + rows[:, None] * M + k[None, :], mask=here, other=0).to(tl.float32),
            mask=here,
        )


class _Lift(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mark: Tensor | None, node: Tensor, pairs_of: Segments) -> Tensor:
        marks, (pairs, channels) = 0 if mark is None else mark.size(1), (node.numel(), x.size(1))
        out = x.new_empty(pairs, marks + channels)
        launch(
            _lift, (triton.cdiv(pairs, 32),), x.contiguous(), x if mark is None else mark.view(torch.int8), node, out, pairs, channels, marks,
            BC=block(channels), BM=32, MARKS=triton.next_power_of_2(marks) if marks else 0, num_warps=4,
        )  # fmt: skip
        ctx.pairs_of, ctx.marks = pairs_of, marks
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
        return segment_sum(g.contiguous(), ctx.pairs_of, ctx.marks), None, None, None


def lift(x: Tensor, mark: Tensor | None, node: Tensor, pairs_of: Segments) -> Tensor:
    """``[mark[p], x[node[p]]]`` for each pair p; ``pairs_of`` are the pairs of each node."""
    out: Tensor = _Lift.apply(x, mark, node, pairs_of)  # type: ignore[no-untyped-call]
    return out
