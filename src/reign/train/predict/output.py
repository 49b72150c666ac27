"""Write tables of predictions or vectors, as CSV or Parquet, chunk by chunk, so that a stopped command can be continued.

Until the output OUT is complete, its chunks are in the folder .OUT.reign-partial next to it:

about.json       what the predictions depend on; a folder of another input, model or option is not continued
00000.part       the rows of a chunk, in the format of the output
00000.seen       results of the graphs that were computed for it, from which later rows are filled
done.json        number of complete chunks, rows, and rows with an error or a warning
"""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import reign._version
from reign.disk import csv_text, read_json, read_record, replaced, write_bytes, write_json
from reign.train.engine.callbacks import Callback
from reign.train.predict.ensemble import TrainedEnsemble
from reign.train.predict.tables import CHUNK, Computed, ResultCache, Stream, VectorJob, open_stream
from reign.train.runs import run

if TYPE_CHECKING:
    import pandas as pd

    from reign.data.molecules import TableFile

Fingerprint = dict[str, object]  # what the bytes of an output depend on, as it is written next to its chunks
PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": partial(gzip.compress, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
ENDINGS = (".csv", ".tsv", ".csv.gz", ".csv.bz2", ".csv.xz", ".tsv.gz", ".tsv.bz2", ".tsv.xz", ".parquet", ".pq")


class TableOutput:
    """A table to write. The format follows from the name: .parquet, .tsv, or CSV, with .gz, .bz2 or .xz compressed.

    Args:
        target: the file to write.
        table: the table whose columns are kept.
        new: the new columns with their types; ``error`` is added as the last one.
    """

    def __init__(self, target: Path, table: "TableFile", new: dict[str, type]) -> None:
        from reign.data.molecules import endings, import_parquet, is_parquet

        self.target, self.table, self.new = target, table, {**new, "error": str}
        if target.exists() and target.samefile(table.path):
            raise ValueError(f"{target} is the input and the output; choose another file for the output.")
        if target.suffix.lower() == ".zip":
            raise ValueError(f"{target} would be a zip archive, which cannot be written in steps; use .csv.gz.")
        if target.suffix and not target.name.lower().endswith(ENDINGS):
            raise ValueError(f"{target} ends in {target.suffix}, expected one of {', '.join(ENDINGS)}.")
        self.parquet = import_parquet() if is_parquet(target) else None
        self.delimiter = "\t" if ".tsv" in endings(target) else ","
        self.pack: Callable[[bytes], bytes] = PACK.get(target.suffix.lower(), lambda content: content)

    def part(self, each: Computed) -> bytes:
        """The rows of a chunk in the format of the output."""
        if self.parquet is not None:
            buffer = io.BytesIO()
            self.parquet.write_table(self._arrow(each), buffer)
            return buffer.getvalue()
        columns = [*(each.chunk.columns[name] for name in self.table.columns), *(each.columns[name] for name in self.new)]
        return self.pack(csv_text(zip(*columns, strict=True), self.delimiter).encode())

    def write(self, parts: Iterable[bytes]) -> None:
        """Write the whole table from its parts, in one step."""
        with replaced(self.target) as beside:
            if self.parquet is not None:
                with self.parquet.ParquetWriter(beside, self._schema()) as writer:
                    for part in parts:
                        writer.write_table(self.parquet.read_table(io.BytesIO(part)))
                return
            with beside.open("wb") as out:
                out.write(self.pack(csv_text([[*self.table.columns, *self.new]], self.delimiter).encode()))
                for part in parts:
                    out.write(part)

    def _schema(self) -> Any:
        import pyarrow as pa

        kept = self.table.schema() or [pa.field(name, pa.string()) for name in self.table.columns]
        kinds = {float: pa.float64(), str: pa.string()}
        return pa.schema([*kept, *(pa.field(name, kinds[kind]) for name, kind in self.new.items())])

    def _arrow(self, each: Computed) -> Any:
        import pyarrow as pa

        schema = self._schema()
        kept = each.chunk.arrow.columns if each.chunk.arrow is not None else each.chunk.columns.values()
        return pa.Table.from_arrays(
            [
                column if isinstance(column, pa.ChunkedArray) else pa.array(column, field.type)
                for column, field in zip([*kept, *(each.columns[name] for name in self.new)], schema, strict=True)
            ],
            schema=schema,
        )


