"""Curves for TensorBoard, which is optional."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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
def board(folder: Path | None, start: int) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that writes an epoch's metrics as curves. Without a folder it does nothing."""
    if folder is None:
        yield lambda row: None
        return
    writer = need_tensorboard()(str(folder), purge_step=start)
    try:

        def write(row: dict[str, Any]) -> None:
            for name, value in row.items():
                writer.add_scalar(name, value, row["epoch"])
            writer.flush()

        yield write
    finally:
        writer.close()
