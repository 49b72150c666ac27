"""Map values on nodes to values on pairs, with marks in front."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from reign.kernels._plan import Segments
from reign.kernels.fused._launch import launch
from reign.kernels.fused._linear import block
from reign.kernels.fused._sums import segment_sum


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
