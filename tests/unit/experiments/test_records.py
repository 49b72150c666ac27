"""Results that are kept with the code: what is read from runs, how far the plan is, and the tables made of it."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tiny
from reign.cli import app
from reign.experiments import find_table, list_tables
from reign.experiments.choose import Choice, Tried, points_of
from reign.experiments.pages import (
    BEGIN,
    END,
    HEADER,
    SUMMARY,
    Part,
    best_markdown,
    plan,
    progress,
    results_markdown,
    summary_markdown,
    with_summary,
)
from reign.experiments.paper import find_recipe
from reign.experiments.records import Record, Result, read_records, record_table, with_used_again
from reign.train import Recipe, train
from reign.train.engine.execution import make_fabric
from reign.train.runs import build


def result(seed: int, last: float, best: float, seconds: float = 60.0) -> Result:
    return Result(
        seed=seed, epochs=400, best_epoch=300, parameters=5, seconds=seconds, best={"test": best}, last={"test": last}, date="2026-01-01",
        device="CPU", versions={"torch": "2"},
    )  # fmt: skip


RECIPE: dict[str, Any] = {"data": {"name": "zinc"}, "model": {"name": "sun"}, "train": {"epochs": 400}}


def record(row: str = "sun-ego", *results: Result) -> Record:
    return Record(table="zinc", row=row, column="test", metric="mae", report="last", recipe=RECIPE, results=list(results))


def test_records_of_runs(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "seeds": [0, 1],
        "data": {"limit": 5},
        "model": {"hidden_channels": 4, "num_layers": 1},
        "train": {"epochs": 1},
    }
    recipe, _ = find_recipe("counting/gin/star", changes)
    run = tmp_path / "runs" / "gin" / "star"
    train(recipe, run, fabric=make_fabric("32-true", "cpu"))
    (file,) = record_table(tmp_path / "runs", "counting", find_table("counting"), tmp_path / "results", "abc")
    assert file == tmp_path / "results" / "counting" / "gin--star.json"
    found = Record.read(file)
    summary = json.loads((run / "summary.json").read_text())
    assert found.values("last", "test") == [member["last"]["test"] for member in summary["members"]]
    assert [r.seed for r in found.results] == [0, 1]
    assert {r.commit for r in found.results} == {"abc"}
    about = run / "environment.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"commit": "def"}))  # as a run in a checkout notes it
    record_table(tmp_path / "runs", "counting", find_table("counting"), tmp_path / "results")
    assert {r.commit for r in read_records(tmp_path / "results")[0].results} == {"def"}
    assert "seeds" not in found.recipe
    assert found.values("last", "best_train") == [member["best_train_loss"] for member in summary["members"]]
    assert found.choice is None
    place, width = tmp_path / "runs" / "search" / "gin" / "star" / "choice.json", {"model.hidden_channels": 4}
    for settings, kept in (
        ({"model.hidden_channels": 8}, False),
        (width, True),
    ):  # a run that is older than the search has not its settings
        point = Tried(settings=settings, parameters=5, validation=[1.0])
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(Choice(metric="mae", points=[point]).model_dump_json())
        record_table(tmp_path / "runs", "counting", find_table("counting"), tmp_path / "results")
        (again,) = read_records(tmp_path / "results")
        assert (again.choice is not None) == kept


@pytest.mark.parametrize("report", ["best", "last"])
def test_folds_share_the_reported_epoch(report: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a fold is that of the epoch with the best mean over folds, and not that of its own best epoch."""
    changes: dict[str, Any] = {
        "folds": 2,
        "seeds": [0, 1],
        "model": {"hidden_channels": 4, "num_layers": 1},
        "train": {"epochs": 3, "report": report},
    }
    monkeypatch.setattr(build, "load_problem", lambda name, progress, **options: tiny.like(name, **options))
    recipe, _ = find_recipe("tu/gin/MUTAG", changes)
    train(recipe, tmp_path, fabric=make_fabric("32-true", "cpu"))
    summary = json.loads((tmp_path / "summary.json").read_text())
    for member in summary["members"]:
        member[report], member["best_epoch"] = {"val": 9.0}, 99  # those of the fold alone
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    found = Record.of(tmp_path, "tu", "gin", "MUTAG")
    expected = [value for seed in summary["val"]["seeds"] for value in seed["values"]]
    assert found.values(report, "val") == expected
    assert [(r.seed, r.fold) for r in found.results] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    shared = [seed["epoch"] for seed in summary["val"]["seeds"] for _ in range(2)]
    assert [r.best_epoch for r in found.results] == (shared if report == "best" else [99] * 4)
    mean, deviation = 100 * statistics.mean(expected), 100 * statistics.stdev(expected)
    monkeypatch.setitem(SUMMARY, "tu", ("gin",))
    assert f"| GIN | {mean:.4g} ± {deviation:.2g} (89.4 ± 5.6) | 2 |" in summary_markdown([found])
    assert f"**{mean:.4g} ± {deviation:.2g}**" in results_markdown([found])


