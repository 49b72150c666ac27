"""Training as a user does it: tables, runs, kills, several processes, the paper's tables."""

import csv
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import yaml
from nursery import Nursery
from safetensors.torch import load_file

import reign as package
from commands import fails, reign, works
from reign.disk import read_json
from reign.train import train
from reign.train.runs.run import Run

pytestmark = pytest.mark.usefixtures("signatures_unchecked")

SMALL = ["--set", "model.hidden_channels=8", "--set", "model.num_layers=2", "-b", "8", "--epochs", "2"]
CARBON = (
    ["C" * n for n in range(1, 11)]
    + ["C" * n + "O" for n in range(1, 11)]
    + ["C" * n + "N" for n in range(1, 11)]
    + ["c1ccccc1" + "C" * n for n in range(10)]
)


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REIGN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("REIGN_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def table(folder: Path, name: str = "mols.csv", **columns: list[Any]) -> str:
    """Forty molecules, their number of atoms, and some more columns."""
    frame = pd.DataFrame({"smiles": CARBON, "size": [len(s) / 3 for s in CARBON], **columns})
    frame.to_csv(folder / name, index=False)
    return str(folder / name)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "seed-0" / "last" / "model.safetensors")


# -- one run -----------------------------------------------------------------------------------------------------------


def test_train_predict_evaluate(tmp_path: Path) -> None:
    file = table(tmp_path)
    with open(file, "a") as out:
        out.write("xyz,1\n,2\nC(C)(C)(C)(C)C,3\nCCCl ,\n")
    done = works("train", "-i", file, "-s", "smiles", "--target-columns", "size", "-o", "run", "--ensemble-size", "2", *SMALL)
    assert "40 of 44 rows read" in done.stderr
    assert "row 41 left out: 'xyz' is not a SMILES" in done.stderr
    assert "row 42 left out: no SMILES" in done.stderr
    assert "row 43 left out: 'C(C)(C)(C)(C)C': Explicit valence" in done.stderr
    assert "row 44 left out: no label" in done.stderr
    assert "all rows that were left out are in run/rows_left_out.csv" in done.stderr
    run = tmp_path / "run"
    left_out = list(csv.DictReader((run / "rows_left_out.csv").read_text().splitlines()))
    assert [row["row"] for row in left_out] == ["41", "42", "43", "44"]
    for name in ("recipe.yaml", "environment.json", "summary.json", "predictions.csv", "seed-1/splits.json", "seed-0/metrics.csv"):
        assert (run / name).is_file(), name
    splits = {split: [int(row) for row in rows] for split, rows in read_json(run / "seed-0" / "splits.json").items()}
    assert sorted(row for ids in splits.values() for row in ids) == list(range(1, 41))
    assert len((run / "seed-0" / "metrics.csv").read_text().splitlines()) == 3
    assert not list(run.rglob(".*"))  # nothing half written

    works("predict", "-i", file, "--model-paths", "run", "-o", "out.csv")
    found = pd.read_csv("out.csv", dtype=str, keep_default_na=False)
    given = pd.read_csv(file, dtype=str, keep_default_na=False)
    assert list(found.columns) == ["smiles", "size", "size_pred", "size_unc", "warning", "error"]
    assert found[["smiles", "size"]].equals(given)
    assert [bool(error) for error in found["error"]] == [False] * 40 + [True] * 3 + [False]
    assert [value == "" for value in found["size_pred"]] == [False] * 40 + [True] * 3 + [False]

    predictor = package.load("run")
    again = predictor.predict([*CARBON, "xyz"])
    assert again["size_pred"][:40].tolist() == pytest.approx([float(v) for v in found["size_pred"][:40]], abs=1e-5)
    assert "not a SMILES" in again["error"][40]
    assert (
        package.load("run").predict("CCO")["size_pred"].tolist()
        == package.load("run").predict(pd.Series(["CCO"]))["size_pred"].tolist()
    )

    summary = read_json(run / "summary.json")
    result = predictor.evaluate("test")
    assert result["models"] == pytest.approx(summary["test"]["values"], rel=1e-12)
    assert result["ensemble"] == pytest.approx(summary["ensemble"]["test"], rel=1e-12)
    tested = pd.read_csv(run / "predictions.csv")
    error = (tested["size"] - tested["size_pred"]).pow(2).mean() ** 0.5
    assert error == pytest.approx(summary["ensemble"]["test"], rel=1e-6)
    assert tested["row"].tolist() == splits["test"]
    done = works("evaluate", "run", "--split", "val")
    values = summary["val"]["values"]
    assert [f"seed-{seed}: val rmse {value:.5g}" for seed, value in enumerate(values)] == done.stdout.splitlines()[:2]
    assert "ensemble of 2: mols.csv rmse" in works("evaluate", "run", "-i", file).stdout
    assert "the run has no split 'dev'" in fails("evaluate", "run", "--split", "dev")


