"""The training loop, and the history of a run: metrics of every epoch, the best weights, and the checkpoint to continue from.

The randomness of an epoch depends only on the seed and the number of the epoch, so a run that was stopped and resumed gives the same result as an
uninterrupted one.
"""

import math
import time
from pathlib import Path
from statistics import mean
from typing import Literal, TypedDict

from jaxtyping import Float
from torch import Tensor, nn

from reign._validate import kind_of
from reign.data import Problem
from reign.disk import first_line, read_state, write_csv, write_state
from reign.nn import FORMAT, num_parameters, read_format
from reign.train.engine.callbacks import Callback, EpochRow, board
from reign.train.engine.engine import Engine
from reign.train.engine.execution import Fabric, make_fabric
from reign.train.engine.sharing import num_sharing
from reign.train.engine.step import NonFiniteLoss
from reign.train.runs.run import ModelFiles
from reign.train.settings.config import TrainingConfig
from reign.train.settings.metrics import METRICS


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

    def add(self, row: EpochRow, engine: Engine) -> bool:
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

    def save(self, engine: Engine, last: bool = False) -> None:
        """Write the checkpoint in one step, and the metrics as a table. Some short epochs are skipped, but never the last one."""
        if self.folder is None or (time.monotonic() - self._saved < self.pause and not last):
            return
        self._saved = time.monotonic()
        state = {
            "format": FORMAT,
            "learner": engine.state_dict(),
            "rows": self.rows,
            "sharing": self.sharing,
            "best_epoch": self.best_epoch,
            "best_weights": self.best_weights,
        }
        write_state(ModelFiles(self.folder).checkpoint, state)
        self._write_table()

    def resume(self, engine: Engine, folder: Path | None) -> None:
        """Continue from the checkpoint in a folder, if there is one."""
        if folder is not None and (file := ModelFiles(folder).checkpoint).is_file():
            state = read_state(file)
            read_format(state.get("format", 1), file)
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

    def done(self, engine: Engine, config: TrainingConfig) -> bool:
        """Whether to stop: after all epochs, at a small learning rate, or after many epochs without improvement."""
        epoch = len(self.rows) - 1
        if epoch < 0:
            return False
        small = epoch >= (config.freeze_epochs or 0) and engine.rate.value <= config.stop_lr
        return epoch + 1 >= config.epochs or small or self.waited(config)

    def waited(self, config: TrainingConfig) -> bool:
        """Whether the metric did not improve for ``patience`` epochs. Epochs with a frozen encoder do not count."""
        since = max(self.best_epoch, (config.freeze_epochs or 0) - 1)
        return config.patience is not None and len(self.rows) - 1 - since >= config.patience

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


# -- the loop ------------------------------------------------------------------------------------------------------------------


class Fitted(TypedDict, total=False):
    """The results of a training: the metric on every split with the weights of the best epoch and of the last one, and what they cost.

    ``metrics`` has all metrics on every split, by target, with the weights that are reported; the other fields are those of ``ModelResult``.
    """

    metric: str
    report: Literal["best", "last"]
    epochs: int
    best_epoch: int
    best_train_loss: float
    parameters: int
    max_pairs: int | None
    seconds: float
    models_at_once: int | float | None
    best: dict[str, float]
    last: dict[str, float]
    metrics: dict[str, dict[str, list[float]]]


def check_training(config: TrainingConfig, problem: Problem, processes: int) -> None:
    """Raise ``ValueError`` for settings that this problem, or this number of processes, cannot be trained with."""
    if config.target_share < 1 and problem.y.size(1) < 2:
        raise ValueError(
            f"train.target_share is {config.target_share:g}, but {problem.name} has only one target, so no part of it can be drawn; set it to 1."
        )
    if config.schedule.name == "clock" and processes > 1:
        raise ValueError(
            f"the schedule clock follows the clock of one process, and there are {processes}, which would get different learning rates; "
            "use one process, or --set train.schedule.name=cosine."
        )
    if config.patience is not None and "val" not in problem.splits:
        raise ValueError(
            f"patience is {config.patience}, but {problem.name} has no validation split, which would say when to stop; hold some graphs out for it, as with "
            "--split-sizes 0.8 0.1 0.1, or leave patience out."
        )


