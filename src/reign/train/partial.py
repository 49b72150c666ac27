"""Write a table of predictions chunk by chunk, so that a stopped command can be continued.

Until the output OUT is complete, its chunks are in the folder .OUT.reign-partial beside it:

about.json       what the predictions depend on; a folder of another input, model or option is not continued
00000.part       the rows of a chunk, in the format of the output
00000.seen       results of the graphs that were computed for it, from which later rows are filled
done.json        number of complete chunks, rows, and rows with an error or a warning
"""

import json
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reign.disk import read_json, read_record, write_bytes, write_json
from reign.train.chunk_results import Computed
from reign.train.engine.callbacks import Callback
from reign.train.runs import run
from reign.train.stream import Stream
from reign.train.table_output import TableOutput
from reign.train.window import Window


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


def write_stream(stream: Stream, target: Path, about: Callable[[], dict[str, Any]], callback: Callback) -> Written:
    """Write a table with its new columns. The file appears when it is complete.

    Args:
        stream: the table, and what to compute.
        target: the file to write.
        about: returns what the predictions depend on. It is called only if the table has several chunks.
        callback: receives progress events.
    """
    output = TableOutput(target, stream.table, stream.job.columns)
    if stream.rows <= stream.chunk_rows:
        made = [(output.part(each), each.failed, each.warned) for each in stream.computed(Window(), callback)]
        output.write(part for part, _, _ in made)
        return Written(target, stream.rows, sum(failed for _, failed, _ in made), sum(warned for _, _, warned in made))
    folder = partial_folder(target)
    with run.only_one(folder):
        parts = Parts(folder, about())
        if parts.rows:
            callback.note(f"{parts.rows:,} rows were completed by a command that was stopped; the remaining rows follow.")
        for each in stream.computed(parts.window, callback, parts.rows):
            parts.add(output.part(each), each)
        output.write(parts.content())
        written = Written(target, parts.rows, parts.failed, parts.warned)
        for file in folder.iterdir():
            if file.name != run.LOCK:
                file.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    return written


def partial_folder(target: Path) -> Path:
    """The folder of an output that is not complete."""
    return target.with_name(f".{target.name}.reign-partial")


class Parts:
    """The complete chunks of an output.

    Args:
        folder: the folder.
        about: what the predictions depend on.
    """

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self.folder, self.window = folder, Window()
        self.chunks, self.rows, self.failed, self.warned = 0, 0, 0, 0
        self.kept: deque[tuple[int, int]] = deque()  # chunks whose results may still be in the window, with the number of results
        self.results = 0  # number of results of these chunks
        if (done := folder / "done.json").is_file():
            self._check_same(about)
            self._read(done)
        else:  # nothing to continue, whatever the command was
            write_json(folder / "about.json", about)

    def add(self, content: bytes, each: Computed) -> None:
        """Add a chunk. It counts when all its files are written."""
        write_bytes(self._file(self.chunks, "part"), content)
        seen = [[key.hex(), *self.window.found[key]] for key in each.new]
        write_bytes(self._file(self.chunks, "seen"), json.dumps(seen).encode())
        self._keep(self.chunks, len(seen))
        self.chunks, self.rows, self.failed = self.chunks + 1, self.rows + each.chunk.size, self.failed + each.failed
        self.warned += each.warned
        done = {"chunks": self.chunks, "rows": self.rows, "failed": self.failed, "warned": self.warned}
        write_json(self.folder / "done.json", done)
        while self.results - self.kept[0][1] >= self.window.size:
            number, results = self.kept.popleft()
            self._file(number, "seen").unlink()
            self.results -= results

    def content(self) -> Iterator[bytes]:
        """All chunks in order."""
        return (self._file(number, "part").read_bytes() for number in range(self.chunks))

    def _file(self, number: int, kind: str) -> Path:
        return self.folder / f"{number:05}.{kind}"

    def _check_same(self, about: dict[str, Any]) -> None:
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
            if not self._file(number, "seen").is_file():  # forgotten, because the window is bounded
                continue
            seen = read_json(self._file(number, "seen"))
            try:
                for key, cells, error in seen:
                    self.window.add(bytes.fromhex(key), None if cells is None else tuple(cells), str(error))
            except (TypeError, ValueError):
                raise ValueError(f"{self._file(number, 'seen')} is damaged; delete {self.folder} to start again.") from None
            self._keep(number, len(seen))
            self.window.trim()  # as it was after this chunk: a result may have been forgotten and computed again

    def _keep(self, number: int, results: int) -> None:
        self.kept.append((number, results))
        self.results += results


def counted(several: Sequence[Written], path: Path) -> Written:
    """The sum of several outputs."""
    rows, failed, warned = (sum(getattr(each, name) for each in several) for name in ("rows", "failed", "warned"))
    return Written(path, rows, failed, warned)