def test_what_looks_wrong_in_a_table_is_said_before_training(tmp_path: Path) -> None:
    from reign.plots import write_report

    number = len(CARBON)
    frame = pd.DataFrame({"id": range(100, 100 + number), "smiles": CARBON, "toxic": [n % 2 for n in range(number)]})
    frame["s"] = ["train" if n % 5 else "test" for n in range(number)]
    frame.loc[number] = [200, "NC", 0, "train"]  # the molecule of a row of the test split, with the other label
    frame.loc[number + 1] = [201, "xyz", 0, "train"]
    file = tmp_path / "mols.csv"
    frame.to_csv(file, index=False, sep=";")
    twin = CARBON.index("CN")
    frame.loc[twin, ["toxic", "s"]] = [1, "test"]
    frame.to_csv(file, index=False, sep=";")
    options = ["--splits-column", "s", "--model", "mpnn", *SMALL]
    done = works("train", "-i", file, "-o", "run", "-q", *options)
    warnings = done.stderr.splitlines()
    starts = [
        "warning: id is not a target, because it is named like an identifier",
        "warning: toxic holds only 0 and 1, and is trained as regression; for probabilities of classes, use -t classification",
        f"warning: 1 molecule is in more than one split, as in rows {twin + 1} (test) and 41 (train)",
        f"warning: 1 molecule has contradicting labels, as in rows {twin + 1} and 41, where toxic is 1 and 0",
    ]
    assert len(warnings) == len(starts)
    assert all(line.startswith(start) for line, start in zip(warnings, starts, strict=True))
    loud = works("train", "-i", file, "-o", "run2", *options).stderr.splitlines()
    assert [line for line in loud if line.startswith("warning: ")] == warnings
    found = read_json(tmp_path / "run" / "table.json")
    assert [f"warning: {line}" for line in found["warnings"]] == warnings
    assert found["left_out"] == {"42": "'xyz' is not a SMILES"}
    assert found["in_several_splits"] == [{"smiles": "CN", "rows": {"test": [twin + 1], "train": [41]}}]
    assert found["contradicting_labels"] == [{"smiles": "CN", "target": "toxic", "rows": [twin + 1, 41], "labels": [1.0, 0.0]}]
    page = write_report(["run"]).read_text()
    for text in (*found["lines"], *found["warnings"], "row 42: &#x27;xyz&#x27; is not a SMILES", "CN: toxic is [1.0, 0.0] in rows"):
        assert text in page
    (tmp_path / "run" / "table.json").write_text('{"lines": []}')
    assert "table.json is damaged (warnings: field required)" in fails("report", "run")
    with pytest.warns(UserWarning, match="^") as said:
        train(Run(tmp_path / "run").recipe, tmp_path / "run3")
    assert [f"warning: {each.message}" for each in said] == warnings


def test_a_run_keeps_the_targets_that_it_was_started_with(tmp_path: Path) -> None:
    file = table(tmp_path, id=list(range(40)))
    works("train", "-i", file, "--target-columns", "id", "--target-columns", "size", "--model", "mpnn", "-o", "run", "-q", *SMALL)
    recipe = tmp_path / "run" / "recipe.yaml"
    settings = yaml.safe_load(recipe.read_text())
    settings["data"]["target_columns"] = None  # as by an older version, whose default targets were all columns of numbers
    recipe.write_text(yaml.safe_dump(settings))
    summary = read_json(tmp_path / "run" / "summary.json")
    assert package.load("run").evaluate("val")["models"] == pytest.approx(summary["val"]["values"], rel=1e-12)
    works("train", "--resume", "run", "--seeds", "2", "-q", "--accelerator", "cpu")
    assert len(read_json(tmp_path / "run" / "summary.json")["val"]["values"]) == 2
    assert package.load("run").targets == ["id", "size"]


