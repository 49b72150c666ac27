"""Search settings with optuna: the grid of a recipe, which several workers can share, or a space for a table of molecules."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reign.data import Problem
from reign.experiments.choose import Point, points_of, settings_at, small_enough, weights_of
from reign.experiments.paper import YAML, find_recipe, find_table
from reign.tables import Table
from reign.train.engine.callbacks import Callback, Forward
from reign.train.engine.execution import Fabric
from reign.train.runs.jobs import MOST
from reign.train.runs.run import Run
from reign.train.runs.train import train, train_all
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
        seeds: number of seeds of each point; those of the recipe if not given.
        max_weights: points with more weights are left out.
    """

    source: str
    grid: Mapping[str, list[Any]]
    changes: tuple[Mapping[str, Any], ...]
    name: str
    seeds: int | None = None
    max_weights: int | None = None
    _small: list[Point] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        source: str,
        choices: Mapping[str, list[Any]],
        *changes: Mapping[str, Any],
        seeds: int | None = None,
        max_weights: int | None = None,
    ) -> "Search":
        """The search of the grid of a recipe. The user's choices and bound override those of its table."""
        first = merge(*(nested(key, values[0]) for key, values in choices.items()))
        _, name = find_recipe(source, *changes, first)
        table = find_table(source if source.endswith(YAML) else source.split("/")[0])
        grid = {**table.grid_of(name.split("/")[1]), **choices}
        if not grid:
            raise ValueError(f"{name} has no grid to search; give one with --grid key=v1,v2.")
        return cls(source, grid, changes, name, seeds, max_weights or table.max_weights)

    @property
    def base(self) -> Recipe:
        """The recipe without any point of the grid."""
        return find_recipe(self.source, *self.changes)[0]

    def recipe(self, point: Point, whole: bool = False) -> Recipe:
        """The recipe of a point of the grid, with the seeds of the search, or as a ``whole`` with those of the recipe."""
        seeds = {} if whole or self.seeds is None else {"seeds": list(range(self.seeds))}
        return find_recipe(self.source, *self.changes, settings_at(point), seeds)[0]

    def recipes(self) -> list[Recipe]:
        """The recipes of all points. Raise ``ValueError`` if one is not valid."""
        return [self.recipe(point) for point in points_of(self.grid)]

    def small(self, callback: Callback | None = None) -> list[Point]:
        """The points with at most ``max_weights`` weights. The first call makes the models, and names the points that are left out."""
        if not self._small:
            points, loaded = points_of(self.grid), dict[str, Problem]()
            bound = self.max_weights is not None
            weights = [weights_of(recipe, loaded, callback) if bound else 0 for recipe in self.recipes()]
            self._small.extend(
                points[n] for n in small_enough(points, weights, self.max_weights, self.name, callback or Callback())
            )
        return self._small


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
    recipes, small = search.recipes(), search.small(callback)  # check all before the first one is trained
    metric = choose(METRICS, recipes[0].train.metric, recipes[0].data.task_of_graphs)

    class Grid(optuna.samplers.GridSampler):  # type: ignore[misc]
        """A grid that does not stop the study at its end, because several points are requested at once."""

        def after_trial(self, *args: Any) -> None:
            """Do nothing."""

    sampler = Grid(words, seed=0)
    study = make_study(study_name or search.name, storage, sampler, metric, search.base)

    def point_of(trial: Any) -> Point:
        return {key: values[words[key].index(trial.suggest_categorical(key, words[key]))] for key, values in search.grid.items()}

    left = len(small) - len({tuple(trial.params[key] for key in words) for trial in best_first(study, search)})
    left = left if trials is None else min(trials, left)
    at_once = jobs or (MOST if fabric is not None and fabric.device.type == "cuda" else 1)
    _try_again(study, words)
    while left > 0 and (_waiting(study) or not sampler.is_exhausted(study)):
        asked: list[Any] = []
        while len(asked) < min(at_once, left) and (_waiting(study) or not sampler.is_exhausted(study)):
            trial = study.ask()
            if point_of(trial) in small:
                asked.append(trial)
            else:
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        if not asked:
            break
        plans = [(search.recipe(point_of(trial)), folder / f"trial-{trial.number}") for trial in asked]
        try:
            summaries = train_all(plans, resume=True, fabric=fabric, callback=callback, jobs=jobs)
        except BaseException as error:
            for trial in asked:
                trial.set_user_attr(INTERRUPTED, isinstance(error, KeyboardInterrupt))
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            raise
        for trial, summary in zip(asked, summaries, strict=True):
            if "val" not in summary.splits:
                raise ValueError(f"{search.name} has no validation graphs, which are needed to compare settings.")
            study.tell(trial, summary.val.mean)
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
    if known not in (None, about) and Recipe.check({"format": 1, **json.loads(known), "seeds": recipe.seeds}, name) != recipe:
        raise ValueError(f"the study '{name}' in {storage} has other data or settings; choose another name with --study.")
    return study


def best_first(study: Any, search: Search | None = None) -> list[Any]:
    """The finished trials of a study, best first; those at points of a grid that are small enough, if a ``search`` is given."""
    sign = -1 if study.direction.name == "MAXIMIZE" else 1
    done = sorted((trial for trial in study.trials if trial.state.name == "COMPLETE"), key=lambda trial: sign * trial.value)
    small = [{key: _word(value) for key, value in point.items()} for point in search.small()] if search else []
    return [trial for trial in done if search is None or trial.params in small]


