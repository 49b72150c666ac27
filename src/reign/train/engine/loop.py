"""The training loop.

The randomness of an epoch depends only on the seed and the number of the epoch, so a run that was stopped and resumed gives the same
result as an uninterrupted one.
"""

import time
from contextlib import nullcontext
from pathlib import Path
from statistics import mean
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from reign.data import Problem
from reign.kernels import keep_freed_memory
from reign.nn import num_parameters
from reign.train.engine.callbacks import Callback
from reign.train.engine.engine import Learner, NonFiniteLoss
from reign.train.engine.execution import Fabric, make_fabric
from reign.train.engine.history import History, board
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
    learner = Learner(model, problem, config, seed, fabric, callback)
    history = History(learner.metric, keep, config.checkpoint_seconds)
    history.resume(learner, folder)
    on_cpu = fabric.device.type == "cpu"
    with keep_freed_memory() if on_cpu else nullcontext(), board(keep if config.tensorboard else None, len(history.rows)) as write:
        while not history.done(learner, config):
            epoch, began = len(history.rows), time.perf_counter()
            try:
                loss = learner.train_epoch(epoch)
            except NonFiniteLoss:
                if keep is not None:
                    learner.save(ModelFiles(keep).last_good)
                raise
            row = {"epoch": epoch, "lr": learner.rate.value, "train_loss": loss, **learner.validate()}
            improved = history.add({**row, "seconds": time.perf_counter() - began}, learner)
            learner.rate.after_epoch(history.value())
            history.save(learner, last=history.done(learner, config))
            callback.epoch(row, config.epochs, improved)
            write(row)
    found = measure(learner, history, keep)
    learner.release()
    return found


def measure(
    learner: Learner, history: History, folder: Path | None
) -> tuple[dict[str, Any], dict[str, Float[Tensor, "graphs outputs"]]]:
    """The metric of both sets of weights on all splits. The reported weights come last and stay in the model."""
    result: dict[str, Any] = {
        "metric": learner.metric,
        "report": learner.config.report,
        "epochs": len(history.rows),
        "best_epoch": history.best_epoch,
        "best_train_loss": min(row["train_loss"] for row in history.rows),
        "parameters": num_parameters(learner.model),
        "max_pairs": learner.budget.bound if learner.budget.split else None,
        "seconds": sum(row["seconds"] for row in history.rows),
        "models_at_once": mean(history.sharing) if len(history.sharing) == len(history.rows) else None,
    }
    weights = {"best": history.best_weights, "last": learner.weights()}
    predictions: dict[str, Tensor] = {}
    same = history.best_epoch == len(history.rows) - 1
    for which in ("last", "best") if learner.config.report == "best" else ("best", "last"):
        learner.model.load_state_dict(weights[which])
        if not predictions or not same:
            predictions = {split: learner.predict(split) for split in learner.problem.splits}
        result[which] = {split: learner.score(split, out) for split, out in predictions.items()}
        if folder is not None:
            learner.save(ModelFiles(folder).weights(which))
    result["metrics"] = {split: learner.all_metrics(split, out) for split, out in predictions.items()}
    return result, predictions
