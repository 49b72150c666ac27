"""Sums over ragged rows in blocks, and those of the values of pairs that layers ask for."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from reign.kernels._plan import PairIndex, Picks, Segments
from reign.kernels.blocked._kept import kept
from reign.kernels.blocked._threads import block_rows, each
from reign.kernels.blocked._twice import differentiably

Sums = tuple[Tensor | None, ...]


def bag_sums(x: Tensor, index: Tensor, ptr: Tensor) -> Tensor:
    """``out[t]`` is the sum of ``x[index[ptr[t]:ptr[t + 1]]]``."""
    if index.numel() == 0:
        return x.new_zeros(ptr.numel() - 1, x.size(1))
    return torch.embedding_bag(x, index, ptr, mode=0, include_last_offset=True)[0]


def segment_sums(x: Tensor, several: Sequence[Segments | None]) -> list[Tensor | None]:
    """Sums of rows, one row a segment, for several kinds of segments at the same time; None where there are no segments."""
    found: list[Tensor | None] = []
    work: list[tuple[Tensor, Tensor, Tensor]] = []
    for segments in several:
        if segments is None:
            found.append(None)
            continue
        number = segments.ptr.numel() - 1
        out, size = x.new_empty(number, x.size(1)), block_rows(number, x.size(1))
        found.append(out)
        blocks = kept(segments, size, partial(_cut, segments, size))
        work += [(part, *block) for part, block in zip(out.split(size), blocks, strict=True)]

    def one(b: int) -> None:
        part, index, ptr = work[b]
        part.copy_(bag_sums(x, index, ptr))

    each(len(work), one)
    return found


def _cut(segments: Segments, size: int) -> list[tuple[Tensor, Tensor]]:
    """The rows of the segments of each block, and where each segment begins among them."""
    ptr, number = segments.ptr, segments.ptr.numel() - 1
    starts = range(0, number, size)
    cuts = ptr[torch.tensor([*starts, number])].tolist()
    index = torch.arange(cuts[-1], dtype=ptr.dtype) if segments.index is None else segments.index
    return [(index[a:b], ptr[first : first + size + 1] - a) for first, (a, b) in zip(starts, pairwise(cuts), strict=True)]


def sums_of(h: Tensor, pairs: PairIndex, picks: Picks | None, wanted: frozenset[str]) -> Sums:
    """Readout, needle, roots and picked rows of values, as far as they are wanted."""
    readout, needle = segment_sums(
        h, [pairs.to_sub if "readout" in wanted else None, pairs.to_node if "needle" in wanted else None]
    )
    roots = h.index_select(0, pairs.root) if "root" in wanted and pairs.root is not None else None
    return readout, needle, roots, None if picks is None else h.index_select(0, picks.rows)


def plain_sums(h: Tensor, pairs: PairIndex, picks: Picks | None, wanted: frozenset[str]) -> Sums:
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

    def __init__(self, pairs: PairIndex, picks: Picks | None, given: Sequence[Tensor | None], size: int) -> None:
        own, self.readout, self.needle, root, near = given
        self.own = None if own is None else own.split(size)
        self.sub, self.node = kept(pairs, ("subs and nodes", size), lambda: (pairs.sub.split(size), pairs.node.split(size)))
        self.root = None if root is None else (root, roots_of(pairs, size))
        self.near = (
            None
            if near is None or picks is None
            else (near, kept(picks, size, lambda: _cut(Segments(picks.ptr, picks.index), size)))
        )

    def __call__(self, b: int, out: Tensor) -> None:
        """Write it for block b."""
        parts = [None if self.own is None else self.own[b]]
        parts.append(None if self.readout is None else self.readout.index_select(0, self.sub[b]))
        parts.append(None if self.needle is None else self.needle.index_select(0, self.node[b]))
        if self.near is not None and self.near[1][b][0].numel():
            parts.append(bag_sums(self.near[0], *self.near[1][b]))
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
            mine, places = self.root[1][b]
            out.index_add_(0, places, self.root[0][mine])


def roots_of(pairs: PairIndex, size: int) -> list[tuple[slice, Tensor]]:
    """For each block of pairs the subgraphs whose roots lie in it, and where."""

    def make() -> list[tuple[slice, Tensor]]:
        assert pairs.root is not None
        root, starts = pairs.root.long(), range(0, pairs.number, size)
        cuts = torch.searchsorted(root, torch.tensor([*starts, pairs.number])).tolist()
        return [(slice(a, b), root[a:b] - start) for start, (a, b) in zip(starts, pairwise(cuts), strict=True)]

    return kept(pairs, ("roots", size), make)


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, pairs: PairIndex, picks: Picks | None, wanted: frozenset[str]) -> Sums:
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


def sums(h: Tensor, pairs: PairIndex, picks: Picks | None, wanted: frozenset[str]) -> Sums:
    """Values of pairs as they are, and those of readout, needle, roots ("root") and picked rows that are wanted.

    What flows back to the pairs from all of them is added up in one pass.
    """
    return _Sums.apply(h, pairs, picks, wanted)  # type: ignore[no-untyped-call]
