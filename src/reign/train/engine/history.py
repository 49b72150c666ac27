"""The history of a training run: metrics of every epoch, the best weights, and the checkpoint to continue from."""

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from reign.disk import first_line, read_state, write_csv, write_state
from reign.train.engine.sharing import num_sharing
from reign.train.runs.run import ModelFiles
from reign.train.settings.config import TrainingConfig
from reign.train.settings.metrics import METRICS

if TYPE_CHECKING:
    from reign.train.engine.engine import Engine


class History:
    """Metrics per epoch.

    Args:
        metric: the metric that compares epochs on the validation graphs. Without validation graphs the last epoch is the best.
        folder: folder of the checkpoint; with None nothing is saved.
        pause: seconds between two checkpoints. A run that is stopped in between repeats the epochs since the last one, with the same result.
    """

    def __init__(self, metric: str, folder: Path | None, pause: float = 0.0) -> None:
        self.metric, self.folder, self.pause, self.key = metric, folder, pause, f"val_{metric}"
        self.rows: list[dict[str, float]] = []
        self.sharing: list[int] = []  # the number of models that were trained at the same time, for each epoch
        self.best_epoch = -1
        self.best_weights: dict[str, Tensor] = {}
        self._saved = -math.inf

    def add(self, row: dict[str, Any], engine: "Engine") -> bool:
        """Add an epoch. Return whether it is the best so far."""
        self.rows.append(row)
        self.sharing.append(num_sharing())
        value = row.get(self.key)
        best = self.rows[self.best_epoch].get(self.key) if self.best_epoch >= 0 else None
        unknown = best is None or best != best  # NaN: the last epoch counts, as without validation graphs
        if value is None or self.best_epoch < 0 or (unknown and value != value) or METRICS[self.metric].better(value, best):
            self.best_epoch = int(row["epoch"])
            self.best_weights = engine.weights()
            return True
        return False

    def save(self, engine: "Engine", last: bool = False) -> None:
        """Write the checkpoint in one step, and the metrics as a table. Some short epochs are skipped, but never the last one."""
        if self.folder is None or (time.monotonic() - self._saved < self.pause and not last):
            return
        self._saved = time.monotonic()
        state = {
            "learner": engine.state_dict(),
            "rows": self.rows,
            "sharing": self.sharing,
            "best_epoch": self.best_epoch,
            "best_weights": self.best_weights,
        }
        write_state(ModelFiles(self.folder).checkpoint, state)
        self._write_table()

    def resume(self, engine: "Engine", folder: Path | None) -> None:
        """Continue from the checkpoint in a folder, if there is one."""
        if folder is not None and (file := ModelFiles(folder).checkpoint).is_file():
            state = read_state(file)
            try:
                engine.model.load_state_dict(state["best_weights"])  # raises an error if they belong to another model
                engine.load_state_dict(state["learner"])
                self.rows, self.best_epoch, self.best_weights = state["rows"], state["best_epoch"], state["best_weights"]
                self.sharing = [int(number) for number in state.get("sharing", [])]  # runs of version 0.1.0 have none
                self._check()
            except Exception as error:  # the state of another run can raise any error
                raise ValueError(
                    f"{file} does not belong to this run ({type(error).__name__}: {first_line(error)}); delete it to train this model from the start."
                ) from None
            self._write_table()

    def done(self, engine: "Engine", config: TrainingConfig) -> bool:
        """Whether to stop: after all epochs, at a small learning rate, or after many epochs without improvement."""
        epoch = len(self.rows) - 1
        if epoch < 0:
            return False
        waited = config.patience is not None and epoch - self.best_epoch >= config.patience
        return epoch + 1 >= config.epochs or engine.rate.value <= config.stop_lr or waited

    def value(self) -> float:
        """The validation metric of the last epoch, or its training loss if there are no validation graphs."""
        return self.rows[-1].get(self.key, self.rows[-1]["train_loss"])

    def _check(self) -> None:
        """Raise ``ValueError`` if the rows are not valid metrics of epochs."""
        columns = {"epoch", "lr", "train_loss", "seconds"}
        good = isinstance(self.rows, list) and bool(self.rows)
        for epoch, row in enumerate(self.rows if good else ()):
            good = (
                good and isinstance(row, dict) and columns <= set(row) and list(row) == list(self.rows[0]) and row["epoch"] == epoch
            )
            good = good and all(isinstance(value, int | float) for value in row.values())
        if not good or type(self.best_epoch) is not int or not 0 <= self.best_epoch < len(self.rows):
            raise ValueError("its rows are not metrics of epochs")

    def _write_table(self) -> None:
        if self.folder is not None:
            write_csv(ModelFiles(self.folder).metrics, list(self.rows[0]), [list(row.values()) for row in self.rows])
