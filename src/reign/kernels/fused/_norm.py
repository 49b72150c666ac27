"""Batch norm over the rows that count, optionally followed by a ReLU. Statistics and result take one pass each, forward and backward.

Rows that do not count are set to zero, and have no gradient. Every program stores its own sums over rows, which are added in a fixed order.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from reign.kernels.fused import _linear
from reign.kernels.fused._launch import block, chunks, floats, launch, pointers, programs
from reign.kernels.fused._sums import add_up

SUMS, APPLY = (64, 528, 4), (64, 4)  # rows of a tile, largest number of programs, warps


@triton.jit
def _statistics(x, flags, part, R, C, BC: tl.constexpr, BM: tl.constexpr):
    """For each program, the number of rows that count, their mean, and the sum of their squared distances from it."""
    pid = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    ok = c < C
    n = 0.0
    mean, spread = tl.zeros([BC], tl.float32), tl.zeros([BC], tl.float32)
    for tile in range(pid, tl.cdiv(R, BM), tl.num_programs(0)):
        rows = tile * BM + tl.arange(0, BM)
        counted = tl.load(flags + rows, mask=rows < R, other=0) != 0
        here = counted[:, None] & ok[None, :]
        value = tl.load(x + rows[:, None].to(tl.int64) * C + c[None, :], mask=here, other=0.0).to(tl.float32)
        more = tl.sum(counted.to(tl.float32))
        mean_here = tl.sum(value, 0) / tl.maximum(more, 1.0)
        away = tl.where(here, value - mean_here[None, :], 0.0)
        delta, total = mean_here - mean, tl.maximum(n + more, 1.0)
        spread += tl.sum(away * away, 0) + delta * delta * (n * more / total)
        mean += delta * (more / total)
        n += more
    o = part + pid * (2 * C + 1)
    tl.store(o + c, mean, mask=ok)
    tl.store(o + C + c, spread, mask=ok)
    tl.store(o + 2 * C, n)


@triton.jit
def _apply(x, flags, stats, scale, shift, y, R, C, RELU: tl.constexpr, BC: tl.constexpr, BM: tl.constexpr):
    """The normalised rows."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    ok = c < C
    m = (rows < R)[:, None] & ok[None, :]
    here = (tl.load(flags + rows, mask=rows < R, other=0) != 0)[:, None] & ok[None, :]
    mean = tl.load(stats + c, mask=ok, other=0.0)
    factor = tl.load(stats + C + c, mask=ok, other=0.0) * tl.load(scale + c, mask=ok, other=0.0)
    at = rows[:, None].to(tl.int64) * C + c[None, :]
    out = (tl.load(x + at, mask=here, other=0.0).to(tl.float32) - mean[None, :]) * factor[None, :] + tl.load(
        shift + c, mask=ok, other=0.0
    )[None, :]
    if RELU:
        out = tl.maximum(out, 0.0)
    tl.store(y + at, tl.where(here, out, 0.0), mask=m)


@triton.jit
def _sums(g, x, flags, stats, scale, shift, part, R, C, RELU: tl.constexpr, BC: tl.constexpr, BM: tl.constexpr):
    """Sums of the gradient, and of the gradient times the normalised rows."""
    pid = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    ok = c < C
    mean, rstd = tl.load(stats + c, mask=ok, other=0.0), tl.load(stats + C + c, mask=ok, other=0.0)
    factor, offset = tl.load(scale + c, mask=ok, other=0.0), tl.load(shift + c, mask=ok, other=0.0)
    s, q = tl.zeros([BC], tl.float32), tl.zeros([BC], tl.float32)
    for tile in range(pid, tl.cdiv(R, BM), tl.num_programs(0)):
        rows = tile * BM + tl.arange(0, BM)
        here = (tl.load(flags + rows, mask=rows < R, other=0) != 0)[:, None] & ok[None, :]
        at = rows[:, None].to(tl.int64) * C + c[None, :]
        hat = (tl.load(x + at, mask=here, other=0.0).to(tl.float32) - mean[None, :]) * rstd[None, :]
        dy = tl.load(g + at, mask=here, other=0.0).to(tl.float32)
        if RELU:
            dy = tl.where(hat * factor[None, :] + offset[None, :] > 0, dy, 0.0)
        s += tl.sum(dy, 0)
        q += tl.sum(dy * hat, 0)
    o = part + pid * 2 * C
    tl.store(o + c, s, mask=ok)
    tl.store(o + C + c, q, mask=ok)