@dataclass(frozen=True)
class Written:
    """What was written.

    Args:
        path: the output.
        rows: number of rows.
        failed: number of rows with an error.
        warned: number of rows with a warning.
    """

    path: Path
    rows: int
    failed: int
    warned: int = 0


def write_stream(stream: Stream, target: Path, about: Callable[[], Fingerprint], callback: Callback) -> Written:
    """Write a table with its new columns. The file appears when it is complete.

    Args:
        stream: the table, and what to compute.
        target: the file to write.
        about: returns what the predictions depend on. It is called only if the table has several chunks.
        callback: receives progress events.
    """
    output = TableOutput(target, stream.table, stream.job.columns)
    if stream.rows <= stream.chunk_rows:
        made = [(output.part(each), each.failed, each.warned) for each in stream.computed(ResultCache(), callback)]
        output.write(part for part, _, _ in made)
        return Written(target, stream.rows, sum(failed for _, failed, _ in made), sum(warned for _, _, warned in made))
    folder = resumable_folder(target)
    with run.only_one(folder):
        chunks = FinishedChunks(folder, about())
        if chunks.rows:
            callback.note(f"{chunks.rows:,} rows were completed by a command that was stopped; the remaining rows follow.")
        for each in stream.computed(chunks.cache, callback, chunks.rows):
            chunks.add(output.part(each), each)
        output.write(chunks.content())
        written = Written(target, chunks.rows, chunks.failed, chunks.warned)
        for file in folder.iterdir():
            if file.name != run.LOCK:
                file.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    return written


def resumable_folder(target: Path) -> Path:
    """The folder of an output that is not complete."""
    return target.with_name(f".{target.name}.reign-partial")


class FinishedChunks:
    """The complete chunks of an output.

    Args:
        folder: the folder.
        about: what the predictions depend on.
    """

    def __init__(self, folder: Path, about: Fingerprint) -> None:
        self.folder, self.cache = folder, ResultCache()
        self.chunks, self.rows, self.failed, self.warned = 0, 0, 0, 0
        self.kept: deque[tuple[int, int]] = deque()  # chunks whose results may still be in the cache, with the number of results
        self.results = 0  # number of results of these chunks
        if (done := folder / "done.json").is_file():
            self._check_same(about)
            self._read(done)
        else:  # nothing to continue, whatever the command was
            write_json(folder / "about.json", about)

    def add(self, content: bytes, each: Computed) -> None:
        """Add a chunk. It counts when all its files are written."""
        write_bytes(self._file(self.chunks, "part"), content)
        seen = [[key.hex(), *self.cache.found[key]] for key in each.new]
        write_bytes(self._file(self.chunks, "seen"), json.dumps(seen).encode())
        self._keep(self.chunks, len(seen))
        self.chunks, self.rows, self.failed = self.chunks + 1, self.rows + each.chunk.size, self.failed + each.failed
        self.warned += each.warned
        done = {"chunks": self.chunks, "rows": self.rows, "failed": self.failed, "warned": self.warned}
        write_json(self.folder / "done.json", done)
        while self.results - self.kept[0][1] >= self.cache.size:
            number, results = self.kept.popleft()
            self._file(number, "seen").unlink()
            self.results -= results

    def content(self) -> Iterator[bytes]:
        """All chunks in order."""
        return (self._file(number, "part").read_bytes() for number in range(self.chunks))

    def _file(self, number: int, kind: str) -> Path:
        return self.folder / f"{number:05}.{kind}"

    def _check_same(self, about: Fingerprint) -> None:
        saved = read_record(self.folder / "about.json")
        here = json.loads(json.dumps(about))
        if other := [key for key in {**saved, **here} if saved.get(key) != here.get(key)]:
            raise ValueError(
                f"{self.folder} holds unfinished predictions of another command ({other[0]} is {saved.get(other[0])!r:.80} there and "
                f"{here.get(other[0])!r:.80} here); complete them with that command, or delete the folder to start again."
            )

    def _read(self, file: Path) -> None:
        done = read_record(file, chunks=int, rows=int, failed=int, warned=int)
        self.chunks, self.rows, self.failed, self.warned = (done[name] for name in ("chunks", "rows", "failed", "warned"))
        for number in range(self.chunks):
            if not self._file(number, "part").is_file():
                raise ValueError(f"{self._file(number, 'part')} is missing; delete {self.folder} to start again.")
            if not self._file(number, "seen").is_file():  # forgotten, because the cache is bounded
                continue
            seen = read_json(self._file(number, "seen"))
            try:
                for key, cells, error in seen:
                    self.cache.add(bytes.fromhex(key), None if cells is None else tuple(cells), str(error))
            except (TypeError, ValueError):
                raise ValueError(f"{self._file(number, 'seen')} is damaged; delete {self.folder} to start again.") from None
            self._keep(number, len(seen))
            self.cache.trim()  # as it was after this chunk: a result may have been forgotten and computed again

    def _keep(self, number: int, results: int) -> None:
        self.kept.append((number, results))
        self.results += results


