"""Ragged arrays: concatenated segments of different lengths, without padding and without Python loops; and sums over ragged sets of rows.

From these sums all terms are built. Readout, needle, broadcast, transpose and message passing all have the form
:math:`y_t = \\sum_{s \\in S(t)} x_s`, a product with a sparse 0/1 matrix. The gradient is a product with the transposed matrix. Both matrices are
stored grouped by their targets, so results do not depend on the order of execution: there are no atomics. On a GPU each is one launch of a kernel,
elsewhere plain PyTorch. The index maps of a batch are assembled here, too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Int, Shaped
from torch import Tensor

from reign.kernels._plan import Segments
from reign.kernels._switch import kernels_for


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


# -- sums ---------------------------------------------------------------------------------------------------------------------

Spaces = tuple[str, str]  # the spaces of rows before and after a sum


@dataclass(frozen=True, eq=False)
class Sum:
    """``sum(x)[t]`` is the sum of ``x[index[ptr[t]:ptr[t + 1]]]``; without ``ptr`` it is ``x[index[t]]``, a broadcast.

    The fields ending in ``_t`` are those of the transposed matrix. ``source`` and ``target`` are the spaces of input and output rows
    ("pair", "node", ...).
    """

    index: Int[Tensor, "entries"]
    ptr: Int[Tensor, "bounds"] | None
    index_t: Int[Tensor, "entries"]
    ptr_t: Int[Tensor, "bounds_t"] | None
    source: str = ""
    target: str = ""

    @classmethod
    def build(cls, source: Tensor, target: Tensor, num_sources: int, num_targets: int, between: Spaces = ("", "")) -> "Sum":
        """Make the sum that adds row ``source[e]`` to row ``target[e]``, for every entry e."""
        index, ptr = _grouped(target, source, num_targets)
        index_t, ptr_t = _grouped(source, target, num_sources)
        return cls(index, ptr, index_t, ptr_t, *between)

    @classmethod
    def broadcast(cls, index: Tensor, num_sources: int, between: Spaces = ("", "")) -> "Sum":
        """Make the broadcast in which row t of the result is row ``index[t]`` of the input."""
        target = torch.arange(index.numel(), device=index.device)
        return cls(index, None, *_grouped(index, target, num_sources), *between)

    @property
    def t(self) -> "Sum":
        """The transposed sum."""
        return Sum(self.index_t, self.ptr_t, self.index, self.ptr, self.target, self.source)

    def __call__(self, x: Shaped[Tensor, "sources channels"]) -> Shaped[Tensor, "targets channels"]:
        """Sum the rows of x."""
        return _applied(x, self.index, self.ptr, self.index_t, self.ptr_t)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, index: Tensor, ptr: Tensor | None, index_t: Tensor, ptr_t: Tensor | None) -> Tensor:
        return _sum(x, index, ptr)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        index, ptr, index_t, ptr_t = ctx.saved_tensors
        return _applied(grad.contiguous(), index_t, ptr_t, index, ptr), None, None, None, None


def _applied(x: Tensor, index: Tensor, ptr: Tensor | None, index_t: Tensor, ptr_t: Tensor | None) -> Tensor:
    """The sum, as a function with a gradient only where one is needed: PyTorch takes longer to call it than a small sum takes."""
    if not x.requires_grad or not torch.is_grad_enabled():
        return _sum(x, index, ptr)
    out: Tensor = _Sum.apply(x, index, ptr, index_t, ptr_t)  # type: ignore[no-untyped-call]
    return out


def _sum(x: Tensor, index: Tensor, ptr: Tensor | None) -> Tensor:
    if ptr is None:
        return x.index_select(0, index)
    if (kernels := kernels_for(x)) is not None:
        out: Tensor = kernels.segment_sum(x.contiguous(), Segments(ptr, index))
        return out
    if index.numel() == 0:
        return x.new_zeros(ptr.numel() - 1, x.size(1))
    if not x.is_floating_point():  # integers: differences of running sums, which are exact modulo 2^64 even if the sums overflow
        running = F.pad(x.index_select(0, index).cumsum(0), (0, 0, 1, 0))
        return running.index_select(0, ptr[1:]) - running.index_select(0, ptr[:-1])
    return F.embedding_bag(index, x, ptr, mode="sum", include_last_offset=True)


def _grouped(by: Tensor, value: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The values in the order of their groups, and the start of each group."""
    count = torch.bincount(by, minlength=size)
    return value[torch.argsort(by, stable=True)], offsets(count)


Gather = Callable[[Tensor, Tensor, Tensor], None]


class Gathered(NamedTuple):
    """One column of a batch.

    Args:
        role: "index" (indices of rows of the same graph), "value" (values that are copied), "position" (indices of the rows in the data
            set) or "real" (False for padding).
        data: the column of the whole data set, with 32 bits for an index and 1, 2, 4 or 8 bytes for a value; None if the role needs none.
        out: the tensor that the column of the batch is written to.
        rows_in, values_in: the space of its rows, and the space that its values point into (-1 if they are not indices).
        bounds: whether it holds the start of the entries of each row.
        fill: the row that padding points to.
    """

    role: str
    data: Tensor | None
    out: Tensor
    rows_in: int
    values_in: int = -1
    bounds: bool = False
    fill: int = 0


def gather_columns(columns: Sequence[Gathered], offsets: Tensor, num_graphs: int) -> Gather:
    """Make a function ``(ids, sizes, starts)`` that writes the columns of the graphs ``ids`` into their outputs.

    ``sizes`` and ``starts`` hold the number of rows and the first row of each graph of the data set in each space.

    Args:
        columns: the columns to write.
        offsets: the start of each graph of the batch in each space, shape (graphs + 1, spaces); it is written at each call.
        num_graphs: the number of graphs.
    """
    kernels = kernels_for(torch.empty(0, device=offsets.device))
    if kernels is not None and offsets.is_cuda:
        made: Gather = kernels.gather(columns, offsets, num_graphs)
        return made

    def run(ids: Tensor, sizes: Tensor, starts: Tensor) -> None:
        torch.cumsum(sizes.index_select(0, ids), 0, out=offsets[1:])
        for role, data, out, rows_in, values_in, bounds, fill in columns:
            row = torch.arange(out.numel(), device=out.device)
            graph = (torch.searchsorted(offsets[:, rows_in].contiguous(), row, right=True) - 1).clamp(max=num_graphs - 1)
            real = row < offsets[-1, rows_in]
            at = torch.where(real, starts[ids[graph], rows_in] + row - offsets[graph, rows_in], 0)
            if role in ("real", "value"):
                out.copy_(real if data is None else data.view(-1)[at])
                continue
            value = at if data is None else data[at].long() if data.numel() else torch.zeros_like(at)
            padding = torch.full((), fill, device=out.device) if not bounds else offsets[-1, values_in]
            if values_in >= 0:
                value = torch.where(value < 0, value, value + offsets[graph, values_in])
            out.copy_(torch.where(real, value, padding))

    return run