def test_other_seeds_are_added_and_other_recipes_refused(tmp_path: Path) -> None:
    record("sun-ego", result(0, 1.0, 2.0), result(1, 1.0, 2.0)).write(tmp_path)
    record("sun-ego", result(1, 3.0, 4.0), result(2, 5.0, 6.0)).write(tmp_path)
    later = {**RECIPE, "train": {"epochs": 400, "clip": 0.0}}  # as written by a version with one more setting
    record("sun-ego", result(3, 7.0, 8.0)).model_copy(update={"recipe": later}).write(tmp_path)
    (found,) = read_records(tmp_path)
    assert found.values("last", "test") == [1.0, 3.0, 5.0, 7.0]
    with pytest.raises(ValueError, match="holds results of another recipe"):
        record("sun-ego").model_copy(update={"recipe": {**RECIPE, "train": {"epochs": 300}}}).write(tmp_path)
    with pytest.raises(ValueError, match="holds no finished run"):
        Record.of(tmp_path, "zinc", "gin", "test")
    (tmp_path / "zinc" / "bad.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a valid record of results"):
        read_records(tmp_path)


def test_the_table_beside_the_paper() -> None:
    text = results_markdown([record("sun-ego", result(0, 0.080, 0.1), result(1, 0.089, 0.1))])
    assert "| SUN (EGO) | 0.083 ± 0.003 | **0.0845 ± 0.0064** | +0.5 std | 0.0845 ± 0.0064 | 0.1 ± 0 | 2 | 1.0 |" in text


def test_the_summary_has_the_shape_of_the_paper() -> None:
    """One line for each row of the choice, one column for each task; other rows are left out, and what is missing is named."""
    star = record("gin", result(0, 9.0, 0.02)).model_copy(update={"table": "counting", "column": "star", "report": "best"})
    cycle = record("gin", result(0, 9.0, 0.2), result(1, 9.0, 0.3)).model_copy(
        update={"table": "counting", "column": "4-cycle", "report": "best"}
    )
    others = [
        record("sun-ego", result(0, 0.080, 0.1)),
        record("gin-plain", result(0, 0.2, 0.2)),
        record("id-gnn", result(0, 0.2, 0.2)),  # planned, but not in the choice
        star.model_copy(update={"row": "gcn"}),
    ]
    tables, _, missing = summary_markdown([star, cycle, *others]).partition("\nStill missing: ")
    assert tables == (
        "### ZINC-12k: test MAE\n\n| ours (paper) | test | seeds | device |\n|---|---|---|---|\n| SUN (EGO) | 0.08 (0.083 ± 0.003) | 1 | CPU |\n\n"
        "### Counting substructures: test MAE\n\n| ours (paper) | star | 4-cycle | seeds | device |\n|---|---|---|---|---|\n"
        "| GCN | 0.02 (0.1798) |  | 1 | CPU |\n| GIN | 0.02 (0.0224) | 0.25 ± 0.071 (0.2185) | 1 to 2 | CPU |\n"
    )
    every = progress([star, cycle, *others])
    assert f"of the {sum(p.total for p in every):,} models of the plan, {sum(p.done for p in every)} are trained" in " ".join(
        missing.split()
    )
    begun, not_begun = " ".join(missing.split()).split("In part: ")[1].split(" Not begun: ")
    assert "Counting substructures" in begun
    assert "ogbg-molhiv" in not_begun
    assert all(len(line) <= 120 for line in missing.splitlines())


def test_the_choice_exists_and_is_planned() -> None:
    planned = {(part.table, row) for part in plan() for row, _ in part.runs()}
    assert {(table, row) for table, rows in SUMMARY.items() for row in rows} <= planned


def test_every_part_of_the_plan_exists() -> None:
    parts = plan()
    assert [len(list(part.runs())) for part in parts][:3] == [2, 16, 32]
    assert parts[0].seeds == 10


def test_every_row_with_a_number_of_the_paper_is_planned() -> None:
    planned = {(part.table, *run) for part in plan() for run in part.runs()}
    for name in list_tables():
        table = find_table(name)
        for row, about in table.rows.items():
            missing = {column for column in about.paper if (name, row, table.own_run(column)) not in planned}
            assert not missing, (name, row, missing)


