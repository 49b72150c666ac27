"""Runs, zips and saved models that earlier versions made still load, predict the same, can be measured, and continue to the same end.

``run_before_release.zip`` holds the folder of a finished run with three epochs, from before the first release, and the checkpoint that it had after the first
epoch. ``runs_8599632.tar.xz`` was made by that commit, and ``runs_0_1_0.tar.xz`` by the release, with ``python tests/e2e/make_0_1_0.py``. A later release that
changes a format adds another such file. Each of them holds

    table          a run of a table of SMILES with two seeds, its zip model.zip, and what it predicts: table.csv
    folds          a run of a data set with two folds, that of the class ``Circles`` in ``tests/circles.py``
    whole, half    a run of ``SplitCircles``, and the same run when it was stopped in its second epoch
    saved          a model that ``save_pretrained`` wrote, and its output: saved.json
"""

import json
import re
import sys
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

import reign
from circles import Stop, circle, register
from commands import works
from reign.disk import read_json
from reign.train import Recipe, train

ARCHIVE = Path(__file__).parent / "data" / "run_before_release.zip"
LATER = [Path(__file__).parent / "data" / f"runs_{made}.tar.xz" for made in ("8599632", "0_1_0")]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


def test_it_predicts(run: Path) -> None:
    kept = pd.read_csv(run / "seed-0" / "predictions.csv")
    table = pd.read_csv("mols.csv")
    texts = [table["smiles"][row - 1] for row in kept["row"]]
    assert reign.load("run").predict(texts)["size_pred"].tolist() == pytest.approx(kept["size_pred"].tolist(), rel=1e-5)
    assert set(reign.load("run").predict(texts)["warning"]) == {""}
    assert "16 of 16 rows predicted" in works("predict", "-i", "mols.csv", "--model-paths", "run", "-o", "out.csv", "-q").stdout


def test_it_sees_chirality_as_it_did(run: Path) -> None:
    """It has OGB's feature, in which two writings of L-alanine differ. The numbers are those of the versions that had no other."""
    texts = ["C[C@H](N)C(=O)O", "N[C@@H](C)C(=O)O"]
    assert reign.load("run").predict(texts)["size_pred"].tolist() == pytest.approx([1.3384871, 1.3386395], abs=1e-5)
    works("export", "run", "-o", "model.zip")
    assert reign.load("model.zip").predict(texts)["size_pred"].tolist() == pytest.approx([1.3384871, 1.3386395], abs=1e-5)


def test_it_can_be_measured(run: Path) -> None:
    summary = read_json(run / "summary.json")
    predictor = reign.load("run")
    for split in ("train", "val", "test"):
        assert predictor.evaluate(split)["models"] == pytest.approx(summary[split]["values"], rel=1e-5)
    assert "seed-0: mols.csv rmse" in works("evaluate", "run", "-i", "mols.csv", "-q").stdout


def test_it_continues_to_the_same_end(run: Path) -> None:
    before = read_json(run / "seed-0" / "result.json")
    curve = pd.read_csv(run / "seed-0" / "metrics.csv")
    (run / "summary.json").unlink()
    (run / "seed-0" / "result.json").unlink()
    works("train", "--resume", "run", "-q", "--accelerator", "cpu")
    after = read_json(run / "seed-0" / "result.json")
    assert after["epochs"] == 3
    for which in ("best", "last"):
        assert after[which] == pytest.approx(before[which], rel=1e-4)
    again = pd.read_csv(run / "seed-0" / "metrics.csv")
    assert again["seconds"][0] == curve["seconds"][0]  # the first epoch was not done again
    for column in ("lr", "train_loss", "val_rmse"):
        assert again[column].tolist() == pytest.approx(curve[column].tolist(), rel=1e-4)


def test_seeds_can_be_added(run: Path) -> None:
    works("train", "--resume", "run", "--seeds", "2", "-q", "--accelerator", "cpu")
    assert [member["seed"] for member in read_json(run / "summary.json")["members"]] == [0, 1]


# -- what later versions made --------------------------------------------------------------------------------------------------

MOLECULES = ["C" * n for n in range(1, 9)] + ["C" * n + "O" for n in range(1, 5)] + ["c1ccccc1" + "C" * n for n in range(4)]


def recipe(folds: int | None) -> Recipe:
    """Training whose checkpoint holds as much as possible: a schedule, averaged weights, scaled targets."""
    steps = {"epochs": 3, "batch_size": 6, "average": 2.0, "scale_targets": True, "clip": 1.0, "checkpoint_seconds": 0.0}
    steps |= {"schedule": {"name": "plateau", "patience": 0}, "optimiser": {"name": "adam", "lr": 0.01}}
    model = {"name": "dss", "policy": "ego+:2", "hidden_channels": 4, "num_layers": 1}
    data = {"name": "circles" if folds else "split-circles"}
    return Recipe.check({"data": data, "model": model, "train": steps, "seeds": [0], "folds": folds}, "the test")


