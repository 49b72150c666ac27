"""Curves by the number of training graphs: where a run belongs, what a panel holds, and which numbers are drawn."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pictures import structure
from reign.cli import app
from reign.experiments import find_recipe, find_table
from reign.experiments.records import Record, Result
from reign.plots import _record as plots
from reign.plots import curve_tables, draw_generalisation, points_of_records
from reign.plots._generalisation import Point, _place
from reign.plots._report import _table_of
from reign.train.settings.config import Recipe

TABLE = "generalisation-4-cycle"


def recipe(name: str, *changes: dict[str, object]) -> Recipe:
    return find_recipe(name, *changes)[0]


def texts(points: list[Point], every: bool = True) -> tuple[list[str], list[str]]:
    picture, empty = draw_generalisation(find_table(TABLE), points, every)
    assert picture is not None
    return structure(picture.svg)["texts"], empty


def test_the_recipe_says_where_a_run_belongs() -> None:
    assert _place(recipe(f"{TABLE}/sun-ego+/150")) == (TABLE, "sun-ego+", {})
    assert _place(recipe(f"{TABLE}/ngnn-nm/1450")) == (TABLE, "ngnn-nm", {})  # not ds-nm, which has the same class and policy
    assert _place(recipe("generalisation-zinc/gin/3000")) == ("generalisation-zinc", "gin", {})
    changed = recipe(f"{TABLE}/gin/50", {"data": {"num_train": 77}, "train": {"epochs": 1}})
    assert _place(changed) == (TABLE, "gin", {"train.epochs": (250, 1)})
    assert _place(recipe("counting/sun-ego+/4-cycle")) is None  # the whole training set
    assert _place(recipe("counting/sun-ego+/star", {"data": {"num_train": 50}})) is None  # another target
    assert _place(recipe(f"{TABLE}/sun-ego/50", {"model": {"policy": "ego:4"}})) is None


def test_a_panel_for_each_policy() -> None:
    found, empty = texts([])
    titles = [text for text in found if text.startswith("Generalisation")]
    assert sorted(titles) == [f"Generalisation, counting 4-cycles: {policy}" for policy in ("ego+:2", "ego:2")]
    assert empty == ["nm"]  # the paper has no numbers for Figure 7
    assert found.count("SUN, paper") == found.count("GIN, paper") == 2  # GIN has no policy
    assert not any("ours" in text for text in found)
    found, empty = texts([Point("sun-nm", 50, 0.3, 0.0, 1, {})])
    assert [text for text in found if text.startswith("Generalisation")][2].endswith(": nm")
    assert (empty, found.count("SUN, ours")) == ([], 1)


def test_only_rows_with_results_in_reports() -> None:
    found, empty = texts([Point("dss-ego", 50, 0.3, 0.01, 3, {})], every=False)
    assert {text for text in found if text.endswith(("ours", "paper"))} == {"DSS-GNN, ours", "DSS-GNN, paper"}
    assert empty == ["ego+:2", "nm"]
    found, _ = texts([Point("gin", 50, 0.3, 0.01, 3, {})], every=False)
    assert [text for text in found if text.startswith("Generalisation")] == ["Generalisation, counting 4-cycles"]
    assert draw_generalisation(find_table(TABLE), [], every=False)[0] is None


def test_of_two_runs_the_one_that_is_more_like_the_table_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    from reign.plots import _generalisation

    drawn = []
    monkeypatch.setattr(_generalisation, "draw_curves", lambda name, panels, look: drawn.extend(panels))
    points = [Point("sun-ego", 150, 0.2, 0.0, 1, {}), Point("sun-ego", 150, 9.0, 0.0, 9, {"train.epochs": (250, 1)})]
    draw_generalisation(find_table(TABLE), [*points, Point("sun-ego", 50, 0.4, 0.1, 1, {})], every=False)
    ((ours, paper),) = (panel.curves for panel in drawn)
    assert (ours.x, ours.y, ours.low, ours.paper) == ([50, 150], [0.4, 0.2], [pytest.approx(0.3), 0.2], False)
    assert (paper.x[:2], paper.y[:2], paper.paper, paper.like == ours.like) == ([50, 150], [0.2808, 0.22565], True, True)


def test_the_table_of_a_folder_is_that_of_the_recipes_of_its_runs(tmp_path: Path) -> None:
    """reign reproduce writes table.csv; the name of the folder counts only if settings were changed."""
    runs = {}
    for name in ("zinc/gin/test", "zinc/dss-ego/test"):
        plan = recipe(name, {"train": {"epochs": 1}})
        folder = tmp_path / "any" / name
        folder.mkdir(parents=True)
        plan.save(folder / "recipe.yaml")
        runs[name] = plots.FinishedRun(folder)
    assert _table_of(tmp_path / "any", runs, {}) is None
    (tmp_path / "any" / "table.csv").touch()
    assert _table_of(tmp_path / "any", runs, {}) == find_table("zinc")
    recipe("counting/gin/triangle").save(folder / "recipe.yaml")
    runs[name] = plots.FinishedRun(folder)
    assert _table_of(tmp_path / "any", runs, {}) is None
    (tmp_path / "any" / "gin").mkdir()
    (tmp_path / "any").rename(tmp_path / "zinc-quick")
    assert _table_of(tmp_path / "zinc-quick", runs, {}) == find_table("zinc")
    points = {TABLE: [Point("gin", 50, 0.3, 0.0, 1, {})] * 2}
    assert _table_of(tmp_path / "zinc-quick", runs, points) == find_table(TABLE)


def test_records(tmp_path: Path) -> None:
    scores = {"train": 0.1, "val": 0.2, "test": 0.3}
    made = Result(
        seed=0,
        epochs=250,
        best_epoch=9,
        parameters=1,
        seconds=1.0,
        best=scores,
        last={"test": 9.0},
        date="",
        device="CPU",
        versions={},
    )
    plan = recipe(f"{TABLE}/sun-ego/150").model_dump(mode="json", exclude={"seeds"})
    about = {"row": "sun-ego", "column": "150", "metric": "mae", "report": "best", "recipe": plan}
    other = made.model_copy(update={"seed": 1, "best": {"test": 0.5}})
    record = Record(table=TABLE, results=[made, other], **about)
    (point,) = points_of_records([record, Record(table="zinc", results=[made], **about)], TABLE)
    assert (point.row, point.size, point.mean, point.models) == ("sun-ego", 150, 0.4, 2)
    assert point.deviation == pytest.approx(0.1 * 2**0.5)
    assert json.loads(record.write(tmp_path / "results").read_text())["recipe"]["data"]["num_train"] == 150
    assert list(curve_tables()) == [TABLE, "generalisation-zinc"]
    command = ["show", "curves", "--results", str(tmp_path / "results"), "-o", str(tmp_path / "a.svg")]
    assert CliRunner().invoke(app, [*command, TABLE]).exit_code == 0
    assert (tmp_path / "a.svg").read_text().count("SUN, ours") == 1
    done = CliRunner().invoke(app, [*command, "generalisation-zinc"])
    assert "has no records of generalisation-zinc." in done.output.replace("\n", "")
    assert "ours" not in (tmp_path / "a.svg").read_text()
