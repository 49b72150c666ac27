"""Compute new columns for a table of molecules in chunks of rows, so that the memory hardly grows with the table.

Chunks are read ahead, in other processes if asked for. Graphs that a model sees as the same are computed once within a window of recent graphs.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reign._validate import check
from reign.train.chunk_results import Computed, compute
from reign.train.domain import COLUMN as WARNING
from reign.train.engine.callbacks import Callback
from reign.train.inputs import descriptors_like
from reign.train.row_progress import RowProgress
from reign.train.settings.config import DataConfig
from reign.train.table_jobs import Job
from reign.train.window import Window

if TYPE_CHECKING:
    import pandas as pd

    from reign.data.molecules import Chunk, Descriptors, Rows, Stereo, TableFile

CHUNK = 8_192  # number of rows that are computed and written together
FEW = 2_000  # smallest number of rows for which other processes are worth their start


class Stream:
    """A table of molecules, and what to compute for it. Everything is checked before the work starts.

    Args:
        table: the table.
        job: what to compute.
        smiles_columns: columns of SMILES.
        descriptors: the descriptors that the model uses.
        num_workers: number of processes that read SMILES; 0 for none, None for a number that suits the table and the machine.
        chunk_rows: number of rows that are computed together.
        stereo: what graphs say about chirality.
    """

    def __init__(
        self,
        table: "TableFile",
        job: Job,
        smiles_columns: Sequence[str],
        descriptors: "Descriptors",
        num_workers: int | None = 0,
        chunk_rows: int = CHUNK,
        stereo: "Stereo" = "parity",
    ) -> None:
        from reign.data.molecules import TableFile, check_rows, need_columns

        path = table.path
        table.need_text(smiles_columns)
        need_columns(table.columns, descriptors.columns, path)
        check("num_workers", num_workers, num_workers is None or num_workers >= 0, "at least 0")
        check("chunk_rows", chunk_rows, chunk_rows >= 1, "at least 1")
        if taken := [name for name in [*job.columns, "error"] if name in table.columns]:
            less = ", or use --no-warnings" if taken[0] == WARNING else ""
            raise ValueError(f"{path} already has a column '{taken[0]}', which the predictions need; rename it{less}.")
        self.table, self.job, self.smiles_columns, self.descriptors = table, job, smiles_columns, descriptors
        self.num_workers, self.chunk_rows, self.stereo = num_workers, chunk_rows, stereo
        self.rows = table.count()
        self.beside = TableFile(descriptors.path) if descriptors.path else None
        if self.beside is not None:
            check_rows(self.beside.path, self.beside.count(), self.rows, path)

    def computed(self, window: Window, callback: Callback, skip: int = 0) -> Iterator[Computed]:
        """All chunks in order, without the first ``skip`` rows."""
        from reign.data.molecules import Reader

        progress = RowProgress(callback, self.rows, skip, self.job.passes)
        callback.rows(skip, self.rows, None)  # the first rows take longest, as they wait for the reading
        for table in (self.table, self.beside):
            if table is not None and table.note:
                callback.note(f"{table.note}.")
        reader: Reader[tuple[Chunk, list[Rows]]] = Reader(self._workers())
        for (chunk, rows), graphs in reader.read(self._blocks(skip)):
            progress.begin(chunk.size)
            yield compute(self.job, chunk, list(zip(rows, graphs, strict=True)), window, progress)
            window.trim()
            progress.end()

    def frame(self, callback: Callback) -> "pd.DataFrame":
        """The whole table with its new columns, in memory."""
        import pandas as pd

        old: dict[str, list[Any]] = {name: [] for name in self.table.columns}
        new: dict[str, list[Any]] = {name: [] for name in [*self.job.columns, "error"]}
        text = True
        for each in self.computed(Window(), callback):
            text = text and each.chunk.arrow is None
            for name, cells in old.items():
                cells += each.chunk.columns[name]
            for name, cells in new.items():
                cells += each.columns[name]
        left = pd.DataFrame(old, columns=list(old), dtype=str if text else None)
        kinds = {name: float if kind is float else object for name, kind in self.job.columns.items()} | {"error": object}
        right = pd.DataFrame({name: pd.Series(cells, dtype=kinds[name]) for name, cells in new.items()})
        return pd.concat([left, right], axis=1)

    def _workers(self) -> int:
        if self.num_workers is not None:
            return self.num_workers
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return 0 if self.rows < FEW or cores == 1 else min(16, cores)

    def _blocks(self, skip: int) -> "Iterator[tuple[tuple[Chunk, list[Rows]], list[Rows]]]":
        """The chunks, each with the blocks that are read by one process at a time."""
        from reign.data.molecules import BLOCK, Rows, molecule_texts

        others = self.beside.chunks(self.chunk_rows, skip) if self.beside is not None else None
        for chunk in self.table.chunks(self.chunk_rows, skip):
            texts = list(molecule_texts([chunk.texts(column) for column in self.smiles_columns]))
            numbers, wrong = self._numbers(chunk, next(others) if others is not None else None)
            wrong |= chunk.odd
            rows = []
            for at in range(0, chunk.size, BLOCK):
                here = {row - at: reason for row, reason in wrong.items() if at <= row < at + BLOCK}
                part = slice(at, at + BLOCK)
                rows.append(Rows(texts[part], here, numbers[part], self.descriptors.featurizers, self.stereo))
            yield (chunk, rows), rows

    def _numbers(self, chunk: "Chunk", other: "Chunk | None") -> tuple[list[list[float]], dict[int, str]]:
        parts = []
        if self.descriptors.columns:
            parts.append(({column: chunk.texts(column) for column in self.descriptors.columns}, self.table.path.name))
        if other is not None and self.beside is not None:
            if other.odd or other.size != chunk.size:
                row, reason = next(iter(other.odd.items()), (other.size, "there is no such row"))
                raise ValueError(f"{self.beside.path}, row {other.start + row + 1}: {reason}.")
            parts.append(({column: other.texts(column) for column in other.columns}, self.beside.path.name))
        return self.descriptors.numbers(parts, chunk.size) if parts else ([], {})


def open_stream(
    config: DataConfig,
    job: Job,
    path: str | Path,
    smiles_columns: Sequence[str] | None,
    descriptors_path: str | Path | None,
    num_workers: int | None = 0,
    chunk_rows: int = CHUNK,
) -> Stream:
    """A table to compute columns for, read as the table that was trained on.

    Args:
        config: the settings of the table that was trained on.
        job: what to compute.
        path: the table.
        smiles_columns: columns of SMILES; those of the training if not given.
        descriptors_path: a table of descriptors for this table, if the training had one.
        num_workers, chunk_rows: as in ``Stream``.
    """
    from reign.data.molecules import TableFile

    table = TableFile(path)
    columns = list(smiles_columns or config.smiles_columns)
    if len(columns) != len(config.smiles_columns):
        raise ValueError(
            f"the columns of SMILES are {', '.join(columns)}, but the run was trained on {', '.join(config.smiles_columns)}; give as many columns, in the "
            "same order."
        )
    return Stream(table, job, columns, descriptors_like(config, descriptors_path), num_workers, chunk_rows, config.stereo_of_graphs)