def fit(
    model: nn.Module,
    problem: Problem,
    config: TrainingConfig | None = None,
    *,
    seed: int = 0,
    folder: str | Path | None = None,
    fabric: Fabric | None = None,
    callback: Callback | None = None,
) -> tuple[Fitted, dict[str, Float[Tensor, "graphs outputs"]]]:
    """Train a model. Return its metrics with the weights of the best validation epoch and of the last epoch, and its predictions.

    Args:
        model: called as ``model(x, edge_index, edge_attr, batch, batch_size)``. After training it has the weights that are reported.
        problem: the graphs, targets and splits.
        config: the settings of the training.
        seed: determines the order of the graphs, dropout and sampled subgraphs.
        folder: folder of checkpoints; training continues from the checkpoint in it if there is one.
        fabric: devices and processes; one process if not given.
        callback: receives an event after every batch and epoch.
    """
    if not isinstance(problem, Problem):
        raise ValueError(f"problem is {kind_of(problem)}, expected a reign.data.Problem; make one with Problem.of(graphs).")
    config, callback, folder = config or TrainingConfig(), callback or Callback(), None if folder is None else Path(folder)
    fabric = fabric or make_fabric(config.precision)
    check_training(config, problem, fabric.world_size)
    keep = folder if fabric.is_global_zero else None
    engine = Engine(model, problem, config, seed, fabric, callback)
    history = History(engine.metric, keep, config.checkpoint_seconds)
    history.resume(engine, folder)
    with engine.execution.memory(), board(keep if config.tensorboard else None, len(history.rows)) as write:
        while not history.done(engine, config):
            epoch, began = len(history.rows), time.perf_counter()
            try:
                loss = engine.train_epoch(epoch)
            except NonFiniteLoss:
                if keep is not None:
                    engine.save(ModelFiles(keep).last_good)
                raise
            row = {"epoch": epoch, "lr": engine.rate.value, "train_loss": loss, **engine.validate()}
            improved = history.add({**row, "seconds": time.perf_counter() - began}, engine)
            engine.rate.after_epoch(history.value())
            history.save(engine, last=history.done(engine, config))
            callback.epoch(row, config.epochs, improved)
            write(row)
    if history.waited(config) and len(history.rows) < config.epochs:
        callback.note(
            f"Training ended after {len(history.rows)} of {config.epochs} epochs: {history.key} is best in epoch {history.best_epoch + 1} (patience {config.patience})."
        )
    found = measure(engine, history, keep)
    engine.release()
    return found


def measure(engine: Engine, history: History, folder: Path | None) -> tuple[Fitted, dict[str, Float[Tensor, "graphs outputs"]]]:
    """The metric of both sets of weights on all splits. The reported weights come last and stay in the model."""
    result: Fitted = {
        "metric": engine.metric,
        "report": engine.config.report,
        "epochs": len(history.rows),
        "best_epoch": history.best_epoch,
        "best_train_loss": min(row["train_loss"] for row in history.rows),
        "parameters": num_parameters(engine.model),
        "max_pairs": engine.budget.bound if engine.budget.split else None,
        "seconds": sum(row["seconds"] for row in history.rows),
        "models_at_once": mean(history.sharing) if len(history.sharing) == len(history.rows) else None,
    }
    weights = {"best": history.best_weights, "last": engine.weights()}
    predictions: dict[str, Tensor] = {}
    same = history.best_epoch == len(history.rows) - 1
    order: tuple[Literal["best", "last"], ...] = ("last", "best") if engine.config.report == "best" else ("best", "last")
    for which in order:
        engine.model.load_state_dict(weights[which])
        if not predictions or not same:
            predictions = {split: engine.predict(split) for split in engine.problem.splits}
        result[which] = {split: engine.score(split, out) for split, out in predictions.items()}
        if folder is not None:
            engine.save(ModelFiles(folder).weights(which))
    result["metrics"] = {split: engine.all_metrics(split, out) for split, out in predictions.items()}
    return result, predictions
