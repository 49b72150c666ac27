r"""Message passing over ragged rows, in one forward pass and one backward pass. Messages are never stored.

.. math:: y_t = (1 + \epsilon)\, x_t + \sum_{s \to t} \mathrm{relu}(x_s + e_{st}) \quad \text{or} \quad (1 + \epsilon)\, x_t + \sum_{s \to t} x_s

Messages are grouped by target in the forward pass and by source in the backward pass, so that no two programs write to the same row.
Gradients of edge features are summed by type if there are few types (a small product in the same pass), otherwise by edge. Two slots with
messages along the same edges are processed together (grid axis 1), at any distance in memory; axis 2 is for parts of the channels.
"""

import triton
import triton.language as tl

from reign.kernels.fused._linear import i64

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
    own, own_s: "i64", source, source_s: "i64", ptr, index, edge, kind, table, table_s: "i64", eps, eps_s: "i64", y, y_s: "i64", R, C,
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
        total += (1.0 + tl.load(eps + slot * eps_s)) * tl.load(own + at, mask=m[:, None] & ok[None, :], other=0.0)
    for d in range(0, tl.max(degree, 0)):
        there = d < degree
        s = tl.load(index + start + d, mask=there, other=0)
        here = there[:, None] & ok[None, :]
        message = tl.load(source + s[:, None].to(tl.int64) * C + c[None, :], mask=here, other=0.0)
        if EDGES:
            e = _edge(edge, kind, start + d, there, TYPED)
            message += tl.load(table + e[:, None].to(tl.int64) * C + c[None, :], mask=here, other=0.0)
            message = tl.maximum(message, 0.0)
        total += message
    tl.store(y + at, total, mask=m[:, None] & ok[None, :])


@triton.jit
def _collect_back(
    gy, gy_s: "i64", source, source_s: "i64", ptr, index, edge, kind, table, table_s: "i64", eps, eps_s: "i64", gx, gx_s: "i64",
    part, R, C,
    BC: tl.constexpr, BM: tl.constexpr, BE: tl.constexpr, PREC: tl.constexpr,
    EDGES: tl.constexpr, TYPED: tl.constexpr, FEW: tl.constexpr, OWN: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    """Gradients of the sources. ``ptr`` and ``index`` group messages by source; with OWN the targets are the same rows as the sources.

    For each program, ``part`` receives the gradients of the edge types, if there are FEW, and for each part of the channels one summand of
    the gradient of eps.
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
        x = tl.load(source + at, mask=mok, other=0.0)
        start = tl.load(ptr + rows, mask=m, other=0)
        degree = tl.load(ptr + rows + 1, mask=m, other=0) - start
        total = tl.zeros([BM, BC], tl.float32)
        if ADD:
            total += tl.load(gx + at, mask=mok, other=0.0)
        if OWN:
            g = tl.load(gy + at, mask=mok, other=0.0)
            total += factor * g
            by_eps += tl.sum(g * x)
        for d in range(0, tl.max(degree, 0)):
            there = d < degree
            t = tl.load(index + start + d, mask=there, other=0)
            here = there[:, None] & ok[None, :]
            g = tl.load(gy + t[:, None].to(tl.int64) * C + c[None, :], mask=here, other=0.0)
            if EDGES:
                e = _edge(edge, kind, start + d, there, TYPED)
                g = tl.where(x + tl.load(table + e[:, None].to(tl.int64) * C + c[None, :], mask=here, other=0.0) > 0, g, 0.0)
                if FEW:
                    one_hot = ((e[None, :] == kinds[:, None]) & there[None, :]).to(tl.float32)
                    by_type += tl.dot(one_hot, g, input_precision=PREC)
            total += g
        tl.store(gx + at, total, mask=mok)
    types = BE * C if FEW else 0
    o = part + (slot * tl.num_programs(0) + pid) * (types + tl.num_programs(2))
    if FEW:
        tl.store(o + kinds[:, None] * C + c[None, :], by_type, mask=ok[None, :] & (kinds[:, None] < BE))
    tl.store(o + types + tl.program_id(2), by_eps)


@triton.jit
def _own_backward(gy, gz, own, eps, zeta, g_own, part, R, C, TWO: tl.constexpr, BC: tl.constexpr, BM: tl.constexpr):
    """Gradients of values that are not sources themselves, and of eps; with TWO of the values of two slots, and of both their eps."""
    pid = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    by_eps, by_zeta = 0.0, 0.0
    for tile in range(pid, tl.cdiv(R, BM), tl.num_programs(0)):
        rows = tile * BM + tl.arange(0, BM)
        at = rows[:, None].to(tl.int64) * C + c[None, :]
        here = (rows < R)[:, None] & (c < C)[None, :]
        x, g = tl.load(own + at, mask=here, other=0.0), tl.load(gy + at, mask=here, other=0.0)
        total = (1.0 + tl.load(eps)) * g
        by_eps += tl.sum(g * x)
        if TWO:
            g = tl.load(gz + at, mask=here, other=0.0)
            total += (1.0 + tl.load(zeta)) * g
            by_zeta += tl.sum(g * x)
        tl.store(g_own + at, total, mask=here)
    number = tl.num_programs(0) * tl.num_programs(1)
    o = part + pid * tl.num_programs(1) + tl.program_id(1)
    tl.store(o, by_eps)
    if TWO:
        tl.store(o + number, by_zeta)


@triton.jit
def _edge_gradient(gy, source, ptr, from_row, to_row, table, ge, C, BC: tl.constexpr, BM: tl.constexpr):
    """The gradient of one edge. ``ptr`` groups messages by edge, each with its source row and its target row: one in each subgraph."""
    edge = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    ok, end = c < C, tl.load(ptr + edge + 1)
    at = edge.to(tl.int64) * C + c
    feature = tl.load(table + at, mask=ok, other=0.0)
    total = tl.zeros([BM, BC], tl.float32)
    for start in range(tl.load(ptr + edge), end, BM):
        place = start + tl.arange(0, BM)
        there = place < end
        here = there[:, None] & ok[None, :]
        s, t = tl.load(from_row + place, mask=there, other=0), tl.load(to_row + place, mask=there, other=0)
        x = tl.load(source + s[:, None].to(tl.int64) * C + c[None, :], mask=here, other=0.0)
        g = tl.load(gy + t[:, None].to(tl.int64) * C + c[None, :], mask=here, other=0.0)
        total += tl.where(x + feature[None, :] > 0, g, 0.0)
    tl.store(ge + at, tl.sum(total, 0), mask=ok)