def outputs(model: Any) -> Tensor:
    data = circle(5, 1)
    with torch.no_grad():
        return model.eval()(data.x, data.edge_index)


def make(file: Path) -> None:
    """Make an archive with the version that is imported; this folder must be empty."""
    register()
    pd.DataFrame({"smiles": MOLECULES, "size": [len(s) for s in MOLECULES], "rings": [int("c" in s) for s in MOLECULES]}).to_csv(
        "mols.csv", index=False
    )
    sys.argv = ["reign"]
    works(
        "train", "-i", "mols.csv", "--target-columns", "size", "--target-columns", "rings", "--seeds", "2", "--epochs", "2", "-b", "6", "-o", "table",
        "--set", "model.hidden_channels=4", "--set", "model.num_layers=1", "--set", "model.policy=ego:2", "--set", "model.name=ds", "--set", "model.set_channels=[4]", "--accelerator", "cpu", "-q",
    )  # fmt: skip
    works("predict", "-i", "mols.csv", "--model-paths", "table", "-o", "table.csv", "-q", "--accelerator", "cpu")
    works("export", "table", "-o", "model.zip", "--with-molecules")
    train(recipe(2), "folds")
    train(recipe(None), "whole")
    with suppress(KeyboardInterrupt):
        train(recipe(None), "half", callback=Stop())
    torch.manual_seed(0)
    model = reign.nn.SUN(1, 4, 1, 2, policy="ego+distance:2", residual=True)
    model.save_pretrained("saved")
    Path("saved.json").write_text(json.dumps(outputs(model).tolist()))
    for text in Path().rglob("recipe.yaml"):  # the folder in which this ran is of no use to others
        text.write_text(text.read_text().replace(str(Path.cwd()), "/elsewhere"))
    with tarfile.open(file, "w:xz") as archive:  # small files of one kind, which are best compressed together
        for each in sorted(Path().rglob("*")):
            if each.is_file() and each.name != ".lock" and (each.parts[0] == "half" or each.name != "checkpoint.pt"):
                archive.add(each)


@pytest.fixture(params=LATER, ids=lambda file: file.name.partition(".")[0])
def later(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    for recipe in tmp_path.rglob("recipe.yaml"):  # the table has been moved with the runs
        recipe.write_text(re.sub(r"path: /.*/", f"path: {tmp_path}/", recipe.read_text()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REIGN_CACHE", str(tmp_path / "cache"))
    register()
    return tmp_path


@pytest.mark.parametrize("model", ["table", "model.zip"])
def test_a_table_and_its_zip_predict_the_same(later: Path, model: str) -> None:
    works("predict", "-i", "mols.csv", "--model-paths", model, "-o", "again.csv", "-q", "--accelerator", "cpu")
    before, again = pd.read_csv("table.csv"), pd.read_csv("again.csv")
    assert [column for column in again.columns if column != "warning" or column in before] == list(
        before.columns
    )  # older ones have no warnings
    for column in before.columns:
        if before[column].dtype == float:
            assert again[column].tolist() == pytest.approx(before[column].tolist(), rel=1e-5, abs=1e-7, nan_ok=True)


@pytest.mark.parametrize("run", ["table", "folds", "whole"])
def test_a_run_has_the_same_values(later: Path, run: str) -> None:
    summary, predictor = read_json(later / run / "summary.json"), reign.load(run)
    for split in {"val", "test"} & summary.keys():
        own = [member[summary["report"]][split] for member in summary["members"]]
        assert predictor.evaluate(split)["models"] == pytest.approx(own, rel=1e-5)
    assert len(summary["members"]) == {"table": 2, "folds": 2, "whole": 1}[run]


def test_a_run_that_was_stopped_continues_to_the_same_end(later: Path) -> None:
    assert not (later / "half" / "seed-0" / "result.json").exists()
    first = pd.read_csv(later / "half" / "seed-0" / "metrics.csv")
    works("train", "--resume", "half", "-q", "--accelerator", "cpu")
    half, whole = (read_json(later / run / "seed-0" / "result.json") for run in ("half", "whole"))
    for which in ("best", "last"):
        assert half[which] == pytest.approx(whole[which], rel=1e-4)
    half, whole = (pd.read_csv(later / run / "seed-0" / "metrics.csv") for run in ("half", "whole"))
    assert half["seconds"][0] == first["seconds"][0]  # the first epoch was not done again
    for column in set(whole.columns) - {"seconds"}:
        assert half[column].tolist() == pytest.approx(whole[column].tolist(), rel=1e-4)


def test_a_saved_model_has_the_same_output(later: Path) -> None:
    assert outputs(reign.load("saved")).flatten().tolist() == pytest.approx(read_json(later / "saved.json")[0], rel=1e-5)