@triton.jit
def _back(g, x, flags, stats, scale, shift, sums, inverse, gx, R, C, RELU: tl.constexpr, BC: tl.constexpr, BM: tl.constexpr):
    """The gradient of the rows."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    ok = c < C
    m = (rows < R)[:, None] & ok[None, :]
    here = (tl.load(flags + rows, mask=rows < R, other=0) != 0)[:, None] & ok[None, :]
    mean, rstd = tl.load(stats + c, mask=ok, other=0.0), tl.load(stats + C + c, mask=ok, other=0.0)
    factor, offset = tl.load(scale + c, mask=ok, other=0.0), tl.load(shift + c, mask=ok, other=0.0)
    inv = tl.load(inverse)
    s, q = tl.load(sums + c, mask=ok, other=0.0) * inv, tl.load(sums + C + c, mask=ok, other=0.0) * inv
    at = rows[:, None].to(tl.int64) * C + c[None, :]
    hat = (tl.load(x + at, mask=here, other=0.0).to(tl.float32) - mean[None, :]) * rstd[None, :]
    dy = tl.load(g + at, mask=here, other=0.0).to(tl.float32)
    if RELU:
        dy = tl.where(hat * factor[None, :] + offset[None, :] > 0, dy, 0.0)
    dx = (dy - s[None, :] - hat * q[None, :]) * (rstd * factor)[None, :]
    tl.store(gx + at, tl.where(here, dx, 0.0), mask=m)


@dataclass(frozen=True, eq=False)
class NormState:
    """The state of a batch norm besides its weights, and how it is applied."""

    mean: Tensor
    var: Tensor
    momentum: float
    eps: float
    training: bool
    relu: bool


def norm_rows(x: Tensor, mask: Tensor, scale: Tensor, shift: Tensor, state: NormState) -> Tensor:
    """Normalise the rows in a mask with their statistics (in evaluation, the running ones), and set all others to zero.

    Args:
        x: the rows.
        mask: whether each row counts.
        scale, shift: weights of the norm.
        state: its running statistics, which are updated in training.
    """
    out: Tensor = _Norm.apply(x.contiguous(), scale, shift, mask.view(torch.int8), state)
    return out


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, shift: Tensor, flags: Tensor, state: NormState) -> Tensor:
        (number, channels), (size, pieces) = x.shape, chunks(x.size(1))
        stats, inverse = floats(x, 1, 2, channels), floats(x, 1)
        tables = pointers([state.mean]), pointers([state.var])
        if state.training:
            tile, most, warps = SUMS
            count = programs(number, tile, most)
            part = floats(x, count, 2 * channels + 1)
            launch(_statistics, (count, pieces), x, flags, part, number, channels, BC=size, BM=tile, num_warps=warps)
            launch(_linear._finish_statistics, (1, triton.cdiv(channels, 16)),
                part, stats, inverse, *tables, 1, count, channels, state.momentum, state.eps, BC=16, BG=triton.next_power_of_2(count),
                num_warps=8,
            )  # fmt: skip
        else:
            launch(_linear._running_statistics, (1,), stats, inverse, *tables, 1, channels, state.eps, BC=block(channels))
        out, (tile, warps) = torch.empty_like(x), APPLY
        launch(_apply, (triton.cdiv(number, tile), pieces),
            x, flags, stats, scale, shift, out, number, channels, RELU=state.relu, BC=size, BM=tile, num_warps=warps,
        )  # fmt: skip
        ctx.relu = state.relu
        ctx.save_for_backward(x, scale, shift, flags, stats, inverse)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        x, scale, shift, flags, stats, inverse = ctx.saved_tensors
        g, (number, channels), (size, pieces), (tile, most, warps) = g.contiguous(), x.shape, chunks(x.size(1)), SUMS
        count = programs(number, tile, most)
        part = floats(x, 1, count, 2 * channels)
        launch(_sums, (count, pieces),
            g, x, flags, stats, scale, shift, part, number, channels, RELU=ctx.relu, BC=size, BM=tile, num_warps=warps
        )  # fmt: skip
        sums, gx, (tile, warps) = add_up(part), torch.empty_like(x), APPLY
        launch(_back, (triton.cdiv(number, tile), pieces),
            g, x, flags, stats, scale, shift, sums, inverse, gx, number, channels, RELU=ctx.relu, BC=size, BM=tile, num_warps=warps,
        )  # fmt: skip
        return gx, sums[0, channels:], sums[0, :channels], None, None
