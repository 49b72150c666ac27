"""Search the settings for a table of molecules with optuna: a default space, and early stopping of trials that fall behind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reign.experiments.tune import make_study, need_optuna
from reign.train.engine.callbacks import Callback, Forward
from reign.train.engine.execution import Fabric
from reign.train.run import train
from reign.train.run_folder import has_run, saved_recipe
from reign.train.settings.config import Recipe
from reign.train.settings.losses import choose
from reign.train.settings.metrics import METRICS
from reign.train.settings.yaml import merge, nested

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
            super().epoch(row, epochs, improved)
            if f"val_{metric}" not in row:
                raise ValueError("the table has no validation rows, which are needed to compare settings.")
            self.trial.report(float(row[f"val_{metric}"]), int(row["epoch"]))
            if self.trial.should_prune():
                raise optuna.TrialPruned

        def member(self, name: str, number: int, total: int) -> None:
            """Show which trial it is."""
            super().member(f"trial {self.trial.number}", 0, 1)

    def run(trial: Any) -> float:
        recipe = search.recipe_of(search.point(trial))
        summary = train(recipe, folder / f"trial-{trial.number}", fabric=fabric, callback=Watch(trial))
        return float(summary["val"]["mean"])

    left = (trials or TRIALS) - sum(trial.state.name in ("COMPLETE", "PRUNED") for trial in study.trials)
    if left > 0:
        study.optimize(run, n_trials=left)
    return study


def best_folder(folder: Path, recipe: Recipe) -> Path:
    """The folder of the best run: ``best``, or ``best-2`` and so on if an earlier search in this folder ended with other settings."""
    number, place = 1, folder / "best"
    while has_run(place) and saved_recipe(place, {"seeds": recipe.seeds}) != recipe:
        number += 1
        place = folder / f"best-{number}"
    return place
