r"""Messages of two rows at once and their sums, in one pass: :math:`y_t = \sum_{m \to t} \mathrm{relu}(p_{r(m)} + q_{s(m)} + e_{b(m)})`.

Messages are not stored. The gradient of p is the same kind of sum over the messages that read a row of p, with the gradient of the target where the
ReLU is active; the gradients of q and e are computed in the same way.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from reign.kernels._indices import Segments
from reign.kernels.fused._launch import launch
from reign.kernels.fused._linear import chunks

MESSAGES, WARPS = 4, 2  # messages and warps of a tile


@triton.jit
def _pass(
    p, q, e, g, first, second, edge, target, ptr, index, out, C,
    HAS_E: tl.constexpr, GRADIENT: tl.constexpr, BC: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """The sum over the messages of one group: of the messages themselves, or of the gradients at their targets."""
    group = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    ok = c < C
    start, end = tl.load(ptr + group), tl.load(ptr + group + 1)
    total = tl.zeros([BC], tl.float32)
    for m0 in range(start, end, BM):
        place = m0 + tl.arange(0, BM)
        there = place < end
        mok = there[:, None] & ok[None, :]
        m = tl.load(index + place, mask=there, other=0)
        at = tl.load(first + m, mask=there, other=0).to(tl.int64)
        value = tl.load(p + at[:, None] * C + c[None, :], mask=mok, other=0.0)
        at = tl.load(second + m, mask=there, other=0).to(tl.int64)
        value += tl.load(q + at[:, None] * C + c[None, :], mask=mok, other=0.0)
        if HAS_E:
            at = tl.load(edge + m, mask=there, other=0).to(tl.int64)
            value += tl.load(e + at[:, None] * C + c[None, :], mask=mok, other=0.0)
        if GRADIENT:
            at = tl.load(target + m, mask=there, other=0).to(tl.int64)
            value = tl.where(value > 0, tl.load(g + at[:, None] * C + c[None, :], mask=mok, other=0.0), 0.0)
        else:
            value = tl.maximum(value, 0.0)
        total += tl.sum(value, 0)
    tl.store(out + group.to(tl.int64) * C + c, total, mask=ok)


@dataclass(frozen=True, eq=False)
class Pairings:
    """The messages: their first rows, second rows, edges and targets, and the messages of each of these.

    Args:
        first, second, edge, target: one entry per message.
        of_first, of_second, of_edge, of_target: the messages of each first row, and so on.
    """

    first: Tensor
    second: Tensor
    edge: Tensor
    target: Tensor
    of_first: Segments
    of_second: Segments
    of_edge: Segments
    of_target: Segments


def pair_messages(p: Tensor, q: Tensor, e: Tensor | None, pairings: Pairings) -> Tensor:
    """The sums of messages relu(p + q + e), one row for each target.

    Args:
        p, q: values of the first and second rows.
        e: values of the edges; None if there are none.
        pairings: the messages.
    """
    out: Tensor = _Messages.apply(p.contiguous(), q.contiguous(), None if e is None else e.contiguous(), pairings)
    return out


def _passed(p: Tensor, q: Tensor, e: Tensor | None, g: Tensor | None, groups: Segments, of: Pairings) -> Tensor:
    number, channels = groups.ptr.numel() - 1, p.size(1)
    out, (size, pieces) = p.new_empty(number, channels), chunks(channels)
    if number:
        launch(_pass, (number, pieces),
            p, q, p if e is None else e, p if g is None else g, of.first, of.second, of.edge, of.target, groups.ptr, groups.index, out, channels,
            HAS_E=e is not None, GRADIENT=g is not None, BC=size, BM=MESSAGES, num_warps=WARPS,
        )  # fmt: skip
    return out


class _Messages(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, q: Tensor, e: Tensor | None, of: Pairings) -> Tensor:
        ctx.of, ctx.has_e = of, e is not None
        ctx.save_for_backward(p, q, *(() if e is None else (e,)))
        return _passed(p, q, e, None, of.of_target, of)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None]:
        p, q, *rest = ctx.saved_tensors
        e, of, g = rest[0] if ctx.has_e else None, ctx.of, g.contiguous()
        dp, dq = (_passed(p, q, e, g, groups, of) for groups in (of.of_first, of.of_second))
        return dp, dq, _passed(p, q, e, g, of.of_edge, of) if e is not None else None, None