def test_two_runs_are_an_ensemble(tmp_path: Path) -> None:
    file = table(tmp_path)
    for seed in (1, 2):
        works("train", "-i", file, "-o", f"run{seed}", "--set", f"seeds=[{seed}]", *SMALL)
    works("predict", "-i", file, "--model-paths", "run1", "--model-paths", "run2", "-o", "both.csv")
    works("predict", "-i", file, "--model-paths", "run1", "-o", "one.csv")
    both, one = pd.read_csv("both.csv"), pd.read_csv("one.csv")
    assert "size_unc" in both
    assert "size_unc" not in one
    other = package.load("run2").predict(CARBON)["size_pred"]
    assert both["size_pred"].tolist() == pytest.approx(((one["size_pred"] + other) / 2).tolist(), abs=1e-5)
    works(
        "predict", "-i", file, "--model-paths", "run1", "--model-paths", "run2", "-o", "plain.csv", "--uncertainty-method", "none"
    )
    assert "size_unc" not in pd.read_csv("plain.csv")
    again = fails("predict", "-i", file, "--model-paths", "run1", "--model-paths", "./run1/", "-o", "plain.csv")
    assert "the run run1 is given 2 times, so that models agree with themselves; give it once." in again


def test_classes_and_several_targets(tmp_path: Path) -> None:
    ring = [int("c" in s) for s in CARBON]
    kind = ["ring" if "c" in s else "chain" if s[-1] == "C" else "polar" for s in CARBON]
    other: list[Any] = [r if i % 3 else "" for i, r in enumerate(ring)]
    file = table(tmp_path, ring=ring, kind=kind, other=other)
    works(
        "train",
        "-i",
        file,
        "--target-columns",
        "ring",
        "--target-columns",
        "other",
        "-t",
        "classification",
        "-o",
        "yes",
        "--seeds",
        "2",
        *SMALL,
    )
    found = package.load("yes").predict(CARBON)
    assert found["ring_pred"].between(0, 1).all()
    assert {"ring_pred", "ring_unc", "other_pred", "other_unc", "error"} <= set(found.columns)
    assert read_json(Path("yes/summary.json"))["metric"] == "roc_auc"
    more = [
        "--set",
        "train.epochs=30",
        "--set",
        "train.optimiser.lr=0.01",
        "--set",
        "train.report=last",
    ]  # four rows choose no epoch
    works("train", "-i", file, "--target-columns", "kind", "-t", "multiclass", "-o", "kinds", *SMALL, *more)
    found = package.load("kinds").predict([*CARBON, ""])
    names = ["kind_prob_chain", "kind_prob_polar", "kind_prob_ring"]
    assert found[names][:40].sum(axis=1).tolist() == pytest.approx([1.0] * 40)
    assert set(found["kind_pred"][:40]) <= {"chain", "polar", "ring"}
    assert (found["kind_pred"][:40] == kind).mean() > 0.9
    assert found["error"][40] == "no SMILES"
    works("train", "-i", file, "--target-columns", "size", "--split-type", "scaffold_balanced", "-o", "scaffold", *SMALL)
    rings = {str(i + 1) for i, r in enumerate(ring) if r}
    assert rings <= set(read_json(Path("scaffold/seed-0/splits.json"))["train"])


def test_graphs_from_python(tmp_path: Path) -> None:
    """A run on a data set predicts for PyG graphs."""
    works("train", "counting/gin/4-cycle", "--epochs", "1", "--seeds", "1", "--set", "data.options.num_graphs=40", "-o", "run")
    data = package.data.Counting(num_graphs=40, split="test")
    found = package.load("run").predict([data[0], data[1]])
    assert found["4-cycle_pred"].notna().all()
    with pytest.raises(ValueError, match="not on SMILES"):
        package.load("run").predict(["CC"])
    with pytest.raises(ValueError, match="expected only SMILES or only PyG graphs"):
        package.load("run").predict(["CC", data[0]])
    assert "was trained on counting" in fails("predict", "-i", table(tmp_path), "--model-paths", "run", "-o", "x.csv")


