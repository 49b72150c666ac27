"""Reports and explanations as a user gets them, opened in a browser where there is one."""

import json
import re
import shutil
import subprocess
import sys
import time
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import reign
from commands import fails, works
from pictures import browser, look_at
from reign import plots
from reign.cli import progress
from reign.data import Problem
from reign.disk import read_json
from reign.plots import _graphs

SMALL = ["--set", "model.hidden_channels=8", "--set", "model.num_layers=1", "-b", "16", "--epochs", "2", "-q", "--report"]
MOLECULES = ["C" * n + end for end in ("", "O", "N") for n in range(1, 11)] + ["c1ccccc1" + "C" * n for n in range(10)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each task, each with its report."""
    folder = tmp_path_factory.mktemp("runs")
    frame = pd.DataFrame({"smiles": MOLECULES, "size": [len(s) / 3 for s in MOLECULES]})
    frame["<b>ring</b>"] = [int("1" in s) for s in MOLECULES]  # what a stranger may call a column
    frame["long"] = [int(len(s) > 6) for s in MOLECULES]
    frame["kind"] = ["ring" if "1" in s else "oxygen" if "O" in s else "$other" for s in MOLECULES]
    frame.to_csv(folder / "mols.csv", index=False)
    start = ["train", "-i", str(folder / "mols.csv")]
    done = works(*start, "--target-columns", "size", "-o", str(folder / "size"), "--ensemble-size", "2", *SMALL)
    assert done.stdout.splitlines()[-1] == f"The report is in {folder / 'size' / 'report.html'}.", done.stderr  # the last line
    works(
        *start,
        "--target-columns",
        "<b>ring</b>",
        "--target-columns",
        "long",
        "-t",
        "classification",
        "-o",
        str(folder / "ring"),
        *SMALL,
    )
    works(
        *start,
        "--target-columns",
        "kind",
        "-t",
        "multiclass",
        "-o",
        str(folder / "kind"),
        "--set",
        "folds=2",
        *SMALL,
        "--set",
        "train.epochs=1",
    )
    return folder


def test_reports_of_every_task(runs: Path) -> None:
    for name, figures in (
        ("size", ["curves", "parity", "uncertainty", "errors"]),
        ("ring", ["curves", "roc", "errors"]),
        ("kind", ["curves", "classes", "errors"]),
    ):
        text = (runs / name / "report.html").read_text()
        assert [figure for figure in figures if f'<figure id="{figure}">' not in text] == []
        files = sorted(file.name for file in (runs / name / "figures").iterdir())
        assert files == sorted(f"{figure}.{ending}" for figure in figures for ending in ("png", "svg"))
        assert "<b>ring" not in text
        assert "hidden_channels: 8" in text
        assert "peak memory of the process" in text
    assert "&lt;b&gt;ring&lt;/b&gt;" in (runs / "ring" / "report.html").read_text()


def test_reports_have_the_sizes_of_splits(runs: Path) -> None:
    text = (runs / "size" / "report.html").read_text()
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row)[:2] for row in re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)]
    sizes = read_json(runs / "size" / "seed-0" / "splits.json")
    assert [cell for cell in cells if cell and cell[0] in sizes] == [[split, str(len(ids))] for split, ids in sizes.items()]


def test_an_explanation_warns_as_predictions_do(runs: Path, tmp_path: Path) -> None:
    done = works("explain", str(runs / "size"), "--smiles", "CCO", "--smiles", "C[SiH3]", "-o", str(tmp_path / "why.html"))
    warning = reign.load(runs / "size").predict(["C[SiH3]"])["warning"][0]
    assert "no training molecule has" in warning
    assert (done.stderr.count("Warning"), f"Warning: C[SiH3]: {warning}." in done.stderr) == (1, True)
    assert f"Warning: {escape(warning)}." in (tmp_path / "why.html").read_text()


def test_pages_in_a_browser(runs: Path, tmp_path: Path) -> None:
    works("explain", str(runs / "size"), "--smiles", "CCO", "--smiles", "c1ccccc1CC", "--smiles", "xx", "-o", str(tmp_path / "why.html"),
          "--csv", str(tmp_path / "why.csv"))  # fmt: skip
    works("report", str(runs / "size"), str(runs / "ring"), "-o", str(tmp_path / "both.html"))
    table = pd.read_csv(tmp_path / "why.csv")
    assert list(table.columns) == ["smiles", "target", "prediction", "atom", "symbol", "score", "without_its_subgraph"]
    assert table["symbol"].tolist()[:3] == ["C0", "C1", "O2"]
    assert len(table) == 3 + 8
    pages = {name: runs / name / "report.html" for name in ("size", "ring", "kind")}
    found, errors = look_at({**pages, "why": tmp_path / "why.html", "both": tmp_path / "both.html"}, tmp_path)
    assert errors == []
    for name, page in found.items():
        assert page["loaded"] == [], name  # nothing from outside, and no file either
        assert page["drawn"], name
        assert page["wide"] <= 0, name
        assert all(rows > 1 for rows in page["tables"][:1]), name
    assert found["size"]["figures"] == ["curves", "parity", "uncertainty", "errors"]
    assert found["size"]["title"] == "sun on mols.csv"
    assert found["size"]["headings"] == [
        "Results",
        "Table",
        "Predictions (test, 4 graphs)",
        "Largest errors",
        "Recipe and environment",
        "Time and memory",
    ]
    assert found["why"]["headings"] == ["CCO", "c1ccccc1CC"]
    assert found["why"]["figures"] == ["molecule-0", "matrix-0", "molecule-1", "matrix-1"]
    assert "size-curves" in " ".join(found["both"]["figures"])


def test_the_browser_sees_errors(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<!doctype html><meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\"><img src='http://127.0.0.1:9/a.png'>"
    )
    assert browser(page, tmp_path)[1]


def test_a_table_of_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder as reign reproduce makes it, of any name: the table, and the curves by the number of training graphs beside the paper's."""
    monkeypatch.setenv("REIGN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("REIGN_DATA", raising=False)
    folder = tmp_path / "of any name"
    little = ["data.options.num_graphs=510", "train.epochs=1", "model.hidden_channels=4", "model.num_layers=1"]
    columns = ["--row", "gin", "--column", "50", "--column", "150", "--seeds", "1"]
    changes = [word for change in little for word in ("--set", change)]
    works("reproduce", "generalisation-4-cycle", *columns, *changes, "-o", str(folder), "-q", "--report")
    text = (folder / "report.html").read_text()
    assert "Generalisation, counting 4-cycles" in text
    assert '<figure id="generalisation">' in text
    assert "GIN, paper" in text
    assert "GIN, ours" in text
    assert "gin/150" in text
    assert "data.options.num_graphs of gin, model.hidden_channels of gin" in text  # what differs from the table's
    shutil.copytree(folder / "gin" / "50", tmp_path / "elsewhere")
    drawn = works("show", "curves", "generalisation-4-cycle", str(tmp_path / "elsewhere"), "-o", str(tmp_path / "a.svg"))
    assert "There are no numbers for nm, neither of the paper nor of ours." in drawn.stdout
    assert (tmp_path / "a.svg").read_text().count("GIN, ours") == 2  # in the panels of both policies
    assert "no run of generalisation-zinc was found" in fails("show", "curves", "generalisation-zinc", str(folder))
    assert "unknown table of curves 'zinc'" in fails("show", "curves", "zinc")


def test_mistakes(runs: Path, tmp_path: Path) -> None:
    for args, message in (
        (["report", str(tmp_path)], "holds no finished run"),
        (["report", str(runs / "size"), "-o", str(tmp_path / "no" / "a.html")], "cannot be written, because the folder"),
        (["explain", str(runs / "size")], "give either molecules, as in --smiles CCO"),
        (["explain", str(runs / "size"), "--smiles", "xx", "-o", str(tmp_path / "a.html")], "no molecule could be read"),
        (
            ["explain", str(runs / "size"), "--smiles", "C", "--target", "color", "-o", str(tmp_path / "a.html")],
            "the run has no target 'color'; it has size",
        ),
        (["show", "bag", "CCO", "-o", str(tmp_path / "a.pdf")], "does not end in .svg or .png"),
        (["show", "layer"], "give either a model, such as sun, or --terms"),
        (["show", "layers", "sunn"], "unknown model 'sunn'; did you mean 'sun'?"),
    ):
        assert message in fails(*args)
    damaged = tmp_path / "damaged"
    shutil.copytree(runs / "size", damaged)
    (damaged / "predictions.csv").write_text("row,smiles,size\n1,C\n")
    assert "predictions.csv is damaged" in fails("report", damaged)


def test_a_report_that_fails_is_a_note(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Path:
        raise RuntimeError("no ink\nat all")

    monkeypatch.setattr(plots, "write_report", fails)
    done = works("train", "-i", str(runs / "mols.csv"), "--target-columns", "size", "-o", str(tmp_path / "run"), *SMALL)
    assert "The report could not be written (no ink)." in done.stderr
    assert (tmp_path / "run" / "summary.json").is_file()
    assert not (tmp_path / "run" / "report.html").exists()


def test_one_model_has_no_uncertainty(runs: Path, tmp_path: Path) -> None:
    start = ["predict", "-i", str(runs / "mols.csv"), "--model-paths", str(runs / "ring"), "-o", str(tmp_path / "out.csv"), "-q"]
    assert "A single model has no spread" in works(*start, "--uncertainty-method", "ensemble").stderr
    assert "no spread" not in works(*start).stderr


def test_show(tmp_path: Path) -> None:
    for args in (
        ["bag", "CCO"],
        ["bag", "cycle:5", "--policy", "nd", "--dark"],
        ["layer", "sun"],
        ["layers", "ds", "sun"],
        ["curves", "generalisation-zinc"],
        ["orbits"],
    ):
        file = tmp_path / "new" / f"{args[0]}.svg"  # the folder is made
        assert f"The picture is in {file}." in works("show", *args, "-o", str(file)).stdout
        assert file.read_text().count("<svg") == 1
    assert (tmp_path / "new" / "orbits-symmetry.svg").is_file()


def test_pages_and_pictures_show_their_progress(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report at the end of a training, and a data set that is made for a picture."""
    monkeypatch.setattr(progress, "FIRST", 0.0)
    monkeypatch.setattr(progress, "PERIOD", 0.01)
    problem = Problem.of([Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.ones(1, 1))])

    def slowly(_: object, track: Any = None) -> Any:
        for _ in (track or (lambda items, _: items))(range(2), "generating graphs, graph"):
            time.sleep(0.1)
        return problem

    monkeypatch.setattr(_graphs, "load_problem", slowly)
    monkeypatch.setattr(plots, "write_report", slowly)
    bag = ("show", "bag", "counting", "-o", tmp_path / "bag.svg")
    assert "generating graphs, graph, 0 of 2, 0 s so far" in works(*bag).stderr
    assert works(*bag, "-q").stderr == ""
    start = ["train", "-i", str(runs / "mols.csv"), "--target-columns", "size", *SMALL]
    assert "writing the report" not in works(*start, "-o", tmp_path / "quiet").stderr
    assert "writing the report, 0 s so far" in works(*(each for each in start if each != "-q"), "-o", tmp_path / "loud").stderr


def test_without_matplotlib(tmp_path: Path) -> None:
    """What drawing needs is said where it is missing."""
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "try:\n    import reign.draw\n"
        "except ModuleNotFoundError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "drawing needs matplotlib: pip install 'reign[plot]'.\n", done.stderr[-500:]


def test_json_of_the_run_knows_its_memory(runs: Path) -> None:
    assert json.loads((runs / "size" / "memory.json").read_text())["host_bytes"] > 1e7
