"""Predictions, or pooled vectors, as new columns of a table of molecules, computed in chunks of rows, so that the memory hardly grows with the table.

Chunks are read ahead, in other processes if asked for. Graphs that a model sees as the same are computed once, as long as their results are in the cache.
"""

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reign._validate import check
from reign.data import GraphPack
from reign.kernels import keep_freed_memory, ragged
from reign.train.engine.callbacks import Callback
from reign.train.predict.calibration import Interval
from reign.train.predict.ensemble import PASSES, Forecast, ForecastPlan, TrainedEnsemble, forecast
from reign.train.predict.nearest import NEAREST, WARNING, Domain, TrainingMolecules
from reign.train.settings.config import DataConfig

if TYPE_CHECKING:
    import pandas as pd

    from reign.data.molecules import Chunk, Descriptors, Graphs, Rows, Stereo, TableFile

CHUNK = 8_192  # number of rows that are computed and written together
FEW = 2_000  # smallest number of rows for which other processes are worth their start
TOGETHER = 2_048  # graphs in memory at a time
CACHED = 65_536  # number of different graphs whose results are kept
Cells = tuple[Any, ...]
Smiles = Sequence[Sequence[str]]


def column_names(targets: Sequence[str], classes: Sequence[str], unsure: bool, intervals: Sequence[str] = ()) -> list[str]:
    """The names of the columns: ``<target>_pred``, ``<target>_unc``, ``<target>_lower`` and ``_upper``, ``<target>_prob_<class>``.

    >>> column_names(["logS"], [], unsure=True), column_names(["kind"], ["a", "b"], unsure=False)
    (['logS_pred', 'logS_unc'], ['kind_pred', 'kind_prob_a', 'kind_prob_b'])
    >>> column_names(["logS"], [], True, intervals=["logS"])
    ['logS_pred', 'logS_unc', 'logS_lower', 'logS_upper']

    Args:
        targets: the targets.
        classes: names of the classes, for multiclass.
        unsure: whether there are deviations.
        intervals: the targets that have intervals.
    """
    names = []
    for target in targets:
        kinds = ("pred", *(("unc",) if unsure else ()), *(("lower", "upper") if target in intervals else ()))
        names += [f"{target}_{kind}" for kind in kinds]
    return names + [f"{targets[0]}_prob_{name}" for name in classes]


def forecast_columns(
    found: Forecast,
    task: str,
    targets: Sequence[str],
    classes: Sequence[str],
    intervals: dict[str, Interval],
    alpha: float,
) -> dict[str, list[Any]]:
    """The columns by name, each with a value for every graph; with an interval the deviation is the calibrated one.

    Args:
        found: the predictions.
        task, targets, classes: as in ``Problem``.
        intervals: those of the run, by target.
        alpha: the share of rows that may lie outside an interval.
    """
    values, unsure = found.values, found.unsure
    columns: list[list[Any]] = []
    if task == "multiclass":
        best = values.argmax(1)
        columns.append([classes[int(c)] for c in best])
        if unsure is not None:
            columns.append(unsure.gather(1, best[:, None]).squeeze(1).tolist())
        columns += [values[:, c].tolist() for c in range(len(classes))]
        return dict(zip(column_names(targets, classes, unsure is not None), columns, strict=True))
    for t, target in enumerate(targets):
        columns.append(values[:, t].tolist())
        if unsure is not None and target in intervals:
            deviation, factor = intervals[target].deviation(unsure[:, t]), intervals[target].factor(alpha)
            columns += [side.tolist() for side in (deviation, values[:, t] - factor * deviation, values[:, t] + factor * deviation)]
        elif unsure is not None:
            columns.append(unsure[:, t].tolist())
    return dict(zip(column_names(targets, [], unsure is not None, list(intervals)), columns, strict=True))


