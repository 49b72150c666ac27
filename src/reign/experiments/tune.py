"""Search the grid of a recipe; several workers can share a study."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from reign.experiments.table_files import YAML, find_recipe, find_table
from reign.train.callbacks import Callback
from reign.train.jobs import MOST
from reign.train.metrics import METRICS
from reign.train.overrides import merge, nested
from reign.train.processes import Fabric
from reign.train.recipe import Recipe
from reign.train.run import train_all
from reign.train.tasks import choose


@dataclass(frozen=True)
class Search:
    """A grid of settings, and the recipe of each of its points.

    Args:
        source: TABLE/ROW/COLUMN, or a YAML file.
        grid: the choices for each setting.
        changes: settings over those of the recipe.
        name: full name of the recipe.
    """

    source: str
    grid: Mapping[str, list[Any]]
    changes: tuple[Mapping[str, Any], ...]
    name: str

    @classmethod
    def of(cls, source: str, choices: Mapping[str, list[Any]], *changes: dict[str, Any]) -> "Search":
        """The search of the grid of a recipe, with the choices of the user over those of its table."""
        first = merge(*(nested(key, values[0]) for key, values in choices.items()))
        _, name = find_recipe(source, *changes, first)
        table = find_table(source if source.endswith(YAML) else source.split("/")[0])
        grid = {**table.grid_of(name.split("/")[1]), **choices}
        if not grid:
            raise ValueError(f"{name} has no grid to search; give one with --grid key=v1,v2.")
        return cls(source, grid, changes, name)

    def recipe(self, point: Mapping[str, Any]) -> Recipe:
        """The recipe of a point of the grid."""
        return find_recipe(self.source, *map(dict, self.changes), merge(*(nested(key, v) for key, v in point.items())))[0]

    def recipes(self) -> list[Recipe]:
        """The recipes of all points; ``ValueError`` if one of them is not valid."""
        return [self.recipe(dict(zip(self.grid, values, strict=True))) for values in product(*self.grid.values())]


def tune(
    search: Search,
    folder: Path,
    *,
    study_name: str | None = None,
    storage: str | None = None,
    trials: int | None = None,
    fabric: Fabric | None = None,
    callback: Callback | None = None,
    jobs: int | None = None,
) -> Any:
    """Try the points of a grid, and compare their validation metric; an optuna study.

    Args:
        search: the grid.
        folder: the folder of the runs, as ``folder/trial-0``.
        study_name: name of the study; that of the recipe if not given.
        storage: a database URL as "sqlite:///study.db", through which several workers share the study; without it the study is not kept.
        trials: number of points this worker tries; all that are left if not given.
        fabric: devices and processes.
        callback: is told of all that happens.
        jobs: how many models are trained at once, see ``reign.train.train``.
    """
    optuna: Any = need_optuna()
    words = {key: [_word(value) for value in values] for key, values in search.grid.items()}
    recipes = search.recipes()  # all are valid, or none is tried
    metric = choose(METRICS, recipes[0].train.metric, recipes[0].data.task_of_graphs)

    class Grid(optuna.samplers.GridSampler):  # type: ignore[misc]
        """A grid whose end stops nothing: points are asked for here, several at once."""

        def after_trial(self, *args: Any) -> None:
            """Do nothing."""

    sampler = Grid(words, seed=0)
    study = make_study(study_name or search.name, storage, sampler, metric)

    def point_of(trial: Any) -> dict[str, Any]:
        return {key: values[words[key].index(trial.suggest_categorical(key, words[key]))] for key, values in search.grid.items()}

    left = len(recipes) - len(best_first(study))
    left = left if trials is None else min(trials, left)
    at_once = jobs or (MOST if fabric is not None and fabric.device.type == "cuda" else 1)
    while left > 0 and not sampler.is_exhausted(study):
        asked = [study.ask() for _ in range(min(at_once, left))]
        plans = [(search.recipe(point_of(trial)), folder / f"trial-{trial.number}") for trial in asked]
        try:
            summaries = train_all(plans, resume=True, fabric=fabric, callback=callback, jobs=jobs)
        except BaseException:
            for trial in asked:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            raise
        for trial, summary in zip(asked, summaries, strict=True):
            if "val" not in summary:
                raise ValueError(f"{search.name} has no validation graphs to compare by.")
            study.tell(trial, float(summary["val"]["mean"]))
        left -= len(asked)
    return study


def need_optuna() -> Any:
    """The package optuna, without its messages; ``ValueError`` if it is not installed."""
    try:
        import optuna
    except ModuleNotFoundError:
        raise ValueError("tuning needs optuna: pip install 'reign[tune]'.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def make_study(name: str, storage: str | None, sampler: Any, metric: str, pruner: Any = None) -> Any:
    """A study of a metric, kept in a database if there is one."""
    try:
        return need_optuna().create_study(
            study_name=name,
            storage=storage,
            load_if_exists=True,
            sampler=sampler,
            pruner=pruner,
            direction="maximize" if METRICS[metric].more_is_better else "minimize",
        )
    except Exception as error:  # whatever a database driver raises
        raise ValueError(
            f"the study cannot be kept in {storage!r} ({str(error).splitlines()[0]}); use a URL as sqlite:///study.db."
        ) from None


def best_first(study: Any) -> list[Any]:
    """The trials of a study that are done, best first."""
    sign = -1 if study.direction.name == "MAXIMIZE" else 1
    return sorted((trial for trial in study.trials if trial.state.name == "COMPLETE"), key=lambda trial: sign * trial.value)


def _word(value: Any) -> Any:
    """A value as optuna can keep it."""
    return value if isinstance(value, str | int | float | bool) or value is None else repr(value)
