"""Settings that validation chooses from a grid, the trivial predictor, and runs that another table has made already."""

import json
from pathlib import Path
from typing import Any

import pytest

import tiny
from reign.experiments import choose as choosing
from reign.experiments import find_table, reproduce
from reign.experiments.choose import Choice, Grid, choose, points_of, settings_at
from reign.experiments.paper import find_recipe
from reign.experiments.records import read_records, record_table
from reign.experiments.reproduce import predict_mean
from reign.train import Recipe, train
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import make_fabric
from reign.train.runs import build
from reign.train.runs.results import MemberResult, Spread, Summary

SMALL: dict[str, Any] = {"data": {"options": {"num_graphs": 40}}, "train": {"epochs": 1}}


class Notes(Callback):
    """Keeps all messages."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def trained(asked: list[tuple[Recipe, Path]]) -> Any:
    """A stand-in for the training of some recipes: validation is best with 4 channels, the test with 2."""

    def train_all(plans: list[tuple[Recipe, Path]], **options: Any) -> list[Summary]:
        asked.extend(plans)
        return [
            summary(abs(recipe.model.hidden_channels - 4.0), float(recipe.model.hidden_channels), recipe.seeds)
            for recipe, _ in plans
        ]

    return train_all


def summary(val: float, test: float, seeds: list[int]) -> Summary:
    spread = {name: Spread.over([value] * len(seeds)) for name, value in (("train", 0.0), ("val", val), ("test", test))}
    member = MemberResult(folder="-", seed=0)
    return Summary.model_validate(
        {
            "metric": "mae",
            "report": "best",
            "parameters": 1,
            "seconds": 0.0,
            "members": [member],
            **spread,
            "best_train": spread["train"],
        }
    )


def grid(folder: Path, max_weights: int | None = None, widths: tuple[int, ...] = (2, 4, 8)) -> Grid:
    points = points_of({"model.hidden_channels": list(widths)})
    recipes = [find_recipe("counting/gin/star", {**SMALL, "seeds": [0, 1]}, settings_at(point))[0] for point in points]
    return Grid("gin/star", folder, points, recipes, max_weights)


def test_validation_chooses_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the test, which prefers 2 channels. A search that is done is read, and that of another grid is refused."""
    asked: list[tuple[Recipe, Path]] = []
    monkeypatch.setattr(choosing, "train_all", trained(asked))
    notes = Notes()
    (choice,) = choose([grid(tmp_path)], callback=notes)
    assert choice.settings == {"model": {"hidden_channels": 4}}
    assert [(point.settings["model.hidden_channels"], point.validation) for point in choice.points] == [
        (2, [2.0, 2.0]),
        (4, [0.0, 0.0]),
        (8, [4.0, 4.0]),
    ]
    assert [folder.name for _, folder in asked] == ["point-0", "point-1", "point-2"]
    assert notes.texts == ["gin/star: validation chooses hidden_channels 4 (0)."]
    assert choose([grid(tmp_path)]) == [choice] == [Choice.read(tmp_path / "choice.json")]
    assert len(asked) == 3
    with pytest.raises(ValueError, match="holds the search of another grid, or with other settings; choose a new folder with -o"):
        choose([grid(tmp_path, widths=(2, 4))])
    other = find_recipe("counting/gin/star", {**SMALL, "seeds": [0]}, {"model": {"hidden_channels": 2}, "train": {"epochs": 2}})[0]
    other.save(tmp_path / "point-0" / "recipe.yaml")
    with pytest.raises(ValueError, match="or with other settings"):
        choose([grid(tmp_path)])
    (tmp_path / "choice.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a valid choice; delete it to search again: metric: field required"):
        choose([grid(tmp_path)])


def test_points_with_too_many_weights_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are named once, with their weights, and are not trained."""
    asked: list[tuple[Recipe, Path]] = []
    monkeypatch.setattr(choosing, "train_all", trained(asked))
    whole = choose([grid(tmp_path / "whole")])[0]
    two, four, eight = (point.parameters for point in whole.points)
    assert two < four < eight
    notes, before = Notes(), len(asked)
    (choice,) = choose([grid(tmp_path / "some", two)], callback=notes)  # exactly as many weights are allowed
    said = f"gin/star: 2 of 3 points have more than {two:,} weights: hidden_channels 4 ({four:,}); hidden_channels 8 ({eight:,})."
    assert notes.texts[0] == f"{said} They are left out."
    assert [point.validation for point in choice.points] == [[2.0, 2.0], [], []]
    assert len(asked) - before == 1
    assert (choice.settings, choice.max_weights) == ({"model": {"hidden_channels": 2}}, two)
    with pytest.raises(ValueError, match="3 of 3 points have more than 5 weights: .* or a larger bound: max_weights"):
        choose([grid(tmp_path / "none", 5)])


def test_larger_metrics_and_values_that_are_not_numbers() -> None:
    def choice(metric: str, *values: list[float]) -> dict[str, Any]:
        points = [{"settings": {"a": n}, "parameters": 1, "validation": each} for n, each in enumerate(values)]
        return Choice.model_validate({"metric": metric, "points": points}).settings

    assert choice("accuracy", [0.5, 0.5], [0.25, 0.875], []) == {"a": 1}
    assert choice("mae", [0.5], [0.25], [0.25]) == {"a": 1}
    assert choice("mae", [float("nan")], [3.0]) == {"a": 1}  # a model that has diverged


def test_a_table_with_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell has its own choice, with the seeds of the search; then it is trained with those of the table, also later."""
    asked: list[tuple[Recipe, Path]] = []
    for module in (choosing, reproduce):
        monkeypatch.setattr(module, "train_all", trained(asked))
    table = find_table("counting")
    table = table.model_copy(
        update={"rows": {**table.rows, "gin": table.rows["gin"].model_copy(update={"grid": {"model.hidden_channels": [4, 8]}})}}
    )
    rows: dict[str, Any] = {"rows": ["gin", "gnn-ak-2x3"], "columns": ["star", "triangle"]}
    found = reproduce.reproduce(table, tmp_path, SMALL, search_seeds=1, **rows)
    points = [(folder.relative_to(tmp_path).as_posix(), recipe.seeds) for recipe, folder in asked]
    assert points[:4] == [(f"search/gin/{column}/point-{n}", [0]) for column in ("star", "triangle") for n in (0, 1)]
    assert points[4:] == [(f"{row}/{column}", [0, 1, 2]) for row in rows["rows"] for column in rows["columns"]]
    assert [recipe.model.hidden_channels for recipe, _ in asked[4:6]] == [4, 4]
    assert [cell.ours for cell in found[:2]] == [4.0, 4.0]
    asked.clear()
    reproduce.reproduce(table, tmp_path, SMALL, **rows)
    assert [recipe.model.hidden_channels for recipe, _ in asked[:2]] == [4, 4]
    assert len(asked) == 4