def counted(several: Sequence[Written], path: Path) -> Written:
    """The sum of several outputs."""
    rows, failed, warned = (sum(getattr(each, name) for each in several) for name in ("rows", "failed", "warned"))
    return Written(path, rows, failed, warned)


def fingerprint(ensemble: TrainedEnsemble, stream: Stream, options: Mapping[str, object]) -> Fingerprint:
    """What the bytes of an output depend on: input, models, options, versions and the kind of device.

    Args:
        ensemble: the models.
        stream: the table, and what to compute.
        options: further options.
    """
    return {
        "input": digest([stream.table.path]),
        "columns": stream.smiles_columns,
        "descriptors": digest([stream.beside.path]) if stream.beside is not None else None,
        "models": digest(ensemble.files()),
        "options": options,
        "chunk_rows": stream.chunk_rows,
        "device": ensemble.models[0].device.type,
        "reign": reign._version.__version__,
        "torch": torch.__version__,
    }


def digest(files: Sequence[Path]) -> str:
    """A hash of the contents of some files; a file that does not exist counts as empty."""
    found = hashlib.sha256()
    for file in files:
        if file.is_file():
            with file.open("rb") as content:
                found.update(hashlib.file_digest(content, "sha256").digest())
        found.update(b"/")
    return found.hexdigest()[:16]


def vectors_of_file(
    predictor: TrainedEnsemble,
    path: str | Path,
    smiles_columns: Sequence[str] | None = None,
    callback: Callback | None = None,
    descriptors_path: str | Path | None = None,
) -> "pd.DataFrame":
    """A table of molecules with the additional columns ``fp_0``, ``fp_1``, ..., which hold the pooled vectors, and ``error``.

    Args:
        predictor: the models.
        path: a table of molecules: CSV, which may be compressed, or Parquet.
        smiles_columns: columns of SMILES; those of the training if not given.
        callback: receives progress events.
        descriptors_path: a table of descriptors for this table, if the training had one.
    """
    return _open_vectors(predictor, path, smiles_columns, descriptors_path, 0, CHUNK).frame(callback or Callback())


def write_vectors(
    predictor: TrainedEnsemble,
    path: str | Path,
    output: str | Path,
    smiles_columns: Sequence[str] | None = None,
    callback: Callback | None = None,
    descriptors_path: str | Path | None = None,
    num_workers: int | None = 0,
    chunk_rows: int = CHUNK,
) -> Written:
    """Write the table of ``vectors_of_file`` to a file, chunk by chunk, as ``Predictor.write_predictions`` does.

    Args:
        predictor, path, smiles_columns, callback, descriptors_path: as above.
        output, num_workers, chunk_rows: as in ``Predictor.write_predictions``.
    """
    stream = _open_vectors(predictor, path, smiles_columns, descriptors_path, num_workers, chunk_rows)
    return write_stream(stream, Path(output), lambda: fingerprint(predictor, stream, {"vectors": True}), callback or Callback())


def _open_vectors(
    predictor: TrainedEnsemble,
    path: str | Path,
    smiles_columns: Sequence[str] | None,
    descriptors_path: str | Path | None,
    num_workers: int | None,
    chunk_rows: int,
) -> Stream:
    predictor.need_smiles("use reign.load(...).models[0].vectors(...) from Python.")
    job = VectorJob(predictor)
    return open_stream(predictor.recipe.data, job, path, smiles_columns, descriptors_path, num_workers, chunk_rows)
