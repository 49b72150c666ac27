"""Ragged arrays: concatenated segments of different lengths, without padding and without Python loops."""

import torch
from jaxtyping import Int
from torch import Tensor


def offsets(count: Int[Tensor, "segments"]) -> Int[Tensor, "segments+1"]:
    """The start of each segment, and the end of the last one.

    >>> offsets(torch.tensor([3, 0, 2])).tolist()
    [0, 3, 3, 5]
    """
    return torch.cat([count.new_zeros(1), count.cumsum(0)])


def ranges(start: Int[Tensor, "segments"], count: Int[Tensor, "segments"]) -> tuple[Tensor, Tensor]:
    """The integers ``start[r], ..., start[r] + count[r] - 1`` of every segment r, and the segment each belongs to.

    >>> segment, value = ranges(torch.tensor([10, 20, 30]), torch.tensor([2, 0, 3]))
    >>> segment.tolist(), value.tolist()
    ([0, 0, 2, 2, 2], [10, 11, 30, 31, 32])
    """
    segment = torch.repeat_interleave(count)
    first = count.cumsum(0) - count
    return segment, torch.arange(segment.numel(), device=count.device) + (start - first)[segment]


def find(sorted_keys: Int[Tensor, "keys"], query: Int[Tensor, "*queries"]) -> tuple[Int[Tensor, "*queries"], Tensor]:
    """The position of each query in ``sorted_keys``, and whether it is present; if it is not, the position is meaningless.

    >>> position, there = find(torch.tensor([2, 5, 7]), torch.tensor([5, 6]))
    >>> position[there].tolist(), there.tolist()
    ([1], [True, False])
    """
    if sorted_keys.numel() == 0:
        return torch.zeros_like(query), torch.zeros_like(query, dtype=torch.bool)
    position = torch.searchsorted(sorted_keys, query.contiguous()).clamp(max=sorted_keys.numel() - 1)
    return position, sorted_keys[position] == query