def test_mistakes(tmp_path: Path) -> None:
    file = table(tmp_path)
    works("train", "-i", file, "-o", "run", *SMALL)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thing").touch()
    table(tmp_path, "taken.csv", size_pred=[0] * 40)
    for args, message in (
        (["train"], "give a recipe"),
        (["train", "zinc", "-i", file], "give a recipe"),
        (["train", "-i", "none.csv"], "the file none.csv does not exist"),
        (["train", "zink"], "did you mean 'zinc'?"),
        (["train", "-i", file, "-o", "run"], "already holds a run; continue it with --resume run"),
        (["train", "-i", file, "-o", "full"], "is not empty and holds no run"),
        (["train", "-i", file, "-o", file], "is a file, expected a folder"),
        (["train", "-i", file, "-o", "r", "--target-columns", "sise"], "no column 'sise'; did you mean 'size'?"),
        (["train", "-i", file, "-o", "r", "-t", "regresion"], "data.task: input should be 'regression'"),
        (["train", "-i", file, "-o", "r", "--split-sizes", "0.5"], "data.split_sizes"),
        (["train", "-i", file, "-o", "r", "--epochs", "0"], "train.epochs: input should be greater than 0"),
        (["train", "-i", file, "-o", "r", "--model", "sunn"], "unknown model 'sunn'; did you mean 'sun'"),
        (["train", "-i", file, "-o", "r", "--policy", "eggo"], "unknown policy 'eggo'"),
        (["train", "-i", file, "-o", "r", "--policy", "ed"], "SUN needs one subgraph per node"),
        (
            ["train", "-i", file, "-o", "r", "--set", "model.droput=1"],
            "model.droput is not an argument of SUN; did you mean 'dropout'?",
        ),
        (["train", "-i", file, "-o", "r", "--set", "train.loss=bce"], "the task is regression; expected one of mse, l1"),
        (["train", "-i", file, "-o", "r", "--set", "data.name=zinc"], "not both"),
        (["train", "-i", file, "-o", "r", "--set", "data.smiles_columns=[]"], "data.smiles_columns"),
        (["train", "-i", file, "-o", "r", "--seeds", "2", "--ensemble-size", "2"], "mean the same; give only one of them"),
        (["train", "-i", file, "-o", "r", "--devices", "0"], "devices is 0, expected at least 1"),
        (["train", "--resume", "run", "-o", "r"], "leave out the recipe, -i and -o"),
        (["train", "-i", file, "-o", "r", "--set", "train.epoch=1"], "did you mean 'epochs'?"),
        (["train", "-i", file, "-o", "r", "--ensemble-size", "0"], "--ensemble-size is 0, expected at least 1"),
        (["train", "--resume", "none"], "holds no run to continue"),
        (["train", "zinc", "--resume", "run"], "--resume reads the recipe from the folder of the run"),
        (["predict", "-i", file, "--model-paths", "none", "-o", "o.csv"], "the run none does not exist"),
        (["predict", "-i", "none.csv", "--model-paths", "run", "-o", "o.csv"], "the file none.csv does not exist"),
        (["predict", "-i", file, "--model-paths", "run", "-o", "no/o.csv"], "cannot be written, because the folder"),
        (["predict", "-i", file, "--model-paths", "run", "-o", "o.csv", "-s", "smile"], "did you mean 'smiles'?"),
        (["predict", "-i", "taken.csv", "--model-paths", "run", "-o", "o.csv"], "already has a column 'size_pred'"),
        (["predict", "-i", file, "--model-paths", "run", "--uncertainty-method", "x"], "expected ensemble, dropout, mve, or none"),
        (["evaluate", "none"], "the run none does not exist"),
        (["reproduce", "molecules"], "is a single recipe, not a table"),
        (["reproduce", "zinc", "--row", "sunego"], "did you mean 'sun-ego'?"),
        (["tune", "zinc/gin"], "has no grid to search"),
        (["tune", "zinc/gin", "--grid", "x"], "expected key=v1,v2"),
        (["tune", "zinc/gin", "--grid", "train.batch_size=8,abc"], "train.batch_size: input should be a valid integer"),
        (["tune", "zinc/gin", "--grid", "train.batch_size=8", "--storage", "nonsense"], "use a URL such as sqlite:///study.db"),
        (["data", "info", "counting", "--set", "split=train"], "counting has no option 'split'"),
        (["data", "info", "zink"], "did you mean 'zinc'?"),
        (["data", "info", "counting", "--set", "kind=x"], "kind is 'x'"),
        (["recipes", "zink"], "did you mean 'zinc'?"),
    ):
        assert message in fails(*args), args
    assert not (tmp_path / "o.csv").exists()
    assert not (tmp_path / "r").exists()  # nothing was begun


@pytest.mark.parametrize("name", ["rdkit", "pandas"])
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for name_of_folder, part in (
        ("reign.data", "molecules"),
        ("reign", "smiles"),
    ):  # they are imported anew, and found again afterwards
        folder = importlib.import_module(name_of_folder)
        if hasattr(folder, part):
            monkeypatch.setattr(folder, part, getattr(folder, part))
        for module in [module for module in sys.modules if f"{module}.".startswith(f"{name_of_folder}.{part}.")]:
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "few.csv").write_text("smiles,y\nCC,1\nCCC,2\n")
    assert f"{name} is not installed; pip install" in fails("train", "-i", "few.csv", "-o", "run")


