"""Progress of a run in the terminal."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from reign.cli.tools import plain_console
from reign.train.callbacks import Callback

if TYPE_CHECKING:
    from reign.data.molecules import Report

MINUTE = 60.0  # seconds
SHOWN = 10  # number of left-out rows that are printed


class ProgressBars(Callback):
    """Two bars, for epochs and for batches. Without a terminal, a line is printed for every tenth of the epochs, batches or rows."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self.console, self.progress = console, progress
        self.epochs = progress.add_task("", total=None, visible=False)
        self.batches = progress.add_task("", total=None, visible=False)
        self.label = ""
        self.lines = 0  # number of lines about rows that have been printed
        self.printed = time.monotonic()

    def member(self, folder: str, number: int, total: int) -> None:
        """A new bar for a new model."""
        self.label = f"{folder} ({number + 1} of {total})" if total > 1 else folder
        self.progress.reset(self.epochs, description=self.label, total=None, visible=True)

    def batch(self, label: str, done: int, total: int) -> None:
        """Move the lower bar."""
        self.progress.update(self.batches, description=f"  {label}", completed=done, total=total, visible=True)
        if not self.console.is_terminal and label == "predict" and (done == total or done % math.ceil(total / 10) == 0):
            self.console.print(f"predict, batch {done} of {total}")

    def rows(self, done: int, total: int, seconds: float | None) -> None:
        """Move the bar of a table. Without a terminal, print a line for every tenth of the rows, and at least one every minute."""
        self.progress.update(self.batches, description="  predict", completed=done, total=total, visible=True)
        now, tenths = time.monotonic(), 10 * done // max(total, 1)
        if not self.console.is_terminal and (tenths > self.lines or now - self.printed > MINUTE):
            self.lines, self.printed = tenths % 10, now  # another table may follow
            left = "" if seconds is None or done == total else f", about {duration(seconds)} left"
            self.console.print(f"predict, {done:,} of {total:,} rows{left}")

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        """Move the upper bar."""
        numbers = numbers_of(row)
        done = int(row["epoch"]) + 1
        self.progress.update(self.epochs, description=f"{self.label}: {numbers}", completed=done, total=epochs, visible=True)
        if not self.console.is_terminal and (done == epochs or done % math.ceil(epochs / 10) == 0):
            self.console.print(f"{self.label}, epoch {done} of {epochs}: {numbers}")

    def job(self, label: str, number: int, total: int) -> Callback:
        """One line for one of several models."""
        self.progress.update(self.epochs, visible=False)
        return RunLine(self, f"{label} ({number + 1} of {total})")

    def table(self, report: "Report") -> None:
        """Print a summary of a table that was read."""
        for line in report.lines():
            self.console.print(line)
        for row, reason in list(report.left_out.items())[:SHOWN]:
            self.console.print(f"row {row} left out: {reason}")
        if len(report.left_out) > SHOWN:
            self.console.print(f"... and {len(report.left_out) - SHOWN:,} more; all are in rows_left_out.csv of the run")

    def note(self, text: str) -> None:
        """Print the note."""
        self.console.print(text)


class RunLine(Callback):
    """The line of one of several models that are trained at once. Without a terminal, it is printed when the model is done."""

    def __init__(self, bars: ProgressBars, label: str) -> None:
        self.bars, self.label = bars, label
        self.task = bars.progress.add_task(f"{label}: waiting", total=None, start=False)

    def member(self, folder: str, number: int, total: int) -> None:
        """Start the line of a model."""
        self.bars.progress.start_task(self.task)
        self.bars.progress.update(self.task, description=f"{self.label}: starting")

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        """Move the bar."""
        text, done = f"{self.label}: {numbers_of(row)}", int(row["epoch"]) + 1
        self.bars.progress.update(self.task, description=text, completed=done, total=epochs)
        if not self.bars.console.is_terminal and done == epochs:
            self.bars.console.print(f"{text}, {done} epochs")

    def note(self, text: str) -> None:
        """Print the note."""
        self.bars.console.print(f"{self.label}: {text}")


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(4.4), duration(100), duration(7300)
    ('4 s', '1 min 40 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def numbers_of(row: dict[str, Any]) -> str:
    """The numbers of an epoch, formatted for reading."""
    return ", ".join(f"{k.replace('_', ' ')} {v:.4g}" for k, v in row.items() if k not in ("epoch", "lr"))


@contextmanager
def showing_progress(loud: bool = True) -> Iterator[Callback]:
    """A callback that shows progress on stderr, or one that shows nothing unless ``loud``."""
    if not loud:
        yield Callback()
        return
    console = plain_console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield ProgressBars(console, progress)