class TableJob(ABC):
    """What is computed for graphs.

    Args:
        columns: the new columns with their types, ``float`` or ``str``.
        passes: number of times that a model runs over all graphs, for the progress.
    """

    apart = False  # whether the cells depend on the column in which a SMILES is, which the graph does not tell

    def __init__(self, columns: dict[str, type], passes: int) -> None:
        self.columns, self.passes = columns, passes

    @abstractmethod
    def cells(self, graphs: GraphPack, smiles: Smiles, callback: Callback) -> tuple[list[Cells], dict[int, str]]:
        """The cells of each graph, in the order of ``columns``, and the reasons for graphs that have none.

        Args:
            graphs: the graphs.
            smiles: the SMILES of each graph, one for each column of the table.
            callback: receives progress events.
        """


class ForecastJob(TableJob):
    """Predictions, with uncertainties, warnings and the nearest training molecules where they are wanted.

    Args:
        ensemble: the models.
        plan: what to compute.
        nearest: number of training molecules to list; ``trained_on`` must then be set.

    For a plan with warnings, ``domain`` must be set.
    """

    def __init__(self, ensemble: TrainedEnsemble, plan: ForecastPlan, nearest: int | None = None) -> None:
        self.ensemble, self.plan, self.nearest = ensemble, plan, nearest
        self.domain: Domain | None = None
        self.trained_on: TrainingMolecules | None = None
        self.num_workers: int | None = None
        names = column_names(ensemble.targets, ensemble.classes, plan.method is not None, list(plan.intervals))
        words = {f"{ensemble.targets[0]}_pred"} if ensemble.classes else set()
        columns: dict[str, type] = {name: str if name in words else float for name in names}
        columns |= dict.fromkeys(NEAREST if nearest is not None else (), str)
        passes = len(ensemble.models) * (1 + PASSES * (plan.method == "dropout")) + (nearest is not None)
        super().__init__(columns | dict.fromkeys([WARNING] if plan.warnings else (), str), passes)
        self.apart = bool(ensemble.partners) and len(ensemble.recipe.data.smiles_columns) > 1

    def cells(self, graphs: GraphPack, smiles: Smiles, callback: Callback) -> tuple[list[Cells], dict[int, str]]:
        """The predictions of each graph, and the reasons for graphs that cannot be predicted."""
        found, errors = self.forecasts(graphs, smiles, callback)
        good = [g for g in range(len(graphs)) if g not in errors]
        if self.nearest is not None and good:
            assert self.trained_on is not None
            from reign.data.molecules import Molecule

            molecules = [Molecule.read(".".join(smiles[g])) for g in good]
            near, unlike = self.trained_on.columns(molecules, graphs.select(torch.tensor(good)), self.nearest)
            found |= near
            if self.plan.warnings:
                found[WARNING] = ["; ".join(filter(None, both)) for both in zip(found[WARNING], unlike, strict=True)]
        rows: list[Cells] = [()] * len(graphs)
        for g, *cells in zip(good, *(found[name] for name in self.columns if good), strict=True):
            rows[g] = tuple(cells)
        return rows, errors

    def forecasts(
        self, graphs: GraphPack, smiles: Smiles | None, callback: Callback
    ) -> tuple[dict[str, list[Any]], dict[int, str]]:
        """The columns of predictions and of warnings by name, and the reasons for graphs that cannot be predicted, which the columns leave out.

        Args:
            graphs: the graphs.
            smiles: as in ``cells``; None if they are not known.
            callback: receives progress events.
        """
        ensemble, plan = self.ensemble, self.plan
        failed: dict[int, str] = {}
        models = [model.in_large_batches() for model in ensemble.models]
        columns = None if smiles is None else list(zip(*smiles, strict=True))
        beside = ensemble.beside(graphs, columns, callback, self.num_workers)
        found = forecast(models, graphs, torch.arange(len(graphs)), ensemble.task, plan.method, callback, failed, beside)
        bad = (~found.values.isfinite()).any(1)
        errors = {g: failed.get(g, "the prediction is not a finite number") for g in bad.nonzero().flatten().tolist()}
        found = Forecast(found.values[~bad], None if found.unsure is None else found.unsure[~bad])
        if plan.calibration != "none" and ensemble.task != "regression":
            found = replace(
                found, values=ensemble.calibration.probabilities(found.values, ensemble.task, ensemble.targets, plan.calibration)
            )
        made = forecast_columns(found, ensemble.task, ensemble.targets, ensemble.classes, plan.intervals, plan.alpha)
        if plan.warnings:
            assert self.domain is not None
            predicted = {target: made[f"{target}_pred"] for target in ensemble.targets}
            made[WARNING] = self.domain.warnings(graphs.select((~bad).nonzero().flatten()), predicted)
        return made, errors


