"""Search the grid of a recipe; several workers can share a study."""

from pathlib import Path
from typing import Any

from lightning.fabric import Fabric

from reign.train.metrics import METRICS
from reign.train.recipe import Recipe
from reign.train.run import train
from reign.train.watch import Watch


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
    first: Recipe = make({key: values[0] for key, values in grid.items()})
    goal = METRICS[first.train.metric] if first.train.metric else first.data.task != "regression"
    study = optuna.create_study(
        study_name=name,
        storage=storage,
        load_if_exists=True,
        sampler=optuna.samplers.GridSampler(words, seed=0),
        direction="maximize" if goal else "minimize",
    )

    def objective(trial: Any) -> float:
        point = {key: values[words[key].index(trial.suggest_categorical(key, words[key]))] for key, values in grid.items()}
        summary = train(make(point), folder / f"trial-{trial.number}", resume=True, fabric=fabric, watch=watch)
        return float(summary["val"]["mean"])

    study.optimize(objective, n_trials=trials)
    return study


def _word(value: Any) -> Any:
    """A value as optuna can keep it."""
    return value if isinstance(value, str | int | float | bool) or value is None else repr(value)
