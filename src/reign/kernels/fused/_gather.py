"""Assemble the index maps of a batch from those of a whole data set, all in one kernel launch.

A column is a map whose rows belong to one space (nodes, pairs, messages, ...) and whose values point into another space. Every graph has a
range of rows in each space. A batch concatenates the ranges of its graphs, so each value is shifted by the same amount as the range it
points into. Rows after the last graph are padding: they point to the last row of a space, which is padding too; bounds stay at the end.
Columns of values are copied bit by bit; padding gets the value of the first row.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from reign.kernels.fused._launch import launch

BLOCK = 256
BOUNDS, LONG_OUT, LONG_IN, BYTE, REAL, RAW, SHORT = 1, 2, 4, 8, 16, 32, 64  # kinds of columns, see ``gather``


@triton.jit
def _gather(columns, ids, starts, offsets, S, B, BM: tl.constexpr, STEPS: tl.constexpr):
    """One program per block of rows of one column (axis 1). A column is described by the addresses of its data and result, its length,
    spaces and kind, and the value of padding."""
    spec = columns + tl.program_id(1) * 7
    data = tl.load(spec)
    out = tl.load(spec + 1)
    length, rows_in, values_in = tl.load(spec + 2), tl.load(spec + 3), tl.load(spec + 4)
    kind, fill = tl.load(spec + 5), tl.load(spec + 6)
    first = tl.program_id(0) * BM
    if first < length:
        row = (first + tl.arange(0, BM)).to(tl.int64)
        m = row < length
        total = tl.load(offsets + B * S + rows_in)
        real = m & (row < total)
        low, high = tl.zeros([BM], tl.int64), tl.zeros([BM], tl.int64) + B
        for _ in range(STEPS):  # the last graph that starts at or before the row
            middle = (low + high) // 2
            before = tl.load(offsets + middle * S + rows_in, mask=real, other=0) <= row
            low, high = tl.where(before, middle, low), tl.where(before, high, middle)
        graph = tl.load(ids + low, mask=real, other=0)
        at = (
            tl.load(starts + graph * S + rows_in, mask=real, other=0)
            + row
            - tl.load(offsets + low * S + rows_in, mask=real, other=0)
        )
        if (kind & 32) != 0:
            real = m
            at = tl.where(row < total, at, 0)
        value = at
        if data != 0:
            if (kind & 4) != 0:
                value = tl.load(data.to(tl.pointer_type(tl.int64)) + at, mask=real, other=0)
            elif (kind & 8) != 0:
                value = tl.load(data.to(tl.pointer_type(tl.int8)) + at, mask=real, other=0).to(tl.int64)
            elif (kind & 64) != 0:
                value = tl.load(data.to(tl.pointer_type(tl.int16)) + at, mask=real, other=0).to(tl.int64)
            else:
                value = tl.load(data.to(tl.pointer_type(tl.int32)) + at, mask=real, other=0).to(tl.int64)
        if (kind & 16) != 0:
            value = (row < total).to(tl.int64)
        if values_in >= 0:
            shift = tl.load(offsets + low * S + values_in, mask=real, other=0)
            value = tl.where(value < 0, value, value + shift)
            if (kind & 1) != 0:
                fill = tl.load(offsets + B * S + values_in).to(tl.int64)
        value = tl.where(real, value, fill)
        if (kind & 2) != 0:
            tl.store(out.to(tl.pointer_type(tl.int64)) + row, value, mask=m)
        elif (kind & 8) != 0:
            tl.store(out.to(tl.pointer_type(tl.int8)) + row, value.to(tl.int8), mask=m)
        elif (kind & 64) != 0:
            tl.store(out.to(tl.pointer_type(tl.int16)) + row, value.to(tl.int16), mask=m)
        else:
            tl.store(out.to(tl.pointer_type(tl.int32)) + row, value.to(tl.int32), mask=m)


@triton.jit
def _offsets(ids, sizes, offsets, S, B, BB: tl.constexpr):
    """The start of each graph of a batch in one space (one program per space): the sum of the sizes of the graphs before it."""
    s, b = tl.program_id(0), tl.arange(0, BB)
    graph = tl.load(ids + b, mask=b < B, other=0)
    size = tl.load(sizes + graph * S + s, mask=b < B, other=0)
    tl.store(offsets + (b + 1) * S + s, tl.cumsum(size, 0), mask=b < B)


def gather(columns: Sequence[Any], offsets: Tensor, num_graphs: int) -> Callable[[Tensor, Tensor, Tensor], None]:
    """See ``reign.kernels.gather_columns``."""
    rows = []
    for role, data, out, rows_in, values_in, bounds, fill in columns:
        size = out.element_size()
        kind = (BOUNDS if bounds else 0) | {1: BYTE, 2: SHORT, 4: 0, 8: LONG_OUT}[size] | (REAL if role == "real" else 0)
        if role == "value":
            kind |= RAW | (LONG_IN if size == 8 else 0)
        rows.append([0 if data is None else data.data_ptr(), out.data_ptr(), out.numel(), rows_in, values_in, kind, fill])
    table = torch.tensor(rows, dtype=torch.int64, device=offsets.device)
    grid = (triton.cdiv(max(row[2] for row in rows), BLOCK), len(rows))

    def run(ids: Tensor, sizes: Tensor, starts: Tensor) -> None:
        steps, spaces = num_graphs.bit_length(), offsets.size(1)
        launch(_offsets, (spaces,), ids, sizes, offsets, spaces, num_graphs, BB=triton.next_power_of_2(num_graphs), num_warps=4)
        launch(_gather, grid, table, ids, starts, offsets, offsets.size(1), num_graphs, BM=BLOCK, STEPS=steps, num_warps=4)

    return run