def test_default_folders_do_not_collide(tmp_path: Path) -> None:
    file = table(tmp_path)
    works("train", "-i", file, "-q", *SMALL)
    works("train", "-i", file, "-q", *SMALL)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["mols", "mols-2"]


def test_resume_can_add_seeds(tmp_path: Path) -> None:
    file = table(tmp_path)
    works("train", "-i", file, "-o", "run", *SMALL)
    before = (tmp_path / "run/seed-0/result.json").stat().st_mtime_ns
    works("train", "--resume", "run", "--seeds", "2")
    assert (tmp_path / "run/seed-0/result.json").stat().st_mtime_ns == before
    assert len(read_json(tmp_path / "run/summary.json")["members"]) == 2
    works("train", "--resume", "run", "--seeds", "1")  # fewer are asked for: none is forgotten
    assert len(read_json(tmp_path / "run/summary.json")["members"]) == 2
    assert "holds a run with other settings (train.batch_size is 8 there and 9 here)" in fails(
        "train", "--resume", "run", "-b", "9"
    )


def test_seeds_that_were_added_and_then_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary of fewer seeds does not pass for the whole."""
    file = table(tmp_path)
    works("train", "-i", file, "-o", "run", *SMALL)
    with monkeypatch.context() as patch:
        patch.setattr("reign.train.runs.jobs.train_member", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        assert "stopped; continue with: reign train --resume run" in fails("train", "--resume", "run", "--seeds", "2")
    works("train", "--resume", "run")
    assert len(read_json(tmp_path / "run/summary.json")["members"]) == 2


def test_a_table_that_changed(tmp_path: Path) -> None:
    file = table(tmp_path)
    works("train", "-i", file, "-o", "run", *SMALL)
    lines = Path(file).read_text().splitlines()
    Path(file).write_text("\n".join([lines[0], "CCCl,1.0", *lines[1:]]) + "\n")
    assert "have changed since the run in run was started" in fails("train", "--resume", "run", "--seeds", "2")
    assert "have changed since the run was trained" in fails("evaluate", "run")
    assert "seed-0: mols.csv rmse" in works("evaluate", "run", "-i", file).stdout


@pytest.mark.parametrize(
    "name", ["summary.json", "problem.json", "seed-0/scale.json", "seed-0/last/model.safetensors", "seed-0/last/config.json"]
)
def test_damaged_runs(tmp_path: Path, name: str) -> None:
    file = table(tmp_path)
    works("train", "-i", file, "-o", "run", *SMALL)
    whole = (tmp_path / "run" / name).read_bytes()
    (tmp_path / "run" / name).write_bytes(whole[: len(whole) // 2])
    message = fails("predict", "-i", file, "--model-paths", "run", "-o", "out.csv")
    assert "is damaged" in message
    assert name.split("/")[-1] in message or "seed-0/last" in message


@pytest.mark.parametrize("content", [b"", b"text", None])
def test_a_damaged_checkpoint(tmp_path: Path, content: bytes | None) -> None:
    file = table(tmp_path)
    works("train", "-i", file, "-o", "run", *SMALL)
    state = tmp_path / "run/seed-0/checkpoint.pt"
    state.write_bytes(state.read_bytes()[:1000] if content is None else content)
    (tmp_path / "run/seed-0/result.json").unlink()
    (tmp_path / "run/summary.json").unlink()
    assert "checkpoint.pt is damaged" in fails("train", "--resume", "run")
    state.unlink()
    works("train", "--resume", "run")


# -- kills and processes -----------------------------------------------------------------------------------------------


def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    """Killed twice: at some moment, and before some change of its files. ``tests/attack/test_kill.py`` tries many more."""
    file = table(tmp_path)
    settings = ["--epochs", "6", "-b", "8", "-q"]
    settings += [arg for part in ("hidden_channels=8", "num_layers=1", "dropout=0.2") for arg in ("--set", f"model.{part}")]
    seed = int(os.environ.get("REIGN_SEED", "0"))
    rng, nursery = random.Random(seed), Nursery(tmp_path / "errors")
    start = time.monotonic()
    assert nursery.run("train", "-i", file, "-o", "whole", *settings, folder=tmp_path / "whole") == 0, nursery.errors.read_text()
    length, changes = time.monotonic() - start, nursery.changes()
    kills = 0
    for kind in ("time", "change", None):
        moment: dict[str, Any] = {
            "time": {"kill_after": rng.uniform(0, 0.4 * length)},
            "change": {"kill_at": rng.randint(0, changes // 2)},
        }.get(kind or "", {})
        args = ["--resume", "run", "-q"] if (tmp_path / "run/recipe.yaml").is_file() else ["-i", file, "-o", "run", *settings]
        status = nursery.run("train", *args, folder=tmp_path / "run", **moment)
        assert status in (0, -signal.SIGKILL), (seed, nursery.errors.read_text())
        kills += status != 0
    nursery.close()
    assert (status, kills >= 1) == (0, True), seed
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "run")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one), seed
    curves = [pd.read_csv(tmp_path / run / "seed-0" / "metrics.csv").drop(columns="seconds") for run in ("whole", "run")]
    assert curves[0].equals(curves[1])
    assert (tmp_path / "whole/predictions.csv").read_text() == (tmp_path / "run/predictions.csv").read_text()


def test_two_processes_compute_what_one_does(tmp_path: Path) -> None:
    """The last batch has one graph, so one process has none; some labels are missing."""
    sizes: list[Any] = ["" if i % 7 == 0 else len(s) / 3 for i, s in enumerate(CARBON)]
    file = table(tmp_path, other=sizes)
    words = ["train"] * 31 + ["val"] * 5 + ["test"] * 4
    pd.read_csv(file).assign(split=words).to_csv(file, index=False)
    settings = [
        "--splits-column",
        "split",
        "--target-columns",
        "size",
        "--target-columns",
        "other",
        "-b",
        "6",
        "--epochs",
        "1",
        "-q",
    ]
    settings += ["--set", "train.precision=64-true", "--set", "model.hidden_channels=8", "--set", "model.num_layers=2"]
    settings += ["--set", "train.optimiser.lr=0.001"]
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(20_000 + os.getpid() % 20_000)]
    command = [sys.executable, *launcher, "-m", "reign", "train", "-i", file, "-o", "two", "--accelerator", "cpu", *settings]
    done = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    works("train", "-i", file, "-o", "one", *settings)
    assert read_json(tmp_path / "two/environment.json")["processes"] == 2
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(two[name], one[name], atol=1e-9, rtol=0)
    results = [json.loads((tmp_path / run / "seed-0" / "result.json").read_text()) for run in ("one", "two")]
    for which in ("best", "last"):
        assert results[0][which] == pytest.approx(results[1][which], abs=1e-9)


# -- the paper's tables ------------------------------------------------------------------------------------------------


def test_reproduce(tmp_path: Path) -> None:
    small = [
        "--set",
        "data.options.num_graphs=40",
        "--set",
        "train.epochs=1",
        "--set",
        "model.hidden_channels=8",
        "--set",
        "model.num_layers=2",
    ]
    args = [
        "reproduce",
        "counting",
        "--quick",
        "--row",
        "gin",
        "--row",
        "sun-ego+",
        "--column",
        "4-cycle",
        "--column",
        "star",
        "-o",
        "runs",
        *small,
    ]
    done = works(*args)
    assert "0.2185" in done.stdout
    assert "0.0105 +- 0.0006" in done.stdout
    assert "ifference" not in done.stdout  # of a quick test from the paper
    assert "PNA (quoted)" in done.stdout
    rows = list(csv.DictReader((tmp_path / "runs/table.csv").read_text().splitlines()))
    assert [(row["row"], row["column"]) for row in rows] == [
        ("gin", "4-cycle"),
        ("gin", "star"),
        ("sun-ego+", "4-cycle"),
        ("sun-ego+", "star"),
    ]
    sun = rows[2]
    assert float(sun["difference_in_std"]) == pytest.approx((float(sun["ours"]) - 0.0105) / 0.0006)
    stamp = (tmp_path / "runs/gin/star/summary.json").stat().st_mtime_ns
    works(*args)  # what is done is not done again
    assert (tmp_path / "runs/gin/star/summary.json").stat().st_mtime_ns == stamp
    more = works(*args, "--seeds", "2")
    assert "(2)" in more.stdout


def test_reproduce_with_columns_of_one_run(tmp_path: Path) -> None:
    small = ["--set", "data.options.num_graphs=40", "--set", "train.epochs=1", "--set", "model.hidden_channels=8"]
    done = works("reproduce", "four-cycle", "--quick", "-o", "runs", "--row", "gin", "--row", "trivial", *small)
    assert [path.name for path in (tmp_path / "runs/gin").iterdir()] == ["best_train"]
    assert all(word in done.stdout for word in ("best_train", "0.2148 +- 0.0051", "Trivial", "0.9275"))
    assert not (tmp_path / "runs/trivial").exists()


def test_reproduce_with_a_search(tmp_path: Path) -> None:
    """Blocks are chosen by validation, trained with the seeds of the table, and are part of the record."""
    small = ["--set", "data.options.num_graphs=40", "--set", "train.epochs=1", "--set", "model.hidden_channels=4", "--seeds", "2"]
    done = works("reproduce", "counting", "--row", "gnn-ak", "--column", "star", "--tune", "1", "-o", "runs/counting", *small)
    assert "gnn-ak/star: validation chooses num_layers" in " ".join(done.output.split())
    folder = tmp_path / "runs/counting/search/gnn-ak/star"
    val = {path.parent.name: read_json(path)["val"]["values"] for path in folder.glob("point-*/summary.json")}
    assert sorted(val) == [f"point-{n}" for n in range(4)]
    best = Run(folder / min(val, key=lambda name: val[name][0])).recipe
    assert Run(tmp_path / "runs/counting/gnn-ak/star").recipe == best.model_copy(update={"seeds": [0, 1]})
    page = works("results", "--add", "runs/counting").stdout
    assert "Chosen by validation among the points of a grid:" in page
    choice = read_json(tmp_path / "results/counting/gnn-ak--star.json")["choice"]
    assert [point["validation"] for point in choice["points"]] == [val[f"point-{n}"] for n in range(4)]
    assert "--tune is 0, expected at least 1" in fails("reproduce", "counting", "--tune", "0")


def test_tune(tmp_path: Path) -> None:
    file = table(tmp_path)
    args = [
        "tune",
        "-",
        "--set",
        f"data.path={file}",
        "--set",
        "train.epochs=1",
        "--set",
        "model.num_layers=1",
        "--storage",
        "sqlite:///s.db",
    ]
    args += ["--grid", "model.hidden_channels=4,8", "--grid", "train.optimiser.lr=0.01", "-o", "out"]
    works(*args, "--trials", "1")
    done = works(*args)  # a second worker takes what is left
    assert "2 points" in done.stdout
    found = {path.parent.name: read_json(path)["val"]["mean"] for path in (tmp_path / "out").glob("trial-*/summary.json")}
    assert set(found) == {"trial-0", "trial-1"}
    widths = {
        name: load_file(tmp_path / "out" / name / "seed-0/last/model.safetensors")["head.lin1.weight"].size(1) for name in found
    }
    assert set(widths.values()) == {4, 8}  # both points, each once
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if line.startswith("│")]
    expected = sorted(found, key=lambda name: found[name])  # the smallest error comes first
    assert rows == [[name[-1], str(widths[name]), "0.01", f"{found[name]:.4g}"] for name in expected]
    assert "has other data or settings; choose another name with --study" in fails(*args, "--set", "train.epochs=2")


def test_tune_with_lists_a_bound_and_the_best_point(tmp_path: Path) -> None:
    """Two lists of terms and two widths; the larger width is over the bound. The best point is trained with all seeds of the recipe."""
    args = [
        "tune",
        "-",
        "--set",
        f"data.path={table(tmp_path)}",
        "--set",
        "train.epochs=1",
        "--set",
        "model.num_layers=1",
        "-o",
        "out",
    ]
    args += ["--set", "model.name=subgraphgnn", "--set", "seeds=[0, 1]", "--grid", "model.hidden_channels=4,64"]
    args += ["--grid", "model.terms=[own,own+local],[own+local]"]
    done = works(*args, "--max-weights", "3000", "--train-best", "--jobs", "1")
    assert "2 of 4 points have more than 3,000 weights: hidden_channels 64, terms ['own', 'own+local'] (" in " ".join(
        done.output.split()
    )
    assert " ".join(done.output.split()).count("They are left out.") == 1
    assert "2 points" in done.stdout
    assert "The best run is in out/best." in done.stdout
    runs = {path.parent.name: package.load(path.parent).recipe for path in (tmp_path / "out").glob("*/recipe.yaml")}
    best = runs.pop("best")
    assert [recipe.seeds for recipe in runs.values()] == [[0], [0]]
    assert {recipe.model.hidden_channels for recipe in (best, *runs.values())} == {4}
    assert sorted(recipe.model.options["terms"] for recipe in runs.values()) == [["own", "own+local"], ["own+local"]]
    val = {name: read_json(tmp_path / "out" / name / "summary.json")["val"]["mean"] for name in runs}
    chosen = runs[min(val, key=lambda name: val[name])]
    assert best == chosen.model_copy(update={"seeds": [0, 1]})
    assert "4 of 4 points have more than 10 weights" in fails(*args, "--max-weights", "10")
    assert "--max-weights and --train-best are for the grid of a recipe" in fails("tune", "-i", table(tmp_path), "--train-best")


def test_a_point_of_a_grid_that_was_interrupted_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reign.experiments import tune

    file, whole = table(tmp_path), tune.train_all
    args = ["tune", "-", "--target-columns", "size", "--set", f"data.path={file}", "--set", "train.epochs=1"]
    args += ["--set", "model.num_layers=1", "--grid", "model.hidden_channels=4,8", "--storage", "sqlite:///s.db", "-o", "out"]

    def interrupted(plans: Any, **options: Any) -> Any:
        if plans[0][1].name == "trial-1":
            raise KeyboardInterrupt
        return whole(plans, **options)

    monkeypatch.setattr(tune, "train_all", interrupted)
    assert "stopped; if --storage was given, run the same command again to continue." in fails(*args)
    monkeypatch.setattr(tune, "train_all", whole)
    assert "2 points" in works(*args).stdout
    assert "2 points" in works(*args).stdout  # nothing is left
    assert not (tmp_path / "out/trial-3").exists()
    sizes = [
        load_file(tmp_path / f"out/trial-{trial}/seed-0/last/model.safetensors")["head.lin1.weight"].size(1) for trial in (0, 2)
    ]
    assert sorted(sizes) == [4, 8]
    recipe = package.load("out/trial-2").recipe
    assert recipe.data.target_columns == ["size"]  # options of data count for a recipe, too


def test_a_point_of_a_grid_that_fails_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reign.experiments import tune

    whole = tune.train_all
    args = ["tune", "-", "--set", f"data.path={table(tmp_path)}", "--set", "train.epochs=1", "--set", "model.num_layers=1"]
    args += ["--grid", "model.hidden_channels=4,8", "--storage", "sqlite:///s.db", "-o", "out"]

    def failing(plans: Any, **options: Any) -> Any:
        if plans[0][0].model.hidden_channels == 8:
            raise ValueError("too large")
        return whole(plans, **options)

    monkeypatch.setattr(tune, "train_all", failing)
    outputs = [reign(*args) for _ in range(2)]
    assert "too large" in " ".join(done.output for done in outputs)
    assert "1 points" in outputs[1].stdout  # the other one was tried, before or after


def test_tuning_on_a_table_continues(tmp_path: Path) -> None:
    args = ["tune", "-i", table(tmp_path), "--target-columns", "size", "--set", "train.epochs=1", "--trials", "1"]
    args += ["--storage", "sqlite:///s.db", "-o", "out"]
    works(*args)
    stamp = (tmp_path / "out/best/summary.json").stat().st_mtime_ns
    works(*args)  # as after an interrupt: what is done is not done again
    assert (tmp_path / "out/best/summary.json").stat().st_mtime_ns == stamp
    assert "out/best already exists; choose a new folder with -o." in fails(*args[:-4], "-o", "out")
    assert "--jobs is for the grid of a recipe" in fails(*args, "--jobs", "2")


def test_settings_of_tables_are_refused_for_data_sets() -> None:
    message = "task is for tables of molecules, but name is 'counting', a data set; leave it out"
    assert message in fails("train", "counting/gin/star", "--set", "data.task=classification", "-o", "run")


def test_data_commands() -> None:
    done = works("data", "list")
    assert all(name in done.stdout for name in ("zinc", "molhiv", "tu", "csl", "counting", "graph-properties", "exp", "sr"))
    done = works("data", "info", "counting", "--set", "num_graphs=40")
    assert "1-WL census: after 6 rounds, 0 of 780 pairs" in done.stdout
    assert "40 graphs ready" in works("data", "prepare", "counting", "--set", "num_graphs=40").stdout
    assert "which is not set" in fails("data", "prepare", "exp")
    assert "sun-ego-500k" in works("recipes").stdout
    assert "0.083 +- 0.003" in works("recipes", "zinc").stdout


@pytest.mark.parametrize(
    "command",
    ["report", "explain", "show", "train", "predict", "evaluate", "reproduce", "tune", "recipes", "data", "models", "policies"],
)
def test_help(command: str) -> None:
    assert "--help" in works(command, "--help").stdout


def test_a_typo_gets_a_suggestion() -> None:
    assert "Did you mean 'train', 'pretrain'?" in fails("trian")
