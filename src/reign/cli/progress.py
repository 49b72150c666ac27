"""Progress in the terminal, on stderr: bars, or without a terminal a line now and then."""

import math
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from reign.cli.tools import plain_console
from reign.train.engine.callbacks import Callback

if TYPE_CHECKING:
    from reign.data.molecules import Report

FIRST = 10.0  # seconds without a line, where there is no terminal, before the first one about some work
MINUTE = 60.0  # the same before each further one
PERIOD = 1.0  # seconds between two looks at what is running
TICK = 0.1  # seconds between two movements of a bar
SHOWN = 10  # number of left-out rows that are printed


@dataclass(eq=False)
class Work:
    """A loop that is running.

    Args:
        label: what it is.
        total: number of steps.
        unit: what a step is; empty if this is clear.
        done: number of steps that are done. Estimates leave out those that are done at the start.
    """

    label: str
    total: int
    unit: str = ""
    done: int = 0

    def __post_init__(self) -> None:
        self.before, self.began = self.done, time.monotonic()
        self.moved = self.began

    def move(self, done: int) -> None:
        """So many steps are done."""
        self.done, self.moved = done, time.monotonic()

    def left(self) -> float | None:
        """An estimate of the seconds that are left; None if there is none yet."""
        steps = self.done - self.before
        return None if steps <= 0 else (self.moved - self.began) / steps * (self.total - self.done)

    def __str__(self) -> str:
        count = f", {self.unit} {self.done:,} of {self.total:,}".replace(",  ", ", ") if self.total > 1 else ""
        left = about(self.left(), f"to the last {self.unit}" if self.unit else "left")
        return f"{self.label}{count}, {duration(time.monotonic() - self.began)} so far{left}"


class ProgressBars(Callback):
    """Bars for epochs, batches and other loops. Without a terminal, a line is printed for every tenth of the epochs or rows, and whenever
    nothing was printed for a while.
    """

    def __init__(self, console: Console, progress: Progress) -> None:
        self.console, self.progress = console, progress
        self.epochs = progress.add_task("", total=None, visible=False)
        self.batches = progress.add_task("", total=None, visible=False)
        self.label = ""
        self.training: Work | None = None  # the epochs of a model
        self.work: list[Work] = []  # what is running, innermost last
        self.tenths = 0  # of the rows for which lines have been printed
        self.said: set[str] = set()  # the kinds of work for which lines have been printed
        self.printed, self.drawn = time.monotonic(), 0.0
        self.began = self.printed  # when the training of a model began
        self.noted: set[str] = set()
        self.warnings = WarningsOnly(console)

    def print(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, soft_wrap=True)
        self.printed = time.monotonic()

    def speak(self) -> None:
        """Without a terminal, say what is running if nothing was printed for a while."""
        running = [work for work in self.work if work.done < work.total]
        kind = re.sub(r"\d+", "", running[-1].unit or running[-1].label) if running else ""  # epochs are alike, and so are rounds
        if running and time.monotonic() - self.printed > (MINUTE if kind in self.said else FIRST):
            self.said.add(kind)
            self.print(str(running[-1]))

    def draw(self, task: TaskID, work: Work, **how: Any) -> None:
        """Move a bar. Most movements are too small to be seen, and are not drawn."""
        if work.done == work.total or work.moved > self.drawn + TICK:
            self.drawn = work.moved
            self.progress.update(task, completed=work.done, **how)

    def member(self, folder: str, number: int, total: int) -> None:
        """A new bar for a new model."""
        self.label, self.training = f"{folder} ({number + 1} of {total})" if total > 1 else folder, None
        self.began = time.monotonic()
        self.progress.reset(self.epochs, description=self.label, total=None, visible=True)
        self.work = [Work(f"{self.label}, the first batch", 1, "batch")]

    def batch(self, label: str, done: int, total: int) -> None:
        """Move the lower bar."""
        label = f"{self.label}, {label}" if self.label else label
        last = self.work[-1] if self.work else None
        if last is None or (last.label, last.total) != (label, total) or done < last.done:
            last = Work(label, total, "batch", done)
            self.work = [last]
            self.progress.reset(self.batches, description=f"  {label}", total=total, visible=True)
        last.move(done)
        self.draw(self.batches, last)

    def track(self, items: Iterable[Any], label: str) -> Iterator[Any]:
        """A bar of its own for a loop, which can be inside another one."""
        items = list(items)
        task, work = self.progress.add_task(f"  {label}", total=len(items)), Work(label, len(items))
        self.work = [*self.work, work]
        try:
            for done, item in enumerate(items, 1):
                yield item
                work.move(done)
                self.draw(task, work)
        finally:
            self.work = [each for each in self.work if each is not work]
            self.progress.remove_task(task)

    def rows(self, done: int, total: int, seconds: float | None) -> None:
        """Move the bar of a table. Without a terminal, print a line for every tenth of the rows, and at least one every minute."""
        self.progress.update(self.batches, description="  predict", completed=done, total=total, visible=True)
        if not self.work or (self.work[0].unit, self.work[0].total) != ("row", total) or done < self.work[0].done:
            self.work = [Work("predict", total, "row", done)]
        self.work[0].move(done)
        tenths = 10 * done // max(total, 1)
        if not self.console.is_terminal and (tenths > self.tenths or time.monotonic() - self.printed > MINUTE):
            self.tenths = tenths % 10  # another table may follow
            self.print(f"predict, {done:,} of {total:,} rows{about(None if done == total else seconds)}")

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        """Move the upper bar."""
        numbers = numbers_of(row)
        done = int(row["epoch"]) + 1
        if self.training is None:  # the first epoch of this process, which also compiles
            seconds: float | None = (time.monotonic() - self.began) * (epochs - done)
            self.training = Work(self.label, epochs, "epoch", done)
        else:
            self.training.move(done)
            seconds = self.training.left()
        self.progress.update(self.epochs, description=f"{self.label}: {numbers}", completed=done, total=epochs, visible=True)
        late = time.monotonic() - self.printed > MINUTE
        if not self.console.is_terminal and (done == epochs or done % math.ceil(epochs / 10) == 0 or late):
            worth_it = done < epochs and seconds is not None and seconds > FIRST
            self.print(f"{self.label}, epoch {done} of {epochs}: {numbers}{about(seconds if worth_it else None)}")
        what = f"epoch {done + 1} of {epochs}, the first batch" if done < epochs else "evaluation"
        self.work = [Work(f"{self.label}, {what}", 1, "batch")]

    def job(self, label: str, number: int, total: int) -> Callback:
        """One line for one of several models."""
        self.progress.update(self.epochs, visible=False)
        return RunLine(self, f"{label} ({number + 1} of {total})")

    def table(self, report: "Report") -> None:
        """Print a summary of a table that was read."""
        for line in report.lines():
            self.print(line)
        self.warnings.table(report)
        for row, reason in list(report.left_out.items())[:SHOWN]:
            self.print(f"row {row} left out: {reason}")
        if len(report.left_out) > SHOWN:
            self.print(f"... and {len(report.left_out) - SHOWN:,} more rows left out")

    def note(self, text: str) -> None:
        """Print the note, unless it was printed before: several models may have the same."""
        if text not in self.noted:
            self.noted.add(text)
            self.print(text)