class VectorJob(TableJob):
    """The pooled vectors of each model, from which its head predicts.

    Args:
        ensemble: the models.
    """

    def __init__(self, ensemble: TrainedEnsemble) -> None:
        self.ensemble, several = ensemble, len(ensemble.models) > 1
        names = [
            f"model_{m}_fp_{c}" if several else f"fp_{c}"
            for m, model in enumerate(ensemble.models)
            for c in range(model.vector_channels)
        ]
        super().__init__(dict.fromkeys(names, float), len(ensemble.models))

    def cells(self, graphs: GraphPack, smiles: Smiles, callback: Callback) -> tuple[list[Cells], dict[int, str]]:
        """The vectors of each graph, and the reasons for graphs that are too large."""
        failed: dict[int, str] = {}
        ids = torch.arange(len(graphs))
        models = [model.in_large_batches() for model in self.ensemble.models]
        found = torch.cat([model.vectors(graphs, ids, callback, failed) for model in models], dim=1)
        return [tuple(row) for row in found.tolist()], failed


class ResultCache:
    """The results of recent graphs by key. The oldest are forgotten first."""

    def __init__(self) -> None:
        self.size = CACHED
        self.found: dict[bytes, tuple[Cells | None, str]] = {}
        self.order: deque[bytes] = deque()

    def add(self, key: bytes, cells: Cells | None, error: str) -> None:
        """Add the cells of a graph, or None and an error."""
        self.found[key] = (cells, error)
        self.order.append(key)

    def trim(self) -> None:
        """Forget the oldest results beyond the size of the cache."""
        while len(self.order) > self.size:
            del self.found[self.order.popleft()]


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


def compute(
    job: TableJob, chunk: "Chunk", blocks: "Sequence[tuple[Rows, Graphs]]", cache: ResultCache, callback: Callback
) -> Computed:
    """Compute the new columns of a chunk.

    Args:
        job: what to compute.
        chunk: the rows.
        blocks: the same rows, with their graphs.
        cache: results of earlier graphs; those of new graphs are added.
        callback: receives progress events.
    """
    new: dict[bytes, tuple[Rows, Graphs, int]] = {}  # the first row of each graph that is not known
    known = list(_keys(blocks, job.apart))
    places = [(rows, graphs, row) for rows, graphs in blocks for row in range(len(graphs.keys))]
    for (key, _), place in zip(known, places, strict=True):
        if key and key not in cache.found and key not in new:
            new[key] = place
    keys = list(new)
    for some in (keys[start : start + TOGETHER] for start in range(0, len(keys), TOGETHER)):
        with keep_freed_memory():  # for a while only: freed memory falls into pieces, of which more and more are needed
            here = [new[key] for key in some]
            # a process makes no graph of a molecule that it has seen before; in a long table the cache may have forgotten it since
            arrays = [graphs.found.get(row) or rows.arrays(row) for rows, graphs, row in here]
            found, failed = job.cells(pack_of(arrays), [rows.columns[row] for rows, _, row in here], callback)
            for g, key in enumerate(some):
                cache.add(key, None if g in failed else found[g], failed.get(g, ""))
    none: Cells = tuple("" if name == WARNING else None for name in job.columns)
    made: list[Cells] = []
    for key, error in known:
        cells, error = cache.found[key] if key else (None, error)
        made.append((*(none if cells is None else cells), error))
    columns = dict(zip([*job.columns, "error"], map(list, zip(*made, strict=True)), strict=True))
    return Computed(chunk, columns, list(new), sum(map(bool, columns["error"])), sum(map(bool, columns.get(WARNING, ()))))