def cycles(best_train: float | None) -> Record:
    """A record of GIN on 4-cycles, made by counting."""
    splits = {"train": 1.0, "val": 2.0, "test": 3.0}
    changes = {"best": splits, "last": splits, "best_train": best_train}
    about = {"table": "counting", "column": "4-cycle", "report": "best"}
    return record("gin", *(result(seed, 0, 0).model_copy(update=changes) for seed in (0, 1, 2))).model_copy(update=about)


def test_runs_of_counting_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Table 7 shows the records of counting. Those without the lowest training loss are not complete."""
    parts = [Part("again", "four-cycle", 3, ["gin"])]
    assert [progress([cycles(best)], parts)[0].done for best in (None, 0.5)] == [0, 3]
    own = cycles(0.25).model_copy(update={"table": "four-cycle", "column": "best_train"})
    assert [r.table for r in with_used_again([cycles(0.5), own])] == ["counting", "four-cycle"]  # its own record comes first
    page = results_markdown([cycles(0.5)])
    for column, theirs, ours in (
        ("best_train", "0.0283 ± 0.0032", "0.5"),
        ("train", "0.1432 ± 0.053", "1"),
        ("val", "0.2148 ± 0.0051", "2"),
    ):
        assert f"| GIN, {column} | {theirs} | **{ours} ± 0** |" in page
    assert "| GIN, best_train |" not in results_markdown([cycles(None)])
    monkeypatch.setitem(SUMMARY, "four-cycle", ("gin",))
    assert (
        "| GIN | 0.5 ± 0 (0.0283 ± 0.0032) | 1 ± 0 (0.1432 ± 0.053) | 2 ± 0 (0.2148 ± 0.0051) | 3 ± 0 (0.2185 ± 0.0061) | 3 |"
        in (summary_markdown([cycles(0.5)]))
    )


def test_choices_by_validation_are_part_of_a_record(tmp_path: Path) -> None:
    """Settings, weights and validation metrics of all points are on the page, and stay when other seeds are added."""
    points = [
        Tried(settings={"model.num_layers": n, "model": {"inner_layers": 6 // n}}, parameters=n, validation=values)
        for n, values in ((6, [0.25]), (3, [0.125]), (1, []))
    ]
    choice = Choice(metric="mae", max_weights=5, points=points)
    assert choice.settings == {"model": {"num_layers": 3, "inner_layers": 2}}
    found = record("ds-ego", result(0, 1.0, 2.0)).model_copy(update={"choice": choice})
    found.write(tmp_path)
    record("ds-ego", result(1, 1.0, 2.0)).write(tmp_path)
    (kept,) = read_records(tmp_path)
    assert (kept.choice, len(kept.results)) == (choice, 2)
    page = results_markdown([kept])
    assert "Chosen by validation among the points of a grid:" in page
    line = "| DS-GNN (EGO) | **num_layers 3, inner_layers 2: 0.125** | num_layers 6, inner_layers 1: 0.25; num_layers 1, inner_layers 6: too many weights | 1 |"
    assert line in page


def test_what_is_missing() -> None:
    parts = [Part("first", "zinc", 3, ["sun-ego", "gin"]), Part("second", "molhiv", 1, ["gin"])]
    first, second = progress([record("sun-ego", result(0, 1, 1, 10.0), result(1, 1, 1, 30.0))], parts)
    assert (first.done, first.total, first.seconds) == (2, 6, 20.0 + 3 * 20.0)
    assert first.missing == {("sun-ego", "test"): 1, ("gin", "test"): 3}
    assert (second.done, second.total, second.seconds, second.device) == (0, 1, None, None)
    shared = result(2, 1, 1, 90.0).model_copy(
        update={"models_at_once": 3.0}
    )  # counts as 30 seconds, and others have no such number
    slow = result(3, 1, 1, 9000.0).model_copy(update={"device": "another"})  # does not count
    first, _ = progress([record("sun-ego", result(0, 1, 1, 10.0), shared), record("dss-ego", slow)], parts)
    assert first.seconds == 20.0 + 3 * 30.0
    elsewhere = [
        record("sun-ego", result(0, 1, 1, 10.0), result(1, 1, 1, 10.0)),
        record("sun-ego+", slow).model_copy(update={"table": "molhiv"}),
    ]
    first, second = progress(elsewhere, parts)  # each table has a usual device of its own
    assert (first.seconds, first.device) == (4 * 10.0, result(0, 1, 1, 1.0).device)
    assert (second.seconds, second.device) == (9000.0, "another")


def test_minutes_are_those_of_one_device() -> None:
    slow = result(2, 1.0, 1.0, 6000.0).model_copy(update={"device": "another"})
    mixed, other = record("sun-ego", result(0, 1.0, 1.0), result(1, 1.0, 1.0), slow), record("gin", slow)
    title, _, first, second = results_markdown([mixed, other]).splitlines()[-4:]
    assert title.endswith(f"| minutes on {result(0, 1.0, 1.0).device} |")
    assert first.endswith("| 3 | 1.0 |")
    assert second.endswith("| 1 | 100.0 on another |")


def test_pages_are_those_of_the_records() -> None:
    """What README.md and results/README.md show is what the records hold; ``reign results --write`` writes it."""
    root = Path(__file__).parents[3]
    records = read_records(root / "results")
    assert (root / "results" / "README.md").read_text() == HEADER + results_markdown(records)
    assert (root / "results" / "records.md").read_text() == best_markdown(records)
    page = (root / "README.md").read_text()
    assert page == with_summary(page, records)
    assert "| SUN (EGO) |" in page


def test_writing_pages(tmp_path: Path) -> None:
    record("sun-ego", result(0, 0.080, 0.1)).write(tmp_path / "results")
    (tmp_path / "README.md").write_text(f"# A\n\n{BEGIN}\nold\n{END}\n\nend\n")
    done = CliRunner().invoke(app, ["results", str(tmp_path / "results"), "--write"])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "README.md").read_text()
    assert "old" not in page
    assert "### ZINC-12k" in page
    assert page.endswith("end\n")
    assert "**0.08**" in (tmp_path / "results" / "README.md").read_text()


def test_the_table_of_records() -> None:
    """In the order of the validation metric, at the best validation epoch; runs on a part of the data are left out."""

    def made(row: str, val: float, test: float, data: dict[str, Any], table: str = "zinc") -> Record:
        scores = {"best": {"val": val, "test": test}, "last": {"val": 9.0, "test": 9.0}, "commit": "abc", "parameters": 1234}
        runs = [result(seed, 0, 0, 90.0).model_copy(update=scores) for seed in (0, 1)]
        return record(row, *runs).model_copy(update={"recipe": {"data": data}, "table": table})

    zinc = {"name": "zinc", "limit": None}
    records = [
        made("sun-ego", 0.3, 0.1, zinc),
        made("local-folklore", 0.2, 0.4, zinc, "beyond"),
        made("gin", 0.1, 0.1, {"name": "zinc", "limit": 5}),
        made("gin", 0.1, 0.1, {"name": "counting"}),
    ]
    lines = best_markdown(records).splitlines()[-2:]
    last = "1,234 | beyond/local-folklore | 400 | 1.5 | CPU | 0.2000 ± 0.0000 | 0.4000 ± 0.0000 | 0, 1 | abc |"
    assert lines[0] == f"| 2026-01-01 | Local 2-FGNN | {last}"
    assert "| zinc/sun-ego |" in lines[1]


def test_records_hold_the_recipes_of_today() -> None:
    """A row whose settings change needs new results, or keeps the old ones under another name. What was chosen for a record is the point of the row's
    grid with the best validation metric."""
    for found in with_used_again(read_records(Path(__file__).parents[3] / "results")):
        table = find_table(found.table)
        choice = {} if found.choice is None else found.choice.settings
        if found.choice is not None:
            assert [point.settings for point in found.choice.points] == points_of(table.grid_of(found.row))
        now = table.recipe(found.row, found.column, choice, {"seeds": [0]})
        then = Recipe.model_validate({"format": 1, **found.recipe, "seeds": [0]})
        if table.rows[found.row].trivial:  # has no model
            assert "model" not in found.recipe
            now = now.model_copy(update={"model": then.model})
        assert then == now, (found.table, found.row, found.column)


def test_results_and_status_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["results"], ["reproduce", "--status"]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 2
        assert "there is no folder results in" in done.output
    (tmp_path / "results").mkdir()
    assert "holds no records" in CliRunner().invoke(app, ["results"]).output
    assert CliRunner().invoke(app, ["results", "--add", "runs/zinc"]).exit_code == 2
    record("sun-ego", result(0, 0.080, 0.1)).write(tmp_path / "results")
    done = CliRunner().invoke(app, ["reproduce", "--status"])
    assert done.exit_code == 0, done.output
    assert "1 of 20" in done.output
    assert "give a table" in CliRunner().invoke(app, ["reproduce"]).output
