"""Assemble the index maps of a batch from those of a whole data set (``fused/_gather.py`` explains the idea): one kernel launch on a GPU,
plain PyTorch elsewhere."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from reign.kernels._switch import kernels_for

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
