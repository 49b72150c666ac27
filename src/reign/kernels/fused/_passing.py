r"""Message passing over ragged rows, in one forward pass and one backward pass. Messages are never stored.

.. math:: y_t = (1 + \epsilon)\, x_t + \sum_{s \to t} \mathrm{relu}(x_s + e_{st}) \quad \text{or} \quad (1 + \epsilon)\, x_t + \sum_{s \to t} x_s

Messages are grouped by target in the forward pass and by source in the backward pass, so that no two programs write to the same row.
Gradients of edge features are summed by type if there are few types (a small product in the same pass), otherwise by edge. Two slots with
messages along the same edges are processed together (grid axis 1), at any distance in memory; axis 2 is for parts of the channels.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from reign.kernels._plan import PassedMessages
from reign.kernels.fused._launch import apart, chunks, floats, i64, launch, precision, programs
from reign.kernels.fused._linear import _dot
from reign.kernels.fused._sums import Partial

FEW_TYPES = 16


@triton.jit
def _edge(edge, kind, at, ok, TYPED: tl.constexpr):
    """The row of the edge table for each message: its edge, or the type of its edge."""
    e = tl.load(edge + at, mask=ok, other=0)
    if TYPED:
        e = tl.load(kind + e, mask=ok, other=0)
    return e


@triton.jit
def _collect(
    own, own_s: "i64", source, source_s: "i64", ptr, index, edge, kind, table, table_s: "i64", eps, eps_s: "i64", y, y_s: "i64", R, C: tl.constexpr,
    BC: tl.constexpr, BM: tl.constexpr, OWN: tl.constexpr, EDGES: tl.constexpr, TYPED: tl.constexpr,
):  # fmt: skip
    """Without OWN the messages alone are summed."""
    slot = tl.program_id(1)
    own += slot * own_s
    source += slot * source_s
    table += slot * table_s
    y += slot * y_s
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    m, ok = rows < R, c < C
    at = rows[:, None].to(tl.int64) * C + c[None, :]
    start = tl.load(ptr + rows, mask=m, other=0)
    degree = tl.load(ptr + rows + 1, mask=m, other=0) - start
    total = tl.zeros([BM, BC], tl.float32)
    if OWN:
        total += (1.0 + tl.load(eps + slot * eps_s)) * tl.load(own + at, mask=m[:, None] & ok[None, :], other=0.0).to(tl.float32)
    for d in range(0, tl.max(degree, 0)):
        there = d < degree
        s = tl.load(index + start + d, mask=there, other=0)
        here = there[:, None] & ok[None, :]
        message = tl.load(source + s[:, None].to(tl.int64) * C + c[None, :], mask=here, other=0.0).to(tl.float32)
        if EDGES:
            e = _edge(edge, kind, start + d, there, TYPED)
            message += tl.load(table + e[:, None].to(tl.int64) * C + c[None, :], mask=here, other=0.0).to(tl.float32)
            message = tl.maximum(message, 0.0)
        total += message
    tl.store(y + at, total, mask=m[:, None] & ok[None, :])


@triton.jit
def _collect_back(
    gy, gy_s: "i64", source, source_s: "i64", ptr, index, edge, kind, table, table_s: "i64", eps, eps_s: "i64", gx, gx_s: "i64",
    part, eps_part, R, C: tl.constexpr, KINDS: tl.constexpr,
    BC: tl.constexpr, BM: tl.constexpr, BE: tl.constexpr, PREC: tl.constexpr,
    EDGES: tl.constexpr, TYPED: tl.constexpr, FEW: tl.constexpr, OWN: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    """Gradients of the sources. ``ptr`` and ``index`` group messages by source; with OWN the targets are the same rows as the sources.

    For each program, ``part`` receives the gradients of the edge types, if there are FEW, and ``eps_part`` for each part of the channels one
    summand of the gradient of eps, with OWN.
    """
    pid, slot = tl.program_id(0), tl.program_id(1)
    gy += slot * gy_s
    source += slot * source_s
    table += slot * table_s
    gx += slot * gx_s
    factor = 1.0 + tl.load(eps + slot * eps_s)
    c, kinds = tl.program_id(2) * BC + tl.arange(0, BC), tl.arange(0, BE)
    ok = c < C
    by_type = tl.zeros([BE, BC], tl.float32)
    by_eps = 0.0
    for tile in range(pid, tl.cdiv(R, BM), tl.num_programs(0)):
        rows = tile * BM + tl.arange(0, BM)
        m = rows < R
        at = rows[:, None].to(tl.int64) * C + c[None, :]
        mok = m[:, None] & ok[None, :]
        x = tl.load(source + at, mask=mok, other=0.0).to(tl.float32)
        start = tl.load(ptr + rows, mask=m, other=0)
        degree = tl.load(ptr + rows + 1, mask=m, other=0) - start
        total = tl.zeros([BM, BC], tl.float32)
        if ADD:
            total += tl.load(gx + at, mask=mok, other=0.0).to(tl.float32)
        if OWN:
            g = tl.load(gy + at, mask=mok, other=0.0).to(tl.float32)
            total += factor * g
            by_eps += tl.sum(g * x)
        for d in range(0, tl.max(degree, 0)):
            there = d < degree
            t = tl.load(index + start + d, mask=there, other=0)
            here = there[:, None] & ok[None, :]
            g = tl.load(gy + t[:, None].to(tl.int64) * C + c[None, :], mask=here, other=0.0).to(tl.float32)
            if EDGES:
                e = _edge(edge, kind, start + d, there, TYPED)
                g = tl.where(
                    x + tl.load(table + e[:, None].to(tl.int64) * C + c[None, :], mask=here, other=0.0).to(tl.float32) > 0, g, 0.0
                )
                if FEW:
                    one_hot = ((e[None, :] == kinds[:, None]) & there[None, :]).to(tl.float32)
                    by_type += _dot(one_hot, g, PREC)
            total += g
        tl.store(gx + at, total, mask=mok)
    place = slot * tl.num_programs(0) + pid
    if FEW:
        o = part + place * (KINDS * C)
        tl.store(o + kinds[:, None] * C + c[None, :], by_type, mask=ok[None, :] & (kinds[:, None] < KINDS))
    if OWN:
        tl.store(eps_part + place * tl.num_programs(2) + tl.program_id(2), by_eps)


@triton.jit
def _own_backward(gy, gz, own, eps, zeta, g_own, part, R, C: tl.constexpr, TWO: tl.constexpr, BC: tl.constexpr, BM: tl.constexpr):
    """Gradients of values that are not sources themselves, and of eps; with TWO of the values of two slots, and of both their eps."""
    pid = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    by_eps, by_zeta = 0.0, 0.0
    for tile in range(pid, tl.cdiv(R, BM), tl.num_programs(0)):
        rows = tile * BM + tl.arange(0, BM)
        at = rows[:, None].to(tl.int64) * C + c[None, :]
        here = (rows < R)[:, None] & (c < C)[None, :]
        x, g = tl.load(own + at, mask=here, other=0.0).to(tl.float32), tl.load(gy + at, mask=here, other=0.0).to(tl.float32)
        total = (1.0 + tl.load(eps)) * g
        by_eps += tl.sum(g * x)
        if TWO:
            g = tl.load(gz + at, mask=here, other=0.0).to(tl.float32)
            total += (1.0 + tl.load(zeta)) * g
            by_zeta += tl.sum(g * x)
        tl.store(g_own + at, total, mask=here)
    number = tl.num_programs(0) * tl.num_programs(1)
    o = part + pid * tl.num_programs(1) + tl.program_id(1)
    tl.store(o, by_eps)
    if TWO:
        tl.store(o + number, by_zeta)


@triton.jit
def _edge_gradient(gy, source, ptr, from_row, to_row, table, ge, C: tl.constexpr, BC: tl.constexpr, BM: tl.constexpr):
    """The gradient of one edge. ``ptr`` groups messages by edge, each with its source row and its target row: one in each subgraph."""
    edge = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    ok, end = c < C, tl.load(ptr + edge + 1)
    at = edge.to(tl.int64) * C + c
    feature = tl.load(table + at, mask=ok, other=0.0).to(tl.float32)
    total = tl.zeros([BM, BC], tl.float32)
    for start in range(tl.load(ptr + edge), end, BM):
        place = start + tl.arange(0, BM)
        there = place < end
        here = there[:, None] & ok[None, :]
        s, t = tl.load(from_row + place, mask=there, other=0), tl.load(to_row + place, mask=there, other=0)
        x = tl.load(source + s[:, None].to(tl.int64) * C + c[None, :], mask=here, other=0.0).to(tl.float32)
        g = tl.load(gy + t[:, None].to(tl.int64) * C + c[None, :], mask=here, other=0.0).to(tl.float32)
        total += tl.where(x + feature[None, :] > 0, g, 0.0)
    tl.store(ge + at, tl.sum(total, 0), mask=ok)


FORWARD, BACKWARD = (32, 4), (16, 1056, 1)  # rows of a tile, largest number of programs, warps
MANY = 8_192  # number of rows below which smaller tiles are used


def collect(
    own: Sequence[Tensor] | None, source: Sequence[Tensor], messages: Sequence[PassedMessages], out: Sequence[Tensor]
) -> None:
    """``(1 + eps) own[t]`` (or nothing) plus the messages into t, for slots whose messages go along the same edges."""
    (rows, channels), edges = out[0].shape, messages[0].edges
    if rows == 0:
        return
    size, pieces = chunks(channels, 64 if channels % 16 == 0 else 32)  # unaligned rows need many registers
    tile, warps = FORWARD if rows > MANY and channels % 16 == 0 else (16, 4)
    tables, eps, values = _tables(messages, out[0]), [m.eps for m in messages], out if own is None else own
    launch(_collect, (triton.cdiv(rows, tile), len(out), pieces),
        values[0], apart(values), source[0], apart(source), edges.ptr, edges.source, edges.edge, edges.edge if edges.kind is None else edges.kind,
        tables[0], apart(tables), eps[0], apart(eps), out[0], apart(out), rows, channels,
        BC=size, BM=tile, OWN=own is not None, EDGES=messages[0].table is not None, TYPED=edges.kind is not None, num_warps=warps,
    )  # fmt: skip


def collect_back(
    gy: Sequence[Tensor],
    source: Sequence[Tensor],
    messages: Sequence[PassedMessages],
    gx: Sequence[Tensor],
    later: Partial,
    own: bool,
    add: bool,
) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """Add the gradients of the sources to ``gx``. Return the gradients of the tables, and those of eps if own rows are the sources.
    Both may have their values only when ``later`` is finished."""
    tile, most, warps = BACKWARD
    (rows, channels), edges, slots = source[0].shape, messages[0].edges, len(source)
    (size, pieces), few = chunks(channels, 64 if channels % 16 == 0 else 32), edges.kind is not None
    count = programs(rows, tile, max(1, most // slots // pieces))
    eps_part = floats(source[0], slots, count * pieces, 1)
    tables, eps = _tables(messages, source[0]), [m.eps for m in messages]
    part = floats(source[0], slots, count, tables[0].size(0) * channels) if few else eps_part
    launch(_collect_back, (count, slots, pieces),
        gy[0], apart(gy), source[0], apart(source), edges.ptr_t, edges.target, edges.edge_t, edges.edge_t if edges.kind is None else edges.kind,
        tables[0], apart(tables), eps[0], apart(eps), gx[0], apart(gx), part, eps_part, rows, channels, tables[0].size(0) if few else 0,
        BC=size, BM=tile, BE=FEW_TYPES, PREC=precision(gy[0]), EDGES=messages[0].table is not None, TYPED=few, FEW=few, OWN=own, ADD=add,
        num_warps=warps,
    )  # fmt: skip
    g_eps: list[Tensor | None] = [*later.add(eps_part)] if own else [None] * slots
    if few:
        total = later.add(part)
        return [total[t].view(-1, channels) for t in range(slots)], g_eps
    return [None if m.table is None else _gradient_of_table(gy[t], source[t], m) for t, m in enumerate(messages)], g_eps


def own_back(
    gy: Sequence[Tensor], own: Tensor, eps: Sequence[Tensor], later: Partial, g_own: Tensor | None = None
) -> tuple[Tensor, list[Tensor]]:
    """Gradients of values that are not sources of messages, and of eps, for one or two slots of the same values."""
    (rows, channels), (tile, most) = own.shape, (32, 264)
    size, pieces = chunks(channels)
    count, g_own = programs(rows, tile, most), torch.empty_like(own) if g_own is None else g_own
    part = floats(own, len(gy), count * pieces, 1)
    launch(_own_backward, (count, pieces),
        gy[0], gy[-1], own, eps[0], eps[-1], g_own, part, rows, channels, TWO=len(gy) == 2, BC=size, BM=tile, num_warps=4
    )  # fmt: skip
    return g_own, list(later.add(part))


def _gradient_of_table(gy: Tensor, source: Tensor, messages: PassedMessages) -> Tensor:
    """The gradient of a table with one row per edge."""
    edges, table = messages.edges, messages.table
    assert table is not None
    found, (size, pieces) = torch.empty_like(table), chunks(table.size(1), 32)
    if table.size(0):
        launch(_edge_gradient, (table.size(0), pieces),
            gy, source, edges.ptr_e, edges.source_e, edges.target_e, table, found, table.size(1), BC=size, BM=16, num_warps=2,
        )  # fmt: skip
    return found


def _tables(messages: Sequence[PassedMessages], some: Tensor) -> list[Tensor]:
    return [some if m.table is None else m.table for m in messages]


def pass_messages(own: Tensor | None, source: Tensor, messages: Sequence[PassedMessages]) -> tuple[Tensor, ...]:
    """The values ``(1 + eps) own[t]`` plus messages from ``source`` into t, for one or two slots.

    Args:
        own: the values of the targets, which may be the sources themselves; None to sum messages alone.
        source: the values that messages come from.
        messages: the messages of each slot.
    """
    weights = [tensor for m in messages for tensor in (m.table, m.eps)]
    values = None if own is None else own.contiguous()
    origin = values if own is source else source.contiguous()
    out: tuple[Tensor, ...] = _Passed.apply(messages, values, origin, *weights)  # type: ignore[no-untyped-call]
    return out


class _Passed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, messages: Sequence[PassedMessages], own: Tensor | None, source: Tensor, *weights: Tensor | None
    ) -> tuple[Tensor, ...]:
        found = [source.new_empty(m.edges.ptr.numel() - 1, source.size(1)) for m in messages]
        for m, out in zip(messages, found, strict=True):
            collect(None if own is None else [own], [source], [m], [out])
        ctx.messages, ctx.same = messages, own is source
        ctx.save_for_backward(own, source)
        return tuple(found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor) -> tuple[Any, ...]:
        messages, (own, source), g = ctx.messages, ctx.saved_tensors, [one.contiguous() for one in given]
        g_own, g_source, tables, eps, later = (
            None,
            torch.empty_like(source),
            list[Tensor | None](),
            list[Tensor | None](),
            Partial(),
        )
        for t, m in enumerate(messages):
            table, more = collect_back([g[t]], [source], [m], [g_source], later, own=ctx.same, add=t > 0)
            tables, eps = tables + table, eps + more
        if own is not None and not ctx.same:
            g_own, eps = own_back(g, own, [m.eps for m in messages], later)  # type: ignore[assignment]
        later.finish()
        return None, g_own, g_source, *(grad for pair in zip(tables, eps, strict=True) for grad in pair)


def own_and_sum(own: Tensor, total: Tensor, eps: Tensor) -> Tensor:
    """The values ``(1 + eps) own`` plus sums that have been computed already."""
    out: Tensor = _OwnAndSum.apply(own.contiguous(), total, eps)  # type: ignore[no-untyped-call]
    return out


class _OwnAndSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, total: Tensor, eps: Tensor) -> Tensor:
        ctx.save_for_backward(own, eps)
        return torch.addcmul(total, own, 1 + eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        own, eps = ctx.saved_tensors
        later = Partial()
        g_own, (g_eps,) = own_back([g.contiguous()], own, [eps], later)
        later.finish()
        return g_own, g, g_eps
