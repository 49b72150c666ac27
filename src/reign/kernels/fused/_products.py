r"""Products of the graphs of a batch as matrices in every channel, on ragged rows, and their signed roots: :math:`y^k_i = \sum_j a^k_j b^j_i`.

A program of a whole product computes some rows k of one graph for some channels, with a loop over j; a program of a sum over triples computes one
row (k, i). Nothing is padded, and results do not depend on the order of execution. Gradients are products with one factor transposed.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from reign.kernels._plan import Edges
from reign.kernels.fused._launch import block, launch

CHANNELS, COLUMNS, ROWS, STAGES = 16, 32, 8, 4  # channels, columns and rows of a tile, and loads in flight
TRIPLES = (4, 1)  # triples at a time, warps


@triton.jit
def _rows_of_product(
    a, b, y, row_ptr, ptr, batch, real, C,
    PADDED: tl.constexpr, TRANSPOSED_A: tl.constexpr, TRANSPOSED_B: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr, BQ: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Rows p to p + BP of the product of one graph, if p is a multiple of BP. If a factor is transposed, its entry (p, r) is read as (r, p)."""
    p = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    ok = c < C
    there = True
    if PADDED:
        there = tl.load(real + p) != 0
    graph = tl.load(batch + p)
    first = tl.load(ptr + graph)
    if there & ((p - first) % BP == 0):
        n = (tl.load(ptr + graph + 1) - first).to(tl.int32)
        start = tl.load(row_ptr + first).to(tl.int64)
        row = (p - first).to(tl.int32) + tl.arange(0, BP)
        mine = (row < n)[:, None] & ok[None, :]
        for q0 in range(0, n, BQ):
            q = q0 + tl.arange(0, BQ)
            here = (q < n)[:, None] & ok[None, :]
            total = tl.zeros([BP, BQ, BC], tl.float32)
            for r in tl.range(0, n, num_stages=STAGES):
                at_a = r * n + row if TRANSPOSED_A else row * n + r
                at_b = q * n + r if TRANSPOSED_B else r * n + q
                left = tl.load(a + (start + at_a)[:, None] * C + c[None, :], mask=mine, other=0.0).to(tl.float32)
                right = tl.load(b + (start + at_b)[:, None] * C + c[None, :], mask=here, other=0.0).to(tl.float32)
                total += left[:, None, :] * right[None, :, :]
            at = (start + row[:, None] * n + q[None, :])[:, :, None] * C + c[None, None, :]
            tl.store(y + at, total, mask=mine[:, None, :] & here[None, :, :])


