"""Search the grid of a recipe; several workers can share a study."""

from itertools import product
from pathlib import Path
from typing import Any

from lightning.fabric import Fabric

from reign.data import find_dataset
from reign.train.callbacks import Watch
from reign.train.config import Recipe
from reign.train.metrics import METRICS, METRICS_OF_TASK, choose
from reign.train.run import train


def tune(
    make: Any,
    grid: dict[str, list[Any]],
    folder: Path,
    *,
    name: str,
    storage: str | None = None,
    trials: int | None = None,
    fabric: Fabric | None = None,
    watch: Watch | None = None,
) -> Any:
    """Try the points of a grid, and compare their validation metric; an optuna study.

    Args:
        make: a function from a point of the grid to a ``Recipe``.
        grid: the choices for each setting.
        folder: of the runs, as ``folder/trial-0``.
        name: of the study.
        storage: a database URL as "sqlite:///study.db", through which several workers share the study; none keeps it here.
        trials: how many points this worker tries; all that are left if not given.
        fabric: devices and processes.
        watch: is told of all that happens.
    """
    try:
        import optuna
    except ModuleNotFoundError:
        raise ValueError("tuning needs optuna: pip install 'reign[tune]'.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if not grid:
        raise ValueError(f"{name} has no grid to search; give one with --grid key=v1,v2.")
    words = {key: [_word(value) for value in values] for key, values in grid.items()}
    recipes: list[Recipe] = [
        make(dict(zip(grid, values, strict=True))) for values in product(*grid.values())
    ]  # all are valid, or none is tried
    first = recipes[0]
    task = first.data.task if first.data.name == "csv" else find_dataset(first.data.name).task
    metric = choose("metric", first.train.metric, METRICS_OF_TASK, task)
    sampler = optuna.samplers.GridSampler(words, seed=0)
    try:
        study = optuna.create_study(
            study_name=name,
            storage=storage,
            load_if_exists=True,
            sampler=sampler,
            direction="maximize" if METRICS[metric] else "minimize",
        )
    except Exception as error:  # whatever a database driver raises
        raise ValueError(
            f"the study cannot be kept in {storage!r} ({str(error).splitlines()[0]}); use a URL as sqlite:///study.db."
        ) from None

    def objective(trial: Any) -> float:
        point = {key: values[words[key].index(trial.suggest_categorical(key, words[key]))] for key, values in grid.items()}
        summary = train(make(point), folder / f"trial-{trial.number}", resume=True, fabric=fabric, watch=watch)
        if "val" not in summary:
            raise ValueError(f"{name} has no validation graphs to compare by.")
        return float(summary["val"]["mean"])

    left = len(recipes) - len([t for t in study.trials if t.value is not None])
    for _ in range(left if trials is None else min(trials, left)):
        if not sampler.is_exhausted(study):
            study.optimize(objective, n_trials=1)
    return study


def _word(value: Any) -> Any:
    """A value as optuna can keep it."""
    return value if isinstance(value, str | int | float | bool) or value is None else repr(value)