class WarningsOnly(Callback):
    """One line for each warning about a table; several runs on one table have the same."""

    def __init__(self, console: Console) -> None:
        self.console, self.seen = console, set[str]()

    def table(self, report: "Report") -> None:
        """Print the warnings that were not printed before."""
        for text in report.warnings:
            if text not in self.seen:
                self.console.print(f"warning: {text}", soft_wrap=True)
        self.seen.update(report.warnings)


class RunLine(Callback):
    """The line of one of several models that are trained at once. Without a terminal, it is printed when the model is done."""

    def __init__(self, bars: ProgressBars, label: str) -> None:
        self.bars, self.label = bars, label
        self.task = bars.progress.add_task(f"{label}: waiting", total=None, start=False)
        self.work: Work | None = None
        self.first = True  # no epoch is done yet

    def member(self, folder: str, number: int, total: int) -> None:
        """Start the line of a model."""
        self.bars.progress.start_task(self.task)
        self.bars.progress.update(self.task, description=f"{self.label}: starting")

    def batch(self, label: str, done: int, total: int) -> None:
        """Show where the model is in its first epoch; later the metrics of an epoch are shown."""
        if self.work is None or (self.work.label, self.work.total) != (f"{self.label}, {label}", total) or done < self.work.done:
            self.work = Work(f"{self.label}, {label}", total, "batch", done)
        self.work.move(done)
        self.bars.work = [self.work]
        if self.first:
            self.bars.draw(self.task, self.work, description=f"{self.label}: {label}", total=total)

    def track(self, items: Iterable[Any], label: str) -> Iterable[Any]:
        """A bar of its own for a loop."""
        return self.bars.track(items, f"{self.label}, {label}")

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        """Move the bar."""
        self.first = False
        text, done = f"{self.label}: {numbers_of(row)}", int(row["epoch"]) + 1
        self.bars.progress.update(self.task, description=text, completed=done, total=epochs)
        if not self.bars.console.is_terminal and (done == epochs or time.monotonic() - self.bars.printed > MINUTE):
            self.bars.print(f"{text}, {done} epochs" if done == epochs else f"{text}, epoch {done} of {epochs}")

    def note(self, text: str) -> None:
        """Print the note."""
        self.bars.print(f"{self.label}: {text}")


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(4.4), duration(100), duration(7300)
    ('4 s', '1 min 40 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def about(seconds: float | None, until: str = "left") -> str:
    """An estimate of a time, to be added to a line; empty if it is not known."""
    return "" if seconds is None else f", about {duration(seconds)} {until}"


def numbers_of(row: dict[str, Any]) -> str:
    """The numbers of an epoch, formatted for reading."""
    return ", ".join(f"{k.replace('_', ' ')} {v:.4g}" for k, v in row.items() if k not in ("epoch", "lr"))


@contextmanager
def showing_progress(loud: bool = True) -> Iterator[Callback]:
    """A callback that shows progress on stderr, or one that shows only warnings unless ``loud``."""
    console = plain_console(stderr=True)
    if not loud:
        yield WarningsOnly(console)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    live = console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not live, speed_estimate_period=10 * MINUTE) as progress:
        bars, ended = ProgressBars(console, progress), Event()

        def listen() -> None:
            while not ended.wait(PERIOD):
                bars.speak()

        speaker = Thread(target=listen, daemon=True, name="reign-progress")
        if not live:  # a step that takes minutes reports nothing by itself
            speaker.start()
        try:
            yield bars
        finally:
            ended.set()
            if not live:
                speaker.join()