def best_point(search: Search, study: Any) -> Point:
    """The best point of a grid, with the values of the grid in place of the words for them in the study."""
    done = best_first(study, search)
    if not done:
        raise ValueError(f"{search.name} has no finished point; use more --trials.")
    return {key: next(value for value in values if _word(value) == done[0].params[key]) for key, values in search.grid.items()}


def study_table(study: Any, search: Search | None = None) -> Table:
    """The points of a grid, best first; see ``best_first``."""
    done = best_first(study, search)
    names = list(done[0].params) if done else []
    rows = [[str(trial.number), *(str(trial.params[name]) for name in names), float(trial.value)] for trial in done]
    columns = ["trial", *names, "validation"]
    return Table(f"{study.study_name}: {len(done)} points", columns, rows, align="l" * len(columns[1:]) + "r")


def _word(value: Any) -> Any:
    """A value in a form that optuna can store."""
    return value if isinstance(value, str | int | float | bool) or value is None else repr(value)


# -- the settings for a table of molecules -------------------------------------------------------------------------------------

TRIALS = 20
SPACE: dict[str, Callable[[Any, str], Any]] = {
    "train.optimiser.lr": lambda trial, key: trial.suggest_float(key, 2e-4, 4e-3, log=True),
    "train.optimiser.weight_decay": lambda trial, key: trial.suggest_categorical(key, [0.0, 1e-3, 1e-2, 1e-1]),
    "train.batch_size": lambda trial, key: trial.suggest_categorical(key, [32, 50, 100]),
    "model.hidden_channels": lambda trial, key: trial.suggest_categorical(key, [32, 64, 96]),
    "model.num_layers": lambda trial, key: trial.suggest_int(key, 2, 5),
    "model.dropout": lambda trial, key: trial.suggest_categorical(key, [0.0, 0.1, 0.2, 0.3]),
}
"""The settings that are searched, and how a value of each is chosen."""


@dataclass(frozen=True)
class TableSearch:
    """The search of the settings for one table.

    Args:
        recipe: settings of the table, the task and everything that is not searched.
        choices: the user's values for some settings, which override those of ``SPACE``.
    """

    recipe: Recipe
    choices: Mapping[str, list[Any]]

    def point(self, trial: Any) -> dict[str, Any]:
        """The settings of a trial."""
        found = {}
        for key, suggest in {**SPACE, **dict.fromkeys(self.choices)}.items():
            chosen = self.choices.get(key)
            found[key] = suggest(trial, key) if chosen is None and suggest is not None else trial.suggest_categorical(key, chosen)
        return found

    def recipe_of(self, point: Mapping[str, Any], seeds: int = 1) -> Recipe:
        """The recipe with these settings. Weight decay is decoupled from the gradient (AdamW)."""
        changes = [nested("train.optimiser.name", "adamw"), *(nested(key, value) for key, value in point.items())]
        return Recipe.check(merge(self.recipe.model_dump(mode="json"), {"seeds": list(range(seeds))}, *changes), "the search")


def tune_table(
    search: TableSearch,
    folder: Path,
    *,
    study_name: str,
    storage: str | None = None,
    trials: int | None = None,
    fabric: Fabric | None = None,
    callback: Callback | None = None,
) -> Any:
    """Train with different settings, and compare the validation metrics. Return an optuna study.

    A trial stops early if its validation metric is worse than the median of the earlier trials at the same epoch.

    Args:
        search: the settings to search.
        folder: the folder of the runs, ``folder/trial-0`` and so on.
        study_name, storage, fabric, callback: as in ``reign.experiments.tune.tune``.
        trials: number of trials; ``TRIALS`` if not given.
    """
    optuna = need_optuna()
    for key, values in search.choices.items():  # check all values before the first one is tried
        for value in values:
            search.recipe_of({key: value})
    metric = choose(METRICS, search.recipe.train.metric, search.recipe.data.task_of_graphs)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=max(1, search.recipe.train.epochs // 5))
    seed = 0 if storage is None else None  # workers that share a search, or continue it, must not draw the same points
    study = make_study(study_name, storage, optuna.samplers.TPESampler(seed=seed), metric, search.recipe, pruner)

    class Watch(Forward):
        """Reports every epoch to optuna."""

        def __init__(self, trial: Any) -> None:
            super().__init__(callback or Callback())
            self.trial = trial

        def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
            """Report the epoch, and stop the trial if it has fallen behind."""
            self.callback.epoch(row, epochs, improved)
            if f"val_{metric}" not in row:
                raise ValueError("the table has no validation rows, which are needed to compare settings.")
            self.trial.report(float(row[f"val_{metric}"]), int(row["epoch"]))
            if self.trial.should_prune():
                raise optuna.TrialPruned

        def member(self, name: str, number: int, total: int) -> None:
            """Show which trial it is."""
            self.callback.member(f"trial {self.trial.number}", 0, 1)

    def run(trial: Any) -> float:
        recipe = search.recipe_of(search.point(trial)).model_copy(update={"baseline": "none", "ensemble_with": []})
        summary = train(recipe, folder / f"trial-{trial.number}", fabric=fabric, callback=Watch(trial))
        return float(summary["val"]["mean"])

    left = (trials or TRIALS) - sum(trial.state.name in ("COMPLETE", "PRUNED") for trial in study.trials)
    if left > 0:
        study.optimize(run, n_trials=left)
    return study


def best_folder(folder: Path, recipe: Recipe) -> Path:
    """The folder of the best run: ``best``, or ``best-2`` and so on if an earlier search in this folder ended with other settings."""
    number, place = 1, folder / "best"
    while Run(place).started and Run(place).continued({"seeds": recipe.seeds}) != recipe:
        number += 1
        place = folder / f"best-{number}"
    return place
