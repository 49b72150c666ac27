"""What a chemist asks of the command line, beyond training and predicting: ``docs/molecules.md`` in tests."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import reign as package
from reign.cli import app
from reign.disk import read_json

pytestmark = pytest.mark.usefixtures("signatures_unchecked")

SMALL = ["--set", "model.hidden_channels=8", "--set", "model.num_layers=1", "-b", "16", "--epochs", "2", "--no-report", "-q"]
CARBON = [start + "C" * n + end for start in ("", "c1ccccc1") for end in ("", "O", "N") for n in range(1, 8)]


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def works(*args: str) -> Any:
    done = CliRunner().invoke(app, list(args), env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done


def fails(*args: str) -> str:
    done = CliRunner().invoke(app, list(args), env={"COLUMNS": "200"})
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    return str(done.stderr)


def table(name: str = "mols.csv", **columns: list[Any]) -> str:
    """42 molecules with their number of atoms, whether they are aromatic, and some more columns."""
    values = {"size": [len(s) / 3 for s in CARBON], "ring": [int("1" in s) for s in CARBON], **columns}
    pd.DataFrame({"smiles": CARBON, **values}).to_csv(name, index=False)
    return name


def test_several_metrics_of_several_targets() -> None:
    done = works(
        "train", "-i", table(), "--target-columns", "size", "--target-columns", "ring", "-o", "run",
        "--metrics", "mae", "--metrics", "rmse", "--metrics", "r2", *SMALL[:-1],
    )  # fmt: skip
    assert "targets (regression): size, ring" in done.stderr
    summary = read_json(Path("run/summary.json"))
    assert summary["metric"] == "mae"
    assert list(summary["metrics"]) == ["train", "val", "test"]
    found = summary["metrics"]["test"]
    assert list(found) == ["mae", "rmse", "r2"]
    assert found["mae"]["mean"] == summary["test"]["mean"]
    kept = pd.read_csv("run/seed-0/predictions.csv")
    assert found["mae"]["targets"]["ring"] == pytest.approx((kept["ring"] - kept["ring_pred"]).abs().mean())
    rows = [line.split("│")[1:-1] for line in done.stdout.splitlines() if line.startswith("│")]
    cells = {(row[0].strip(), row[1].strip()): [cell.strip() for cell in row[2:]] for row in rows if len(row) == 5}
    assert cells["val", "r2"] == [
        f"{value:.4g}" for value in (summary["metrics"]["val"]["r2"]["mean"], *summary["metrics"]["val"]["r2"]["targets"].values())
    ]
    done = works("evaluate", "run", "-q", "--metrics", "rmse", "--metrics", "mae")
    by_target = [found["rmse"]["targets"][target] for target in ("size", "ring")]
    line = f"seed-0: test rmse {found['rmse']['mean']:.5g} (size {by_target[0]:.5g}, ring {by_target[1]:.5g})"
    assert done.stdout.splitlines()[0] == line
    assert done.stdout.splitlines()[1].startswith("seed-0: test mae")
    assert "train.metric is 'roc_auc', and the task is regression" in fails("evaluate", "run", "-q", "--metrics", "roc")
    assert "unknown metric 'rsme'; did you mean 'rmse'" in fails("evaluate", "run", "-q", "--metrics", "rsme")


def test_weights_of_rows_and_classes() -> None:
    weights: list[Any] = [1.0 + i % 3 for i in range(len(CARBON))]
    weights[4:6] = ["heavy", -1]
    file = table(w=weights)
    options = ["-t", "classification", "--target-columns", "ring", "--weight-column", "w", "--class-balance"]
    done = works("train", "-i", file, "-o", "run", *options, "--metrics", "roc", "--metrics", "mcc", *SMALL[:-1])
    assert "row 5 left out: w is 'heavy', expected a weight: a number of at least 0" in done.stderr
    assert "row 6 left out: w is '-1'" in done.stderr
    recipe = package.load("run").recipe
    assert (recipe.data.weight_column, recipe.train.class_balance, recipe.train.metric) == ("w", True, "roc_auc")
    table(w=[*weights[:-1], 9.0])
    assert "are not those that the run in run began with" in fails("train", "--resume", "run", "--seeds", "2", "-q")
    assert "has no column 'wieght'" in fails("train", "-i", file, "--weight-column", "wieght", "-o", "other", "-q")
    message = fails("train", "-i", file, "--target-columns", "size", "--class-balance", "-o", "other", "-q")
    assert "class_balance is for classification and multiclass" in message
    assert not Path("other/recipe.yaml").exists()