@triton.jit
def _product(
    a, b, y, row_ptr, ptr, batch, real, C,
    PADDED: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr, BQ: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    _rows_of_product(a, b, y, row_ptr, ptr, batch, real, C, PADDED, False, False, BC, BP, BQ, STAGES)


@triton.jit
def _product_back(
    a, b, g, ga, gb, row_ptr, ptr, batch, real, C,
    PADDED: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr, BQ: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    if tl.program_id(2) == 0:
        _rows_of_product(g, b, ga, row_ptr, ptr, batch, real, C, PADDED, False, True, BC, BP, BQ, STAGES)
    else:
        _rows_of_product(a, g, gb, row_ptr, ptr, batch, real, C, PADDED, True, False, BC, BP, BQ, STAGES)


@dataclass(frozen=True, eq=False)
class Squares:
    """The positions of the n x n rows of each graph.

    Args:
        row_ptr: the first row of each subgraph.
        ptr: the first node of each graph.
        batch: the graph of each node.
        real: whether each node is real and not padding; None if all are real.
    """

    row_ptr: Tensor
    ptr: Tensor
    batch: Tensor
    real: Tensor | None = None


def square_product(a: Tensor, b: Tensor, squares: Squares) -> Tensor:
    """The product of two matrices for each graph and channel; rows of padding are zeros."""
    out: Tensor = _Product.apply(a.contiguous(), b.contiguous(), squares)
    return out


def _multiply(kernel: Any, factors: tuple[Tensor, ...], squares: Squares, number: int) -> Tensor:
    """One product, or both gradients."""
    like, nodes, real = factors[0], squares.batch.numel(), squares.real
    out = like.new_zeros(number, *like.shape)
    if nodes:
        launch(kernel, (nodes, triton.cdiv(like.size(1), CHANNELS), number),
            *factors, *out, squares.row_ptr, squares.ptr, squares.batch, squares.batch if real is None else real.view(torch.int8), like.size(1),
            PADDED=real is not None, BC=CHANNELS, BP=ROWS, BQ=COLUMNS, STAGES=STAGES, num_warps=4,
        )  # fmt: skip
    return out


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, squares: Squares) -> Tensor:
        ctx.squares = squares
        ctx.save_for_backward(a, b)
        return _multiply(_product, (a, b), squares, 1)[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None]:
        ga, gb = _multiply(_product_back, (*ctx.saved_tensors, g.contiguous()), ctx.squares, 2)
        return ga, gb, None


# -- sums over triples --------------------------------------------------------------------------------------------------


@triton.jit
def _sum_of_products(a, b, y, ptr, at_a, at_b, C, BC: tl.constexpr, BM: tl.constexpr):
    """``y[t]`` is the sum of ``a[at_a[e]] * b[at_b[e]]`` over the entries e from ``ptr[t]`` to ``ptr[t + 1]``."""
    t, c = tl.program_id(0), tl.arange(0, BC)
    ok = c < C
    end = tl.load(ptr + t + 1)
    total = tl.zeros([BM, BC], tl.float32)
    for first in range(tl.load(ptr + t), end, BM):
        e = first + tl.arange(0, BM)
        there = e < end
        here = there[:, None] & ok[None, :]
        left = tl.load(at_a + e, mask=there, other=0).to(tl.int64)
        right = tl.load(at_b + e, mask=there, other=0).to(tl.int64)
        one = tl.load(a + left[:, None] * C + c[None, :], mask=here, other=0.0).to(tl.float32)
        total += one * tl.load(b + right[:, None] * C + c[None, :], mask=here, other=0.0).to(tl.float32)
    tl.store(y + t.to(tl.int64) * C + c, tl.sum(total, 0), mask=ok)


@triton.jit
def _triples(a, b, y, ptr, source, edge, C, BC: tl.constexpr, BM: tl.constexpr):
    _sum_of_products(a, b, y, ptr, source, edge, C, BC, BM)


@triton.jit
def _triples_back(
    a, b, g, ga, gb, ptr_t, target, edge_t, ptr_e, target_e, source_e, C, BC: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    if tl.program_id(1) == 0:
        _sum_of_products(g, b, ga, ptr_t, target, edge_t, C, BC, BM)
    else:
        _sum_of_products(g, a, gb, ptr_e, target_e, source_e, C, BC, BM)


def triple_product(a: Tensor, b: Tensor, triples: Edges) -> Tensor:
    """The sum over triples of ``a[source] * b[edge]`` at each target. Rows without triples are zeros."""
    out: Tensor = _Triples.apply(a.contiguous(), b.contiguous(), triples)
    return out


class _Triples(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, triples: Edges) -> Tensor:
        out, (size, warps), t = torch.empty_like(a), TRIPLES, triples
        if a.numel():
            launch(
                _triples, (a.size(0),), a, b, out, t.ptr, t.source, t.edge, a.size(1), BC=block(a.size(1)), BM=size, num_warps=warps
            )
        ctx.triples = triples
        ctx.save_for_backward(a, b)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None]:
        (a, b), t, (size, warps) = ctx.saved_tensors, ctx.triples, TRIPLES
        ga, gb = a.new_empty(2, *a.shape)
        if a.numel():
            launch(_triples_back, (a.size(0), 2),
                a, b, g.contiguous(), ga, gb, t.ptr_t, t.target, t.edge_t, t.ptr_e, t.target_e, t.source_e, a.size(1), BC=block(a.size(1)),
                BM=size, num_warps=warps,
            )  # fmt: skip
        return ga, gb, None


# -- signed roots -------------------------------------------------------------------------------------------------------


@triton.jit
def _join(h, m, y, R, CH, CM, SMALLEST: tl.constexpr, BH: tl.constexpr, BC: tl.constexpr, BM: tl.constexpr):
    rows = (tl.program_id(0) * BM + tl.arange(0, BM)).to(tl.int64)
    ch, cm, in_rows = tl.arange(0, BH), tl.arange(0, BC), (rows < R)[:, None]
    out = y + rows[:, None] * (CH + CM)
    mine = in_rows & (ch < CH)[None, :]
    tl.store(out + ch[None, :], tl.load(h + rows[:, None] * CH + ch[None, :], mask=mine), mask=mine)
    mine = in_rows & (cm < CM)[None, :]
    value = tl.load(m + rows[:, None] * CM + cm[None, :], mask=mine, other=0.0).to(tl.float32)
    tl.store(out + CH + cm[None, :], value * tl.rsqrt(tl.maximum(tl.abs(value), SMALLEST)), mask=mine)


@triton.jit
def _join_back(g, y, gm, R, CH, CM, SMALLEST: tl.constexpr, BC: tl.constexpr, BM: tl.constexpr):
    """The slope of a root is half its inverse, or a constant near 0."""
    rows = (tl.program_id(0) * BM + tl.arange(0, BM)).to(tl.int64)
    c = tl.arange(0, BC)
    mine = (rows < R)[:, None] & (c < CM)[None, :]
    at = rows[:, None] * (CH + CM) + CH + c[None, :]
    size = tl.abs(tl.load(y + at, mask=mine, other=1.0).to(tl.float32))
    slope = tl.where(size * size < SMALLEST, 1.0 / tl.sqrt(tl.full([], SMALLEST, tl.float32)), 0.5 / tl.maximum(size, 1e-9))
    tl.store(gm + rows[:, None] * CM + c[None, :], tl.load(g + at, mask=mine, other=0.0) * slope, mask=mine)


def join_roots(h: Tensor, m: Tensor, smallest: float) -> Tensor:
    """``[h, m / sqrt(max(|m|, smallest))]``: values, and signed roots of products."""
    out: Tensor = _Join.apply(h.contiguous(), m.contiguous(), smallest)
    return out


class _Join(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, m: Tensor, smallest: float) -> Tensor:
        (number, own), channels = h.shape, m.size(1)
        out = h.new_empty(number, own + channels)
        launch(_join, (triton.cdiv(number, 16),),
            h, m, out, number, own, channels, SMALLEST=smallest, BH=block(own), BC=block(channels), BM=16, num_warps=4
        )  # fmt: skip
        ctx.smallest, ctx.own = smallest, own
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None]:
        (out,), own, g = ctx.saved_tensors, ctx.own, g.contiguous()
        number, channels = out.size(0), out.size(1) - own
        gm = out.new_empty(number, channels)
        launch(_join_back, (triton.cdiv(number, 16),),
            g, out, gm, number, own, channels, SMALLEST=ctx.smallest, BC=block(channels), BM=16, num_warps=4
        )  # fmt: skip
        return g[:, :own], gm, None