def test_curves_are_searched_once_with_all_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Recipe, Path]] = []
    for module in (choosing, reproduce):
        monkeypatch.setattr(module, "train_all", trained(asked))
    monkeypatch.setattr(build, "load_problem", tiny.like)
    table = find_table("generalisation-4-cycle")
    reproduce.reproduce(table, tmp_path, rows=["gnn-ak-ego"], columns=["50", "950"], search_seeds=1)
    assert [folder.relative_to(tmp_path).as_posix() for _, folder in asked[:4]] == [
        f"search/gnn-ak-ego/all/point-{n}" for n in range(4)
    ]
    assert [(recipe.data.num_train, recipe.model.num_layers, recipe.model.options["inner_layers"]) for recipe, _ in asked] == [
        *((None, blocks, 6 // blocks) for blocks in (6, 3, 2, 1)),
        (50, 6, 1),
        (950, 6, 1),
    ]


def test_the_trivial_predictor(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: the mean of the training targets, in L1."""
    problem = tiny.like("counting")
    monkeypatch.setattr(build, "load_problem", tiny.like)
    table = find_table("four-cycle")
    y = problem.y[:, problem.targets.index("4-cycle")]
    mean = y[problem.splits["train"]].mean()
    found = predict_mean(table.recipe("trivial", "test"))
    for split, ids in problem.splits.items():
        assert found.splits[split].values == [pytest.approx(float((y[ids] - mean).abs().mean()))]
    assert found.best_train.values == found.train.values
    with pytest.raises(ValueError, match="molhiv is a task of classification, but a mean of targets is for regression"):
        predict_mean(find_recipe("molhiv/gin")[0])


def test_runs_of_another_table_are_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished run of counting with the same settings; without one, or with other settings, the table trains its own. The trivial predictor has
    a record, too."""
    fabric = make_fabric("32-true", "cpu")
    table = find_table("four-cycle")
    changes: dict[str, Any] = {**SMALL, "model": {"hidden_channels": 4, "num_layers": 1}, "seeds": [0]}
    runs, counting = tmp_path / "four-cycle", tmp_path / "counting" / "gin" / "4-cycle"
    train(find_recipe("counting/gin/4-cycle", {**changes, "seeds": [0, 1]})[0], counting, fabric=fabric)
    stamp = (counting / "summary.json").stat().st_mtime_ns
    cells = reproduce.reproduce(table, runs, changes, rows=["gin"], fabric=fabric)
    assert not runs.exists()
    assert (counting / "summary.json").stat().st_mtime_ns == stamp
    seen = json.loads((counting / "summary.json").read_text())
    assert [cell.ours for cell in cells] == [seen[split]["mean"] for split in ("best_train", "train", "val", "test")]
    reproduce.reproduce(table, runs, {**changes, "train": {"epochs": 2}}, rows=["gin"], fabric=fabric)
    assert [path.name for path in runs.glob("*/*")] == ["best_train"]
    monkeypatch.setattr(build, "load_problem", tiny.like)
    record_table(runs, "four-cycle", table, tmp_path / "results")
    assert [(record.row, len(record.results)) for record in read_records(tmp_path / "results")] == [("gin", 1), ("trivial", 1)]
    file = tmp_path / "results" / "four-cycle" / "trivial--best_train.json"
    known = json.loads(file.read_text())
    known["results"][0]["date"] = "2022-05-19"
    file.write_text(json.dumps(known))
    assert file in record_table(runs, "four-cycle", table, tmp_path / "results", "abc")
    assert json.loads(file.read_text()) == known  # it has no run, and its numbers are the same
    test, known["results"][0]["last"]["test"] = known["results"][0]["last"]["test"], 100.0
    file.write_text(json.dumps(known))
    record_table(runs, "four-cycle", table, tmp_path / "results", "abc")
    (again,) = json.loads(file.read_text())["results"]
    assert (again["last"]["test"], again["commit"], again["date"] > "2022-05-19") == (test, "abc", True)
