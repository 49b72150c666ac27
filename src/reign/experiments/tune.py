"""Search the grid of a recipe; several workers can share a study."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from reign.experiments.table_files import YAML, find_recipe, find_table
from reign.tables import Table
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import Fabric
from reign.train.job_threads import MOST
from reign.train.run import train_all
from reign.train.settings.config import Recipe
from reign.train.settings.losses import choose
from reign.train.settings.metrics import METRICS
from reign.train.settings.yaml import merge, nested

INTERRUPTED = "interrupted"  # the mark of trials that were stopped by Ctrl-C


@dataclass(frozen=True)
class Search:
    """A grid of settings, and the recipe of each of its points.

    Args:
        source: TABLE/ROW/COLUMN, or a YAML file.
        grid: the values to try for each setting.
        changes: settings that override those of the recipe.
        name: full name of the recipe.
    """

    source: str
    grid: Mapping[str, list[Any]]
    changes: tuple[Mapping[str, Any], ...]
    name: str

    @classmethod
    def of(cls, source: str, choices: Mapping[str, list[Any]], *changes: dict[str, Any]) -> "Search":
        """The search of the grid of a recipe. The user's choices override those of its table."""
        first = merge(*(nested(key, values[0]) for key, values in choices.items()))
        _, name = find_recipe(source, *changes, first)
        table = find_table(source if source.endswith(YAML) else source.split("/")[0])
        grid = {**table.grid_of(name.split("/")[1]), **choices}
        if not grid:
            raise ValueError(f"{name} has no grid to search; give one with --grid key=v1,v2.")
        return cls(source, grid, changes, name)

    @property
    def base(self) -> Recipe:
        """The recipe without any point of the grid."""
        return find_recipe(self.source, *map(dict, self.changes))[0]

    def recipe(self, point: Mapping[str, Any]) -> Recipe:
        """The recipe of a point of the grid."""
        return find_recipe(self.source, *map(dict, self.changes), merge(*(nested(key, v) for key, v in point.items())))[0]

    def recipes(self) -> list[Recipe]:
        """The recipes of all points. Raise ``ValueError`` if one is not valid."""
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
    """Train the points of a grid, and compare their validation metrics, as an optuna study.

    Args:
        search: the grid.
        folder: the folder of the runs, as ``folder/trial-0``.
        study_name: name of the study; the name of the recipe if not given.
        storage: a database URL such as "sqlite:///study.db", through which several workers share the study. Without it the study is not
            saved.
        trials: number of points that this worker tries; all remaining points if not given.
        fabric: devices and processes.
        callback: receives all events.
        jobs: number of models to train at once; see ``reign.train.train``.
    """
    optuna: Any = need_optuna()
    words = {key: [_word(value) for value in values] for key, values in search.grid.items()}
    recipes = search.recipes()  # check all points before the first one is trained
    metric = choose(METRICS, recipes[0].train.metric, recipes[0].data.task_of_graphs)

    class Grid(optuna.samplers.GridSampler):  # type: ignore[misc]
        """A grid that does not stop the study at its end, because several points are requested at once."""

        def after_trial(self, *args: Any) -> None:
            """Do nothing."""

    sampler = Grid(words, seed=0)
    study = make_study(study_name or search.name, storage, sampler, metric, search.base)

    def point_of(trial: Any) -> dict[str, Any]:
        return {key: values[words[key].index(trial.suggest_categorical(key, words[key]))] for key, values in search.grid.items()}

    left = len(recipes) - len({tuple(trial.params[key] for key in words) for trial in best_first(study)})
    left = left if trials is None else min(trials, left)
    at_once = jobs or (MOST if fabric is not None and fabric.device.type == "cuda" else 1)
    _try_again(study, words)
    while left > 0 and (_waiting(study) or not sampler.is_exhausted(study)):
        asked = [study.ask() for _ in range(min(at_once, left))]
        plans = [(search.recipe(point_of(trial)), folder / f"trial-{trial.number}") for trial in asked]
        try:
            summaries = train_all(plans, resume=True, fabric=fabric, callback=callback, jobs=jobs)
        except BaseException as error:
            for trial in asked:
                trial.set_user_attr(INTERRUPTED, isinstance(error, KeyboardInterrupt))
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            raise
        for trial, summary in zip(asked, summaries, strict=True):
            if "val" not in summary:
                raise ValueError(f"{search.name} has no validation graphs, which are needed to compare settings.")
            study.tell(trial, float(summary["val"]["mean"]))
        left -= len(asked)
    return study


def _try_again(study: Any, grid: dict[str, list[Any]]) -> None:
    """Put points whose training was interrupted back into the queue; the sampler itself counts them as tried. Points that failed by themselves
    would fail again."""
    tried = [trial.params for trial in study.trials if trial.state.name in ("COMPLETE", "RUNNING")]
    tried += [trial.system_attrs["fixed_params"] for trial in study.trials if trial.state.name == "WAITING"]
    for trial in study.trials:
        if trial.user_attrs.get(INTERRUPTED) and trial.params.keys() == grid.keys() and trial.params not in tried:
            study.enqueue_trial(trial.params)
            tried.append(trial.params)


def _waiting(study: Any) -> bool:
    """Whether a point is in the queue."""
    return any(trial.state.name == "WAITING" for trial in study.trials)


def need_optuna() -> Any:
    """The package optuna, without its messages; ``ValueError`` if it is not installed."""
    try:
        import optuna
    except ModuleNotFoundError:
        raise ValueError("tuning needs optuna: pip install 'reign[tune]'.") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # a failed trial raises its error here
    return optuna


def make_study(name: str, storage: str | None, sampler: Any, metric: str, recipe: Recipe, pruner: Any = None) -> Any:
    """A study of a metric, saved in a database if one is given. Raise ``ValueError`` if the database has a study of another recipe by this name."""
    about = json.dumps(recipe.model_dump(mode="json", exclude={"seeds"}), sort_keys=True)
    try:
        study = need_optuna().create_study(
            study_name=name,
            storage=storage,
            load_if_exists=True,
            sampler=sampler,
            pruner=pruner,
            direction="maximize" if METRICS[metric].more_is_better else "minimize",
        )
        if (known := study.user_attrs.get("recipe")) is None:
            study.set_user_attr("recipe", about)
    except Exception as error:  # a database driver can raise any error
        raise ValueError(
            f"the study cannot be saved in {storage!r} ({str(error).splitlines()[0]}); use a URL such as sqlite:///study.db."
        ) from None
    if known not in (None, about):
        raise ValueError(f"the study '{name}' in {storage} has other data or settings; choose another name with --study.")
    return study


def best_first(study: Any) -> list[Any]:
    """The finished trials of a study, best first."""
    sign = -1 if study.direction.name == "MAXIMIZE" else 1
    return sorted((trial for trial in study.trials if trial.state.name == "COMPLETE"), key=lambda trial: sign * trial.value)


def study_table(study: Any) -> Table:
    """The points of a grid, best first."""
    done = best_first(study)
    names = list(done[0].params) if done else []
    rows = [[str(trial.number), *(str(trial.params[name]) for name in names), float(trial.value)] for trial in done]
    columns = ["trial", *names, "validation"]
    return Table(f"{study.study_name}: {len(done)} points", columns, rows, align="l" * len(columns[1:]) + "r")


def _word(value: Any) -> Any:
    """A value in a form that optuna can store."""
    return value if isinstance(value, str | int | float | bool) or value is None else repr(value)
