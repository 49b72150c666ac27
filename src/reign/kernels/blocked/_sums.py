"""Sums over ragged rows in blocks, and those of the values of pairs that layers ask for."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from reign.kernels._indices import Pairs, Picks, Segments
from reign.kernels.blocked._threads import block_rows, each
from reign.kernels.blocked._twice import differentiably

Sums = tuple[Tensor | None, ...]


def bag_sums(x: Tensor, index: Tensor, ptr: Tensor) -> Tensor:
    """``out[t]`` is the sum of ``x[index[ptr[t]:ptr[t + 1]]]``."""
    if index.numel() == 0:
        return x.new_zeros(ptr.numel() - 1, x.size(1))
    return torch.embedding_bag(x, index, ptr, mode=0, include_last_offset=True)[0]


def segment_sum(x: Tensor, segments: Segments) -> Tensor:
    """Sums of rows, one row a segment."""
    number, ptr = segments.ptr.numel() - 1, segments.ptr
    index = torch.arange(x.size(0), dtype=ptr.dtype) if segments.index is None else segments.index
    out, size = x.new_empty(number, x.size(1)), block_rows(number, x.size(1))
    starts = range(0, number, size)
    cuts = ptr[torch.tensor([*starts, number])].tolist()

    def work(b: int) -> None:
        first, last = starts[b], min(starts[b] + size, number)
        out[first:last] = bag_sums(x, index[cuts[b] : cuts[b + 1]], ptr[first : last + 1] - cuts[b])

    each(len(starts), work)
    return out


def sums_of(h: Tensor, pairs: Pairs, picks: Picks | None, wanted: frozenset[str]) -> Sums:
    """Readout, needle, roots and picked rows of values, as far as they are wanted."""
    readout = segment_sum(h, pairs.to_sub) if "readout" in wanted else None
    needle = segment_sum(h, pairs.to_node) if "needle" in wanted else None
    roots = h.index_select(0, pairs.root) if "root" in wanted and pairs.root is not None else None
    return readout, needle, roots, None if picks is None else h.index_select(0, picks.rows)


def plain_sums(h: Tensor, pairs: Pairs, picks: Picks | None, wanted: frozenset[str]) -> Sums:
    """The same in operations that can be differentiated as often as one likes."""
    subs, nodes = pairs.sub_ptr.numel() - 1, pairs.node_ptr.numel() - 1
    readout = h.new_zeros(subs, h.size(1)).index_add(0, pairs.sub, h) if "readout" in wanted else None
    needle = h.new_zeros(nodes, h.size(1)).index_add(0, pairs.node, h) if "needle" in wanted else None
    roots = h.index_select(0, pairs.root) if "root" in wanted and pairs.root is not None else None
    return readout, needle, roots, None if picks is None else h.index_select(0, picks.rows)


class SumsBack:
    """What flows back to the pairs of a block from themselves, readout, needle, roots and picked rows.

    Args:
        pairs, picks: the pairs, and which of them were picked.
        given: the gradients, None where there is none.
        size: number of rows of a block.
    """

    def __init__(self, pairs: Pairs, picks: Picks | None, given: Sequence[Tensor | None], size: int) -> None:
        own, self.readout, self.needle, self.root, self.near = given
        self.own = None if own is None else own.split(size)
        self.sub, self.node, self.picks, self.size = pairs.sub.split(size), pairs.node.split(size), picks, size
        starts = torch.arange(0, pairs.number + size, size).clamp(max=pairs.number)
        self.roots, self.root_cuts = pairs.root, [0] * len(starts)
        if pairs.root is not None:
            self.root_cuts = torch.searchsorted(pairs.root, starts.to(pairs.root.dtype)).tolist()
        self.cuts = [] if picks is None else picks.ptr[starts].tolist()

    def roots_of(self, b: int) -> tuple[slice, Tensor]:
        """The subgraphs whose roots lie in a block, and the places of these in it."""
        assert self.roots is not None
        mine = slice(self.root_cuts[b], self.root_cuts[b + 1])
        return mine, self.roots[mine] - b * self.size

    def __call__(self, b: int, out: Tensor) -> None:
        """Write it for block b."""
        parts = [None if self.own is None else self.own[b]]
        parts.append(None if self.readout is None else self.readout.index_select(0, self.sub[b]))
        parts.append(None if self.needle is None else self.needle.index_select(0, self.node[b]))
        if self.picks is not None and self.near is not None and self.cuts[b] < self.cuts[b + 1]:
            ptr = self.picks.ptr[b * self.size : b * self.size + out.size(0) + 1] - self.cuts[b]
            parts.append(bag_sums(self.near, self.picks.index[self.cuts[b] : self.cuts[b + 1]], ptr))
        found = [part for part in parts if part is not None]
        if len(found) >= 2:
            torch.add(found[0], found[1], out=out)
        elif found:
            out.copy_(found[0])
        else:
            out.zero_()
        for part in found[2:]:
            out.add_(part)
        if self.root is not None:
            mine, places = self.roots_of(b)
            out.index_add_(0, places, self.root[mine])


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, pairs: Pairs, picks: Picks | None, wanted: frozenset[str]) -> Sums:
        ctx.pairs, ctx.picks, ctx.wanted = pairs, picks, wanted
        ctx.save_for_backward(h)
        return h.view_as(h), *sums_of(h, pairs, picks, wanted)

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> Sums:
        (h,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = differentiably(lambda v: (v, *plain_sums(v, ctx.pairs, ctx.picks, ctx.wanted)), [h], given)
            return *again, None, None, None
        g, size = torch.empty_like(h), block_rows(*h.shape)
        flow = SumsBack(ctx.pairs, ctx.picks, [None if v is None else v.contiguous() for v in given], size)
        blocks = g.split(size)
        each(len(blocks), lambda b: flow(b, blocks[b]))
        return g, None, None, None


def sums(h: Tensor, pairs: Pairs, picks: Picks | None, wanted: frozenset[str]) -> Sums:
    """Values of pairs as they are, and those of readout, needle, roots ("root") and picked rows that are wanted.

    What flows back to the pairs from all of them is added up in one pass.
    """
    return _Sums.apply(h, pairs, picks, wanted)  # type: ignore[no-untyped-call]
