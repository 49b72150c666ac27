"""The training loop.

The randomness of an epoch depends only on the seed and the number of the epoch, so a run that was stopped and resumed gives the same
result as an uninterrupted one.
"""

import time
from pathlib import Path
from statistics import mean
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from reign.data import Problem
from reign.nn import num_parameters
from reign.train.engine.callbacks import Callback, board
from reign.train.engine.engine import Engine
from reign.train.engine.execution import Fabric, make_fabric
from reign.train.engine.history import History
from reign.train.engine.step import NonFiniteLoss
from reign.train.runs.run import ModelFiles
from reign.train.settings.config import TrainingConfig


def fit(
    model: nn.Module,
    problem: Problem,
    config: TrainingConfig | None = None,
    *,
    seed: int = 0,
    folder: str | Path | None = None,
    fabric: Fabric | None = None,
    callback: Callback | None = None,
) -> tuple[dict[str, Any], dict[str, Float[Tensor, "graphs outputs"]]]:
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
    config, callback, folder = config or TrainingConfig(), callback or Callback(), None if folder is None else Path(folder)
    fabric = fabric or make_fabric(config.precision)
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
    found = measure(engine, history, keep)
    engine.release()
    return found


def measure(
    engine: Engine, history: History, folder: Path | None
) -> tuple[dict[str, Any], dict[str, Float[Tensor, "graphs outputs"]]]:
    """The metric of both sets of weights on all splits. The reported weights come last and stay in the model."""
    result: dict[str, Any] = {
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
    for which in ("last", "best") if engine.config.report == "best" else ("best", "last"):
        engine.model.load_state_dict(weights[which])
        if not predictions or not same:
            predictions = {split: engine.predict(split) for split in engine.problem.splits}
        result[which] = {split: engine.score(split, out) for split, out in predictions.items()}
        if folder is not None:
            engine.save(ModelFiles(folder).weights(which))
    result["metrics"] = {split: engine.all_metrics(split, out) for split, out in predictions.items()}
    return result, predictions
