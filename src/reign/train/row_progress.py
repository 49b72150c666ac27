"""The progress of a table in rows, with an estimate of the time that is left."""

import time

from reign.train.engine.callbacks import Callback


class RowProgress(Callback):
    """Turns the batches of a chunk into a number of rows, with an estimate of the time that is left.

    Args:
        callback: receives the rows, and each note once.
        total: number of rows of the table.
        done: number of rows that are done.
        passes: as in ``Job``.
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
