"""Ours beside the paper's, and the points of a grid: by hand."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from reign.experiments import tune
from reign.experiments.paper import Column, PaperTable, Quick, Row
from reign.experiments.reproduce import Cell, cell_of
from reign.experiments.tune import Search, best_first, best_point
from reign.train.runs.results import Spread, Summary
from reign.train.settings.config import Recipe
from reign.train.settings.yaml import choices


@pytest.mark.parametrize(
    ("ours", "deviation", "paper", "paper_deviation", "expected"),
    [
        (0.09, 0.01, 0.08, 0.005, 2.0),  # in units of the paper's deviation
        (0.07, 0.01, 0.08, None, -1.0),  # or of ours, where the paper gives none
        (0.07, None, 0.08, None, None),
        (0.07, 0.01, None, None, None),
    ],
)
def test_differences(
    ours: float, deviation: float | None, paper: float | None, paper_deviation: float | None, expected: float | None
) -> None:
    found = Cell("row", "column", ours, deviation, 3, paper, paper_deviation).difference
    assert found == (None if expected is None else pytest.approx(expected))


def test_a_cell_in_the_unit_of_the_paper() -> None:
    table = PaperTable(
        title="t",
        unit="percent",
        factor=100.0,
        settings={},
        columns={"test": Column(), "val": Column(value="val")},
        rows={"sun": Row(title="SUN", paper={"test": (80.0, 2.0)})},
    )
    summary = Summary.model_construct(
        test=Spread(mean=0.83, std=0.01, values=[0.82, 0.84]), val=Spread(mean=0.5, std=None, values=[0.5])
    )
    assert cell_of(table, "sun", "test", summary) == Cell("sun", "test", 83.0, 1.0, 2, 80.0, 2.0)
    assert cell_of(table, "sun", "val", summary) == Cell("sun", "val", 50.0, None, 1, None, None)


@pytest.mark.parametrize(("direction", "expected"), [("MINIMIZE", [2, 0, 3]), ("MAXIMIZE", [3, 0, 2])])
def test_the_best_point_comes_first(direction: str, expected: list[int]) -> None:
    values = [0.5, None, 0.1, 0.9]  # the second was not finished
    trials = [
        SimpleNamespace(number=number, value=value, state=SimpleNamespace(name="RUNNING" if value is None else "COMPLETE"))
        for number, value in enumerate(values)
    ]
    study = SimpleNamespace(direction=SimpleNamespace(name=direction), trials=trials)
    assert [trial.number for trial in best_first(study)] == expected


def test_all_points_of_a_grid() -> None:
    search = Search.of("zinc/gin", {"model.hidden_channels": [4, 8], "train.optimiser.lr": [0.1, 0.2, 0.3]})
    grid = {key: values for key, values in search.grid.items() if key in ("model.hidden_channels", "train.optimiser.lr")}
    assert grid == {"model.hidden_channels": [4, 8], "train.optimiser.lr": [0.1, 0.2, 0.3]}
    found = {(recipe.model.hidden_channels, recipe.train.optimiser.lr) for recipe in search.recipes()}
    assert found == {(width, lr) for width in (4, 8) for lr in (0.1, 0.2, 0.3)}


def test_lists_in_a_grid() -> None:
    """Commas inside of brackets and quotes belong to a value; several settings at once are a point, too."""
    assert choices("model.terms=[own, own+local],[own],[[a], b]") == ("model.terms", [["own", "own+local"], ["own"], [["a"], "b"]])
    assert choices("model={num_layers: 1, inner_layers: 6},{}") == ("model", [{"num_layers": 1, "inner_layers": 6}, {}])
    assert choices("a='x,y',\"z,\",1e-3") == ("a", ["x,y", "z,", 0.001])
    with pytest.raises(ValueError, match=r"'\[own' cannot be read as a YAML value"):
        choices("model.terms=[own")


def test_the_seeds_of_a_search() -> None:
    """Points have those of the search, and the best one those of its table. The bound is that of the table, or of the user."""
    search = Search.of("ablation/shared", {}, seeds=1)
    point = {"model.hidden_channels": 96}
    assert (search.recipe(point).seeds, search.recipe(point, whole=True).seeds) == ([0], list(range(10)))
    assert search.recipe(point).model.hidden_channels == 96
    assert search.max_weights == 500_000
    assert Search.of("ablation/shared", {}, max_weights=5).max_weights == 5
    study = SimpleNamespace(
        direction=SimpleNamespace(name="MINIMIZE"),
        trials=[
            SimpleNamespace(value=value, state=SimpleNamespace(name="COMPLETE"), params={"model.terms": repr(terms)})
            for value, terms in ((0.5, ["own"]), (0.25, ["own", "own+local"]))
        ],
    )
    lists = Search.of("ablation/shared", {"model.terms": [["own"], ["own", "own+local"]]})
    lists = replace(lists, grid={"model.terms": lists.grid["model.terms"]}, max_weights=None)
    assert best_point(lists, study) == {"model.terms": ["own", "own+local"]}
    study.trials.clear()
    with pytest.raises(ValueError, match="ablation/shared/EGO has no finished point; use more --trials"):
        best_point(lists, study)


def test_a_bound_on_weights_that_is_lowered_in_a_saved_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished points over the new bound count no longer: the open point below it is trained, and none of them is the best one. The models and
    results are made up."""
    trained = []

    def result(recipe: Recipe) -> Summary:
        trained.append((recipe.model.hidden_channels, recipe.train.optimiser.lr))
        val = recipe.train.optimiser.lr / recipe.model.hidden_channels  # larger models are better
        return Summary.model_construct(val=Spread(mean=val, std=None, values=[val]))

    monkeypatch.setattr(tune, "weights_of", lambda recipe, *_: 100 if recipe.model.hidden_channels == 128 else 10)
    monkeypatch.setattr(tune, "train_all", lambda plans, **_: [result(recipe) for recipe, _ in plans])
    monkeypatch.setattr(Summary, "splits", property(lambda self: {"val": self.val}))
    grid = {"model.hidden_channels": [4, 128], "train.optimiser.lr": [0.1, 0.2]}
    search = replace(Search.of("zinc/gin", grid), grid=grid, max_weights=None)
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    tune.tune(search, tmp_path, storage=storage, trials=3)
    first, tight = set(trained), replace(search, max_weights=50)
    assert len(first) == 3
    study = tune.tune(tight, tmp_path, storage=storage)
    assert set(trained[3:]) == {(4, 0.1), (4, 0.2)} - first
    assert len(set(trained[3:])) == 1
    assert best_point(search, study)["model.hidden_channels"] == 128
    assert best_point(tight, study) == {"model.hidden_channels": 4, "train.optimiser.lr": 0.1}
    assert [row[1:3] for row in tune.study_table(study, tight).rows] == [["4", "0.1"], ["4", "0.2"]]


def test_whose_settings_count() -> None:
    """Those of a table, then of its column, then of its row, then of the quick look."""
    table = PaperTable(
        title="t",
        unit="",
        seeds=2,
        settings={"a": 1, "b": 1, "c": 1, "d": 1},
        columns={"test": Column(settings={"b": 2, "c": 2, "d": 2})},
        rows={"sun": Row(title="SUN", settings={"c": 3, "d": 3})},
        quick=Quick(settings={"d": 4}),
    )
    assert table.settings_of("sun", "test") == {"seeds": [0, 1], "a": 1, "b": 2, "c": 3, "d": 3}
    assert table.settings_of("sun", "test", quick=True) == {"seeds": [0, 1], "a": 1, "b": 2, "c": 3, "d": 4}
