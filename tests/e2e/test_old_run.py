"""A run that version 0.1.0 made is still a run: it loads, predicts, can be measured, and continues to the same end.

The archive holds the folder of a finished run of three epochs, with the checkpoint that it had after the first one.
"""

import zipfile
from pathlib import Path

import pandas as pd
import pytest

import reign
from commands import works
from reign.disk import read_json

ARCHIVE = Path(__file__).parent / "data" / "run_0_1_0.zip"


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
