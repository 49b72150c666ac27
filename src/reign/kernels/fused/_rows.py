r"""The end of a layer on pairs, and sums over ragged sets of rows.

.. math:: x^k_i = \sigma \Big( \sum_t \mathrm{norm}_t(y_t)^k_i + S_k + N_i \Big), \quad x^k_k = \sigma(R_k) \text{ if roots have their own terms}

The backward pass adds in one step the gradients of the pairs themselves, of their sums over subgraphs (readout) and over nodes (needle), and
of selected rows (roots and their neighbours).
"""

import triton
import triton.language as tl

from reign.kernels.fused._linear import _moments

# the bits of a pair are INNER, OUTER, ROOT and KEPT of ``reign.kernels._plan``


@triton.jit
def _combine(
    plain, normed, stats, gamma, beta, S, N, R, sub, node, flags, out, P, C,
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
        total += tl.load(plain + t * P.to(tl.int64) * C + at, mask=mok, other=0.0)
    for t in tl.static_range(NORMED):
        value = tl.load(normed + t * P.to(tl.int64) * C + at, mask=mok, other=0.0)
        mean, rstd, scale, shift = _moments(stats, gamma, beta, PLAIN + t, c, ok, C)
        value = (value - mean[None, :]) * (rstd * scale)[None, :] + shift[None, :]
        total += tl.where(((bits & 2) != 0)[:, None], value, 0.0)
    if HAS_S or HAS_R:
        k = tl.load(sub + rows, mask=m, other=0)[:, None].to(tl.int64) * C + c[None, :]
    if HAS_S:
        total += tl.load(S + k, mask=mok, other=0.0)
    if HAS_N:
        i = tl.load(node + rows, mask=m, other=0)[:, None].to(tl.int64) * C + c[None, :]
        total += tl.load(N + i, mask=mok, other=0.0)
    if HAS_R:
        root = ((bits & 4) != 0)[:, None]
        total = tl.where(root, tl.load(R + k, mask=mok & root, other=0.0), total)
    if ACT:
        total = tl.maximum(total, 0.0)
    if MASK:
        total = tl.where(((bits & 8) != 0)[:, None], total, 0.0)
    tl.store(out + at, total, mask=mok)


@triton.jit
def _combine_backward(
    g, g_sub, g_node, g_root, g_pick, pick_ptr, pick_index, out, y, stats, sub, node, flags, gy, gR, part, P, C,
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
            total += tl.load(g + at, mask=mok, other=0.0)
        k = tl.load(sub + rows, mask=m, other=0)[:, None].to(tl.int64) * C + c[None, :]
        if HAS_SUB:
            total += tl.load(g_sub + k, mask=mok, other=0.0)
        if HAS_NODE:
            i = tl.load(node + rows, mask=m, other=0)[:, None].to(tl.int64) * C + c[None, :]
            total += tl.load(g_node + i, mask=mok, other=0.0)
        if HAS_ROOT:
            total += tl.load(g_root + k, mask=mok & ((bits & 4) != 0)[:, None], other=0.0)
        if HAS_PICK:
            start = tl.load(pick_ptr + rows, mask=m, other=0)
            number = tl.load(pick_ptr + rows + 1, mask=m, other=0) - start
            for d in range(0, tl.max(number, 0)):
                there = d < number
                p = tl.load(pick_index + start + d, mask=there, other=0)[:, None].to(tl.int64) * C + c[None, :]
                total += tl.load(g_pick + p, mask=there[:, None] & ok[None, :], other=0.0)
        if ACT:
            total = tl.where(tl.load(out + at, mask=mok, other=0.0) > 0, total, 0.0)
        if MASK:
            total = tl.where(((bits & 8) != 0)[:, None], total, 0.0)
        if HAS_R:
            root = ((bits & 4) != 0)[:, None]
            tl.store(gR + k, total, mask=mok & root)
            total = tl.where(root, 0.0, total)
        tl.store(gy + at, total, mask=mok)
        if NORM:
            counted = tl.where(((bits & 2) != 0)[:, None], total, 0.0)
            hat = (tl.load(y + at, mask=mok, other=0.0) - mean[None, :]) * rstd[None, :]
            s += tl.sum(counted, 0)
            q += tl.sum(counted * hat, 0)
    if NORM:
        o = part + pid * 2 * C
        tl.store(o + c, s, mask=ok)
        tl.store(o + C + c, q, mask=ok)


@triton.jit
def _segment_sum(x, ptr, index, out, C, S, first_channel, BC: tl.constexpr, BM: tl.constexpr, INDEXED: tl.constexpr):
    """``out[s] = sum of x[index[ptr[s]:ptr[s + 1]]]``, one program per segment. Without ``index`` the rows are consecutive.

    A row has S channels, of which C are summed, starting at ``first_channel``.
    """
    s, c = tl.program_id(0), tl.program_id(1) * BC + tl.arange(0, BC)
    ok = c < C
    end = tl.load(ptr + s + 1)
    total = tl.zeros([BM, BC], tl.float32)
    for first in range(tl.load(ptr + s), end, BM):
        row = first + tl.arange(0, BM)
        there = row < end
        if INDEXED:
            row = tl.load(index + row, mask=there, other=0)
        total += tl.load(
            x + row[:, None].to(tl.int64) * S + first_channel + c[None, :], mask=there[:, None] & ok[None, :], other=0.0
        )
    tl.store(out + s.to(tl.int64) * C + c, tl.sum(total, 0), mask=ok)


@triton.jit
def _short_segment_sum(x, ptr, index, out, N, C, S, first_channel, BC: tl.constexpr, BM: tl.constexpr, INDEXED: tl.constexpr):
    """The same for N segments of a few rows each: every program has BM segments, and adds one row of each at a time."""
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
        total += tl.load(x + at, mask=there[:, None] & ok[None, :], other=0.0)
    tl.store(out + s[:, None].to(tl.int64) * C + c[None, :], total, mask=m[:, None] & ok[None, :])


@triton.jit
def _add_groups(y, stats, gamma, beta, group, norms, flags, out, R, C, T, BC: tl.constexpr, BM: tl.constexpr, MASKED: tl.constexpr):
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
            value = tl.load(y + t * R.to(tl.int64) * C + at, mask=mok, other=0.0)
            if (norms >> t) & 1:
                mean, rstd, scale, shift = _moments(stats, gamma, beta, t, c, ok, C)
                value = (value - mean[None, :]) * (rstd * scale)[None, :] + shift[None, :]
                value = tl.where(counted[:, None], value, 0.0)
            total += value
    tl.store(out + q * R.to(tl.int64) * C + at, total, mask=mok)
