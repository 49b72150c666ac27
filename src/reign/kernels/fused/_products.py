r"""Matrix products of the graphs of a batch in every channel, on ragged rows: :math:`y^k_i = \sum_j a^k_j b^j_i`.

A program computes one row k of one graph for some channels, with a loop over j; values that it reads repeatedly stay in the cache. Nothing is
padded, and results do not depend on the order of execution. Gradients are products with one factor transposed.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from reign.kernels.fused._launch import launch

CHANNELS, COLUMNS = 16, 32  # channels and columns of a tile


@triton.jit
def _product(
    a, b, y, row_ptr, ptr, batch, real, C,
    PADDED: tl.constexpr, TRANSPOSED_A: tl.constexpr, TRANSPOSED_B: tl.constexpr, BC: tl.constexpr, BQ: tl.constexpr,
):  # fmt: skip
    """Row p of the product of one graph. If a factor is transposed, its entry (p, r) is read as (r, p)."""
    p = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    ok = c < C
    there = True
    if PADDED:
        there = tl.load(real + p) != 0
    if there:
        graph = tl.load(batch + p)
        first = tl.load(ptr + graph)
        n = (tl.load(ptr + graph + 1) - first).to(tl.int32)
        start = tl.load(row_ptr + first).to(tl.int64)
        row = (p - first).to(tl.int32)
        for q0 in range(0, n, BQ):
            q = q0 + tl.arange(0, BQ)
            here = (q < n)[:, None] & ok[None, :]
            total = tl.zeros([BQ, BC], tl.float32)
            for r in range(0, n):
                at_a = r * n + row if TRANSPOSED_A else row * n + r
                at_b = q * n + r if TRANSPOSED_B else r * n + q
                left = tl.load(a + (start + at_a) * C + c, mask=ok, other=0.0)
                right = tl.load(b + (start + at_b)[:, None] * C + c[None, :], mask=here, other=0.0)
                total += left[None, :] * right
            tl.store(y + (start + row * n + q)[:, None] * C + c[None, :], total, mask=here)


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


def _multiply(a: Tensor, b: Tensor, squares: Squares, transposed_a: bool = False, transposed_b: bool = False) -> Tensor:
    out, nodes, real = torch.zeros_like(a), squares.batch.numel(), squares.real
    if nodes:
        launch(_product, (nodes, triton.cdiv(a.size(1), CHANNELS)),
            a, b, out, squares.row_ptr, squares.ptr, squares.batch, squares.batch if real is None else real.view(torch.int8), a.size(1),
            PADDED=real is not None, TRANSPOSED_A=transposed_a, TRANSPOSED_B=transposed_b, BC=CHANNELS, BQ=COLUMNS, num_warps=4,
        )  # fmt: skip
    return out


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, squares: Squares) -> Tensor:
        ctx.squares = squares
        ctx.save_for_backward(a, b)
        return _multiply(a, b, squares)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None]:
        a, b = ctx.saved_tensors
        g = g.contiguous()
        return _multiply(g, b, ctx.squares, transposed_b=True), _multiply(a, g, ctx.squares, transposed_a=True), None