def _keys(blocks: "Sequence[tuple[Rows, Graphs]]", apart: bool) -> Iterator[tuple[bytes, str]]:
    """The key of each row, or its error. The SMILES of each column are a part of the keys if they are to be told apart."""
    for rows, graphs in blocks:
        for row, key in enumerate(graphs.keys):
            more = hashlib.blake2b(json.dumps(rows.columns[row]).encode(), digest_size=16).digest() if apart and key else b""
            yield key + more, graphs.errors.get(row, "")


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


class RowProgress(Callback):
    """Turns the batches of a chunk into a number of rows, with an estimate of the time that is left.

    Args:
        callback: receives the rows, and each note once.
        total: number of rows of the table.
        done: number of rows that are done.
        passes: as in ``TableJob``.
    """

    def __init__(self, callback: Callback, total: int, done: int, passes: int) -> None:
        self.callback, self.total, self.done, self.passes = callback, total, done, passes
        self.first, self.started = done, time.monotonic()
        self.size, self.past = 0, 0
        self.notes: set[str] = set()

    def begin(self, size: int) -> None:
        """A chunk of this size begins."""
        self.size, self.past = size, 0

    def end(self) -> None:
        """The chunk is done."""
        self.done += self.size
        self._tell(self.done)

    def batch(self, label: str, done: int, total: int) -> None:
        """A batch of a pass is done."""
        self._tell(self.done + int(self.size * min(0.99, (self.past + done / total) / self.passes)))
        self.past += done == total

    def note(self, text: str) -> None:
        """Pass on a note, unless it was passed on before."""
        if text not in self.notes:
            self.notes.add(text)
            self.callback.note(text)

    def _tell(self, done: int) -> None:
        now = done - self.first
        left = (time.monotonic() - self.started) / now * (self.total - done) if now else None
        self.callback.rows(done, self.total, left)


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
        job: TableJob,
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

    def computed(self, cache: ResultCache, callback: Callback, skip: int = 0) -> Iterator[Computed]:
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
            yield compute(self.job, chunk, list(zip(rows, graphs, strict=True)), cache, progress)
            cache.trim()
            progress.end()

    def frame(self, callback: Callback) -> "pd.DataFrame":
        """The whole table with its new columns, in memory."""
        import pandas as pd

        old: dict[str, list[Any]] = {name: [] for name in self.table.columns}
        new: dict[str, list[Any]] = {name: [] for name in [*self.job.columns, "error"]}
        text = True
        for each in self.computed(ResultCache(), callback):
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
        from reign.data.molecules import cores

        return 0 if self.rows < FEW or cores() == 1 else min(16, cores())

    def _blocks(self, skip: int) -> "Iterator[tuple[tuple[Chunk, list[Rows]], list[Rows]]]":
        """The chunks, each with the blocks that are read by one process at a time."""
        from reign.data.molecules import BLOCK, Rows, molecule_texts

        others = self.beside.chunks(self.chunk_rows, skip) if self.beside is not None else None
        for chunk in self.table.chunks(self.chunk_rows, skip):
            columns = [chunk.texts(column) for column in self.smiles_columns]
            texts, apart = list(molecule_texts(columns)), [[text.strip() for text in each] for each in zip(*columns, strict=True)]
            numbers, wrong = self._numbers(chunk, next(others) if others is not None else None)
            wrong |= chunk.odd
            rows = []
            for at in range(0, chunk.size, BLOCK):
                here = {row - at: reason for row, reason in wrong.items() if at <= row < at + BLOCK}
                part = slice(at, at + BLOCK)
                rows.append(Rows(texts[part], here, numbers[part], self.descriptors.featurizers, self.stereo, columns=apart[part]))
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
    job: TableJob,
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
    return Stream(table, job, columns, config.descriptors_like(descriptors_path), num_workers, chunk_rows, config.stereo_of_graphs)
