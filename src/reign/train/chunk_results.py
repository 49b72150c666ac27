"""The new columns of a chunk of rows. Each graph is computed once, for all its rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reign.data import GraphPack
from reign.kernels import keep_freed_memory, ragged
from reign.train.domain import COLUMN as WARNING
from reign.train.engine.callbacks import Callback
from reign.train.table_jobs import Cells, Job
from reign.train.window import Window

TOGETHER = 2_048  # graphs in memory at a time

if TYPE_CHECKING:
    from reign.data.molecules import Chunk, Graphs, Rows


@dataclass(frozen=True, eq=False)
class Computed:
    """A chunk of a table with its new columns.

    Args:
        chunk: the rows.
        columns: the new columns, with None for rows that have an error, and no warning; ``error`` is the last one.
        new: keys of the graphs that were computed for this chunk.
        failed: number of rows with an error.
        warned: number of rows with a warning.
    """

    chunk: "Chunk"
    columns: dict[str, list[Any]]
    new: list[bytes]
    failed: int
    warned: int = 0


def compute(job: Job, chunk: "Chunk", blocks: "Sequence[tuple[Rows, Graphs]]", window: Window, callback: Callback) -> Computed:
    """Compute the new columns of a chunk.

    Args:
        job: what to compute.
        chunk: the rows.
        blocks: the same rows, with their graphs.
        window: results of earlier graphs; those of new graphs are added.
        callback: receives progress events.
    """
    new: dict[bytes, tuple[Rows, Graphs, int]] = {}  # the first row of each graph that is not known
    for rows, graphs in blocks:
        for row, key in enumerate(graphs.keys):
            if key and key not in window.found and key not in new:
                new[key] = rows, graphs, row
    keys = list(new)
    for some in (keys[start : start + TOGETHER] for start in range(0, len(keys), TOGETHER)):
        with keep_freed_memory():  # for a while only: freed memory falls into pieces, of which more and more are needed
            places = [new[key] for key in some]
            # a process makes no graph of a molecule that it has seen before; in a long table the window may have forgotten it since
            arrays = [graphs.found.get(row) or rows.arrays(row) for rows, graphs, row in places]
            found, failed = job.cells(pack_of(arrays), [rows.texts[row] for rows, _, row in places], callback)
            for g, key in enumerate(some):
                window.add(key, None if g in failed else found[g], failed.get(g, ""))
    none: Cells = tuple("" if name == WARNING else None for name in job.columns)
    made: list[Cells] = []
    for key, error in _keys(blocks):
        cells, error = window.found[key] if key else (None, error)
        made.append((*(none if cells is None else cells), error))
    columns = dict(zip([*job.columns, "error"], map(list, zip(*made, strict=True)), strict=True))
    return Computed(chunk, columns, list(new), sum(map(bool, columns["error"])), sum(map(bool, columns.get(WARNING, ()))))


def _keys(blocks: "Sequence[tuple[Rows, Graphs]]") -> Iterator[tuple[bytes, str]]:
    """The key of each row, or its error."""
    for _, graphs in blocks:
        for row, key in enumerate(graphs.keys):
            yield key, graphs.errors.get(row, "")


def pack_of(graphs: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> GraphPack:
    """A pack of graphs given as x, edge_index and edge_attr."""

    def joined(parts: list[np.ndarray], axis: int = 0) -> torch.Tensor:
        whole = torch.from_numpy(np.concatenate(parts, axis=axis))
        return whole if whole.is_floating_point() else whole.long()

    xs, edges, kinds = (list(part) for part in zip(*graphs, strict=True))
    return GraphPack(
        x=joined(xs),
        edge_index=joined(edges, 1),
        edge_attr=joined(kinds),
        y=None,
        node_ptr=ragged.offsets(torch.tensor([len(x) for x in xs])),
        edge_ptr=ragged.offsets(torch.tensor([each.shape[1] for each in edges])),
    )
