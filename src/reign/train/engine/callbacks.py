"""Callbacks: the events that training and prediction report; and the curves of training for TensorBoard."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reign.data.molecules import Report

EpochRow = dict[str, int | float]  # the number of an epoch, its learning rate, loss and metrics


class Callback:
    """Receives the events of training. This class ignores nearly all of them; subclasses show progress or collect curves."""

    def batch(self, label: str, done: int, total: int) -> None:
        """Called after every batch, in training or prediction."""

    def track(self, items: Iterable[Any], label: str) -> Iterable[Any]:
        """Return the items of a long loop that has no batches, such as the reading of molecules. Progress can be shown as they are taken."""
        return items

    def rows(self, done: int, total: int, seconds: float | None) -> None:
        """Called while a table is predicted, with the number of rows that are done and an estimate of the seconds that are left."""

    def epoch(self, row: EpochRow, epochs: int, improved: bool) -> None:
        """Called after every epoch."""

    def member(self, folder: str, number: int, total: int) -> None:
        """Called before the training of each model of a run."""

    def job(self, label: str, number: int, total: int) -> "Callback":
        """Return the callback for one of several models that are trained at once."""
        return self

    def table(self, report: "Report") -> None:
        """Called after a table of molecules has been read. Here, its warnings become Python warnings."""
        for text in report.warnings:
            warnings.warn(text, stacklevel=2)

    def note(self, text: str) -> None:
        """Called with a message that a user should see."""


class Forward(Callback):
    """Passes all events of one model on to another callback; subclasses do more at some of them."""

    def __init__(self, callback: Callback) -> None:
        self.callback = callback
        for event in ("batch", "track", "epoch", "member", "note"):
            if getattr(type(self), event) is getattr(Callback, event):  # the subclass has nothing of its own to do
                setattr(self, event, getattr(callback, event))


# -- curves for TensorBoard, which is optional ---------------------------------------------------------------------------------


def need_tensorboard() -> Any:
    """The class that writes the curves; ``ValueError`` if tensorboard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError:
        raise ValueError(
            "train.tensorboard needs tensorboard: pip install tensorboard, or leave the setting out; metrics.csv has the same numbers."
        ) from None
    return SummaryWriter


@contextmanager
def board(folder: Path | None, start: int) -> Iterator[Callable[[EpochRow], None]]:
    """A function that writes an epoch's metrics as curves. Without a folder it does nothing."""
    if folder is None:
        yield lambda row: None
        return
    writer = need_tensorboard()(str(folder), purge_step=start)
    try:

        def write(row: EpochRow) -> None:
            for name, value in row.items():
                writer.add_scalar(name, value, row["epoch"])
            writer.flush()

        yield write
    finally:
        writer.close()
