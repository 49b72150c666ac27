"""Values of pairs, and sums of them over subgraphs and nodes."""

from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from reign.kernels._plan import PairIndex, Picks, Segments
from reign.kernels.fused import _rows
from reign.kernels.fused._launch import launch
from reign.kernels.fused._linear import chunks, programs

BACKWARD = (32, 528, 4)
SHORT = 8  # mean number of rows of segments up to which a program takes many of them
MANY = 4096  # number of segments that keep the GPU busy with many of them in a program


def segment_sum(x: Tensor, segments: Segments, first: int = 0) -> Tensor:
    """The sum of the rows of each segment, for the channels from ``first`` on."""
    number, channels = segments.ptr.numel() - 1, x.size(1) - first
    out, (size, pieces) = x.new_empty(number, channels), chunks(channels)
    if number == 0:
        return out
    index, indexed = segments.ptr if segments.index is None else segments.index, segments.index is not None
    rows = index.numel() if indexed else x.size(0)
    if rows <= SHORT * number and number > MANY:
        launch(_rows._short_segment_sum, (triton.cdiv(number, 16), pieces),
            x, segments.ptr, index, out, number, channels, x.size(1), first, BC=size, BM=16, INDEXED=indexed, num_warps=4,
        )  # fmt: skip
    else:
        launch(_rows._segment_sum, (number, pieces),
            x, segments.ptr, index, out, channels, x.size(1), first, BC=size, BM=32, INDEXED=indexed, num_warps=4,
        )  # fmt: skip
    return out


def sums_of(h: Tensor, pairs: PairIndex, picks: Picks | None, wanted: frozenset[str]) -> tuple[Tensor | None, ...]:
    """The requested ones of readout, needle, roots and selected rows."""
    readout = segment_sum(h, pairs.to_sub) if "readout" in wanted else None
    needle = segment_sum(h, pairs.to_node) if "needle" in wanted else None
    roots = h.index_select(0, pairs.root) if "root" in wanted and pairs.root is not None else None
    return readout, needle, roots, None if picks is None else h.index_select(0, picks.rows)


def sums_back(
    pairs: PairIndex, picks: Picks | None, given: tuple[Tensor | None, ...], out: Tensor, g_roots: Tensor | None = None, act: bool = False,
    masked: bool = False, normed: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradient of the pairs from the pairs themselves, readout, needle and selected rows, and sums for the norm of one slot (values,
    statistics)."""
    tile, most, warps = BACKWARD
    channels, count = out.size(1), programs(pairs.number, tile, most)
    size, pieces = chunks(channels)
    gy, part = torch.empty_like(out), out.new_empty(1, count, 2 * channels)
    given = tuple(None if g is None else g.contiguous() for g in given)
    y, stats = (out, out) if normed is None else normed
    launch(_rows._combine_backward, (count, pieces),
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
