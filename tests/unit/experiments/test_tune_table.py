"""The search of settings for a table: its space, and trials that are stopped early."""

from pathlib import Path
from typing import Any

import pytest

from reign.experiments import find_recipe, tune
from reign.experiments.tune import SPACE, TableSearch, best_folder

optuna = pytest.importorskip("optuna")


@pytest.fixture
def search(tmp_path: Path) -> TableSearch:
    recipe, _ = find_recipe("molecules", {"data": {"path": str(tmp_path / "mols.csv")}, "train": {"epochs": 10}})
    return TableSearch(recipe, {"model.dropout": [0.5], "train.clip": [1.0]})


def test_the_space(search: TableSearch) -> None:
    point = search.point(
        optuna.trial.FixedTrial(
            {key: 0.001 if "lr" in key else 32 for key in SPACE}
            | {"model.num_layers": 3, "train.optimiser.weight_decay": 0.1, "model.dropout": 0.5, "train.clip": 1.0}
        )
    )
    recipe = search.recipe_of(point, seeds=2)
    assert (recipe.train.optimiser.name, recipe.train.optimiser.lr, recipe.train.optimiser.weight_decay) == ("adamw", 0.001, 0.1)
    assert (recipe.model.num_layers, recipe.model.options["dropout"], recipe.train.clip, recipe.seeds) == (3, 0.5, 1.0, [0, 1])


def test_a_trial_that_falls_behind_stops(search: TableSearch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four good trials, then one that is worse from the first epoch on: it stops once the pruner has warmed up."""
    epochs: list[int] = []

    def train(recipe: Any, folder: Path, *, fabric: Any, callback: Any) -> dict[str, Any]:
        number = int(folder.name.removeprefix("trial-"))
        epochs.append(0)
        for epoch in range(10):
            epochs[-1] += 1
            callback.epoch({"epoch": epoch, "val_rmse": 9.0 if number == 4 else 1.0}, 10, False)
        return {"val": {"mean": 1.0 + number}}

    monkeypatch.setattr(tune, "train", train)
    study = tune.tune_table(search, tmp_path, study_name="s", trials=5)
    assert epochs == [10, 10, 10, 10, 3]
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 4 + ["PRUNED"]
    assert study.best_trial.number == 0


def test_a_trial_that_was_interrupted_does_not_count(search: TableSearch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    def train(recipe: Any, folder: Path, *, fabric: Any, callback: Any) -> dict[str, Any]:
        started.append(folder.name)
        if len(started) == 2:
            raise KeyboardInterrupt
        return {"val": {"mean": 1.0}}

    monkeypatch.setattr(tune, "train", train)
    options: dict[str, Any] = {"study_name": "s", "storage": f"sqlite:///{tmp_path / 's.db'}", "trials": 3}
    with pytest.raises(KeyboardInterrupt):
        tune.tune_table(search, tmp_path, **options)
    study = tune.tune_table(search, tmp_path, **options)
    assert started == [f"trial-{number}" for number in range(4)]
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "FAIL", "COMPLETE", "COMPLETE"]
    assert len({trial.params["train.optimiser.lr"] for trial in study.trials}) == 4  # a search that continues draws other points


def test_the_folder_of_the_best_run(search: TableSearch, tmp_path: Path) -> None:
    first, second = (search.recipe_of({"train.clip": clip}, seeds=1) for clip in (1.0, 2.0))
    assert best_folder(tmp_path, first) == tmp_path / "best"
    first.save(tmp_path / "best" / "recipe.yaml")
    assert best_folder(tmp_path, search.recipe_of({"train.clip": 1.0}, seeds=3)) == tmp_path / "best"  # seeds may be added
    assert best_folder(tmp_path, second) == tmp_path / "best-2"
