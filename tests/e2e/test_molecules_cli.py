"""What a chemist asks of the command line, beyond training and predicting: ``docs/molecules.md`` in tests."""

import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

import reign as package
from commands import fails, reign, works
from reign.disk import read_json
from reign.train import Recipe

pytestmark = pytest.mark.usefixtures("signatures_unchecked")

SMALL = ["--set", "model.hidden_channels=8", "--set", "model.num_layers=1", "-b", "16", "--epochs", "2", "--no-report", "-q"]
CARBON = [start + "C" * n + end for start in ("", "c1ccccc1") for end in ("", "O", "N") for n in range(1, 8)]


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


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
    assert "the metric is 'roc_auc', but the task is regression" in fails("evaluate", "run", "-q", "--metrics", "roc")
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
    assert "have changed since the run in run was started" in fails("train", "--resume", "run", "--seeds", "2", "-q")
    assert "has no column 'wieght'" in fails("train", "-i", file, "--weight-column", "wieght", "-o", "other", "-q")
    message = fails("train", "-i", file, "--target-columns", "size", "--class-balance", "-o", "other", "-q")
    assert "class_balance is for classification and multiclass" in message
    assert not Path("other/recipe.yaml").exists()


HALVES = [word for share in ("0.4", "0.5", "0.1") for word in ("--split-sizes", share)]  # 21 validation rows to calibrate on


def test_intervals_of_an_ensemble() -> None:
    file = table()
    works("train", "-i", file, "--target-columns", "size", "-o", "run", "--ensemble-size", "2", *HALVES, *SMALL)
    works("predict", "-i", file, "--model-paths", "run", "-o", "out.csv", "-q")
    found = pd.read_csv("out.csv")
    assert list(found.columns)[3:] == ["size_pred", "size_unc", "size_lower", "size_upper", "warning", "error"]
    rows = [int(row) - 1 for row in read_json(Path("run/seed-0/splits.json"))["val"]]
    inside = found["size"].between(found["size_lower"], found["size_upper"])[rows]
    assert inside.sum() in (19, 20)  # the 20th of 21 validation scores is the bound, within rounding
    wider = package.load("run").predict(CARBON, alpha=0.05)
    assert (wider["size_upper"] - wider["size_lower"] > found["size_upper"] - found["size_lower"]).all()
    said = works("evaluate", "run", "--split", "val", "-q").stdout
    assert f"size, ensemble: intervals of level 0.9 cover {20 / 21:.1%} of 21 labels, mean width " in said
    works("predict", "-i", file, "--model-paths", "run", "-o", "raw.csv", "-q", "--calibration-method", "none")
    raw = pd.read_csv("raw.csv")
    assert list(raw.columns)[3:] == ["size_pred", "size_unc", "warning", "error"]
    kept = pd.concat([package.load("run").predict(CARBON, uncertainty=False)["size_pred"], raw["size_pred"]], axis=1)
    assert kept.iloc[:, 0].tolist() == pytest.approx(kept.iloc[:, 1].tolist(), abs=1e-5)
    start = ("predict", "-i", file, "--model-paths", "run", "-q")
    assert "need at least 99 validation labels, but the run has 21" in fails(*start, "--conformal-alpha", "0.01")
    assert "alpha is 1.5, expected a number above 0 and below 1" in fails(*start, "--conformal-alpha", "1.5")
    assert "calibration by 'isotonic' is for classes" in fails(*start, "--calibration-method", "isotonic")
    assert "The model predicts no variance." in works(*start, "--uncertainty-method", "mve", "-o", "none.csv").stderr
    assert "size_unc" not in pd.read_csv("none.csv")
    asked = (*start, "-o", "none.csv", "--conformal-alpha", "0.2")
    assert works(*asked).stderr == ""
    shutil.copytree("run", "twin")
    for more, why in (
        (("--calibration-method", "none"), "and the calibration method is none."),
        (("--model-paths", "twin"), "intervals belong to one run, and several were given."),
    ):
        assert why in works(*asked, *more).stderr
        assert "size_lower" not in pd.read_csv("none.csv")
    Path("run/calibration.json").unlink()
    assert "There are no intervals: the run has fewer than 20 validation labels" in works(*asked).stderr
    Path("run/calibration.json").write_text("{}")
    assert "calibration.json is damaged (it has no intervals)" in fails(*start)


def test_uncertainty_of_one_model() -> None:
    """By a variance of its own, by dropout, or none; a note appears only if intervals are asked for."""
    file = table()
    works("train", "-i", file, "--target-columns", "size", "-o", "run", "-l", "mve", "--dropout", "0.2", *HALVES, *SMALL)
    for method in ("mve", "dropout"):
        works("predict", "-i", file, "--model-paths", "run", "-o", "out.csv", "-q", "--uncertainty-method", method)
        found = pd.read_csv("out.csv")
        assert (found["size_lower"] < found["size_pred"]).all()
        assert (found["size_unc"] > 0).all()
    assert read_json(Path("run/summary.json"))["test"]["mean"] == pytest.approx(package.load("run").evaluate("test")["models"][0])
    works("train", "-i", file, "--target-columns", "size", "-o", "plain", *HALVES, *SMALL)
    plain = ("predict", "-i", file, "--model-paths", "plain", "-o", "out.csv", "-q")
    assert works(*plain).stderr == ""
    assert "so there are no intervals. Train with" in works(*plain, "--conformal-alpha", "0.2").stderr
    assert list(pd.read_csv("out.csv").columns)[3:] == ["size_pred", "warning", "error"]


def test_probabilities_are_calibrated_if_asked_for() -> None:
    file = table()
    works("train", "-i", file, "--target-columns", "ring", "-t", "classification", "-o", "run", *HALVES, *SMALL)
    raw = package.load("run").predict(CARBON)["ring_pred"]
    for method in ("temperature", "isotonic"):
        works("predict", "-i", file, "--model-paths", "run", "-o", "out.csv", "-q", "--calibration-method", method)
        mended = pd.read_csv("out.csv")["ring_pred"]
        assert mended.between(0, 1).all()
        assert (mended - raw).abs().max() > 1e-3
        order = raw.argsort()
        assert (mended[order].diff().dropna() >= -1e-6).all()  # nothing changes places
    said = works("evaluate", "run", "-q").stdout
    assert "ring, temperature: calibration error" in said
    assert "ring, not calibrated: calibration error" in said


def test_ignored_stereo() -> None:
    """The run remembers it, and so does a run that starts from its weights."""
    texts = ["C[C@H](N)C(=O)O", "N[C@H](C)C(=O)O", "F/C=C/F", "F/C=C\\F"]
    pd.DataFrame({"smiles": texts * 5, "y": [n / 20 for n in range(20)]}).to_csv("stereo.csv", index=False)
    works("train", "-i", "stereo.csv", "--target-columns", "y", "--ignore-stereo", "-o", "flat", "--no-report", *SMALL)
    works("train", "-i", "stereo.csv", "--target-columns", "y", "--checkpoint", "flat", "-o", "next", "--no-report", *SMALL)
    assert package.load("next").recipe.data.stereo == "none"
    for run in ("flat", "next"):
        works("predict", "-i", "stereo.csv", "--model-paths", run, "-o", f"{run}.csv", "--num-workers", "1", "-q")
        first, second, third, fourth = pd.read_csv(f"{run}.csv")["y_pred"][:4]
        assert first == second
        assert third == fourth
    works("train", "-i", "stereo.csv", "--target-columns", "y", "-o", "full", "--no-report", *SMALL)
    works("predict", "-i", "stereo.csv", "--model-paths", "full", "-o", "full.csv", "--num-workers", "1", "-q")
    assert pd.read_csv("full.csv")["y_pred"][:4].nunique() == 4


def weights(folder: str) -> dict[str, Any]:
    return load_file(Path(folder) / "seed-0" / "last" / "model.safetensors")


def test_starting_from_a_run() -> None:
    file = table()
    works("train", "-i", file, "--target-columns", "size", "-o", "old", "--set", "model.residual=false", *SMALL)
    new = ["-t", "classification", "--target-columns", "ring", "--checkpoint", "old", "--freeze-encoder", "-o", "new"]
    done = works("train", "-i", file, *new, "--epochs", "2", "--no-report")
    assert "all weights but those of the last layer, which is new for these targets" in done.stderr
    recipe = package.load("new").recipe
    assert (recipe.model.hidden_channels, recipe.model.options["residual"]) == (8, False)  # the model is that of the old run
    before, after = weights("old"), weights("new")
    moved = {name for name in before if not before[name].equal(after[name])}
    assert moved
    assert all(name.startswith("head.") for name in moved)  # statistics of norms stay, too
    both = ["--checkpoint", "old", "--freeze-epochs", "1", "--epochs", "2", "-o", "both", "--no-report"]
    assert "From epoch 2 on all weights are trained" in works("train", "-i", file, "--target-columns", "size", *both).stderr
    assert {name for name in before if not before[name].equal(weights("both")[name])} > moved
    works(
        "train", "-i", file, "--target-columns", "size", "--checkpoint", "old", "-o", "more", "--epochs", "1", "-q", "--no-report"
    )
    assert {name for name in before if not before[name].equal(weights("more")[name])} > moved
    assert "do not fit this model" in fails(
        "train",
        "-i",
        file,
        "--target-columns",
        "size",
        "--checkpoint",
        "old",
        "-o",
        "other",
        "-q",
        "--set",
        "model.hidden_channels=4",
    )
    scratch = ["train", "-i", file, "--from-scratch", "-o", "other"]
    assert "give it with --checkpoint" in fails(*scratch, "--freeze-encoder", "-q")
    assert "--freeze-epochs needs a run with a trained encoder" in fails(*scratch, "--freeze-epochs", "1")
    assert "the run nowhere does not exist" in fails("train", "-i", file, "--checkpoint", "nowhere", "-o", "other", "-q")
    assert not Path("other/recipe.yaml").exists()


def test_going_on_for_more_epochs() -> None:
    file = table()
    works("train", "-i", file, "--target-columns", "size", "-o", "run", *SMALL)
    done = works("train", "--resume", "run", "--epochs", "4", "--no-report")
    assert (
        "The run had 2 epochs and continues to 4; from here on, the learning rate follows the schedule of 4 epochs." in done.stderr
    )
    curve = pd.read_csv("run/seed-0/metrics.csv")
    works("train", "-i", file, "--target-columns", "size", "-o", "whole", *SMALL, "--set", "train.epochs=4")
    whole = pd.read_csv("whole/seed-0/metrics.csv")
    assert curve["epoch"].tolist() == [0, 1, 2, 3]
    assert curve["lr"][1] < whole["lr"][1]  # the first two epochs had a schedule of two
    assert curve["lr"][2:].tolist() == pytest.approx(whole["lr"][2:].tolist())
    assert read_json(Path("run/summary.json"))["members"][0]["epochs"] == 4
    assert "has 4 epochs, expected more with --resume, got --epochs 3" in fails("train", "--resume", "run", "--epochs", "3", "-q")
    assert "epoch" not in works("train", "--resume", "run").stderr  # it is done


def test_the_nearest_training_molecules_and_vectors() -> None:
    file = table()
    works("train", "-i", file, "--target-columns", "size", "-o", "run", *SMALL)
    kept = pd.read_csv("run/training.csv")
    assert kept["row"].tolist() == [int(row) for row in read_json(Path("run/seed-0/splits.json"))["train"]]
    known = kept["smiles"][3]
    pd.DataFrame({"smiles": [known, "xyz", "FC(F)(F)S(=O)(=O)[O-].[Na+]"]}).to_csv("new.csv", index=False)
    works("predict", "-i", "new.csv", "--model-paths", "run", "-o", "out.csv", "-q", "--nearest", "2")
    found = pd.read_csv("out.csv", keep_default_na=False)
    assert list(found.columns)[2:] == [
        "nearest_rows", "nearest_smiles", "nearest_similarity", "vector_rows", "vector_similarity", "warning", "error",
    ]  # fmt: skip
    first = found.iloc[0]
    assert first["nearest_rows"].split("; ")[0] == str(kept["row"][3])
    assert first["nearest_smiles"].split("; ")[0] == known
    assert first["nearest_similarity"].split("; ")[0] == "1.000"
    assert first["vector_rows"].split("; ")[0] == str(kept["row"][3])
    assert first["vector_similarity"].split("; ")[0] == "1.000"
    assert len(first["vector_rows"].split("; ")) == 2
    assert first["warning"] == ""
    assert [found["nearest_rows"][1], found["warning"][1]] == ["", ""]
    assert "not a SMILES" in found["error"][1]
    assert found["warning"][2].startswith("no training molecule has the element F or the element Na or the element S (and ")
    assert "; unlike all training molecules: the largest similarity is 0." in found["warning"][2]
    start = ("predict", "-i", "new.csv", "--model-paths", "run", "-q")
    assert "nearest is 0, expected at least 1" in fails(*start, "--nearest", "0")
    shutil.copytree("run", "twin")
    assert "--nearest needs a single run" in fails(*start, "--model-paths", "twin", "--nearest", "1")

    works("fingerprint", "-i", "new.csv", "--model-paths", "run", "-o", "fps.csv", "-q")
    vectors = pd.read_csv("fps.csv")
    assert list(vectors.columns) == ["smiles", *(f"fp_{c}" for c in range(8)), "error"]
    assert vectors["fp_3"].isna().tolist() == [False, True, False]
    model = package.load("run").models[0]
    row = torch.tensor(vectors[[f"fp_{c}" for c in range(8)]].iloc[0].to_numpy(), dtype=torch.float32)[None]
    predicted = float(model.model.head(row).detach()) * float(model.scale.deviation) + float(model.scale.mean)
    assert predicted == pytest.approx(float(found["size_pred"][0]), rel=1e-5)
    Path("run/training.csv").unlink()
    assert "run does not have the molecules that it was trained on" in fails(*start, "--nearest", "1")
    works("export", "run", "-o", "m.zip")
    start = ("predict", "-i", "new.csv", "--model-paths", "m.zip", "-o", "out3.csv", "-q")
    assert fails(*start, "--nearest", "1").startswith(
        "reign: m.zip does not have the molecules"
    )  # not the folder where it was unpacked


def test_an_onnx_file(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    table()
    works("train", "-i", "mols.csv", "--target-columns", "size", "-o", "run", *SMALL)
    Path("out").mkdir()
    done = works("export", "run", "--onnx", "out/model.onnx", "--max-atoms", "64")
    assert "MB. Predict with: python out/predict_onnx.py out/model.onnx FILE.csv out.csv" in done.stdout
    assert sorted(file.name for file in Path("out").iterdir()) == ["model.onnx", "predict_onnx.py"]
    assert works("export", "run", "--onnx", "quiet.onnx", "-q").output == ""
    assert not Path("model.zip").exists()
    assert "--max-atoms is for an ONNX file" in fails("export", "run", "--max-atoms", "64")
    assert "--max-atoms" in fails("export", "run", "--onnx", "m.onnx", "--max-atoms", "0")
    assert "--with-molecules is for a zip" in fails("export", "run", "--onnx", "m.onnx", "--with-molecules")
    works("train", "-i", "mols.csv", "--target-columns", "size", "-o", "marked", *SMALL, "--set", "model.policy=nm")
    assert "SUN has the policy 'nm', but an ONNX file can hold SUN and DSS" in fails("export", "marked", "--onnx", "m.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "an ONNX file needs the package onnx, which is not installed: pip install 'reign[onnx]'." in fails(
        "export", "run", "--onnx", "m.onnx"
    )
    assert not Path("m.onnx").exists()


def test_several_splits_folds_and_words() -> None:
    """As chemprop's user writes it: several words after an option; some splits, and folds that keep a molecule in one of them."""
    table()
    frame = pd.read_csv("mols.csv")
    pd.concat([frame, frame]).to_csv("twice.csv", index=False)
    done = works(
        "train", "-i", "twice.csv", "--target-columns", "size", "ring", "--split-sizes", "0.5", "0.25", "0.25", "-o", "runs",
        "--num-replicates", "2", "--metrics", "mae", "rmse", "--accelerator", "cpu", *SMALL,
    )  # fmt: skip
    values = [read_json(Path(f"runs/replicate-{r}/summary.json"))["test"]["mean"] for r in (0, 1)]
    assert f"{sum(values) / 2:.4g}" in next(line for line in done.stdout.splitlines() if line.startswith("│ mean"))
    recipe = package.load("runs/replicate-1").recipe
    assert (recipe.data.split_seed, recipe.data.split_sizes, recipe.data.target_columns) == (1, (0.5, 0.25, 0.25), ["size", "ring"])
    assert "holds no recipe.yaml, expected the folder of a run made by reign train. There is one in runs/replicate-0." in fails(
        "evaluate", "runs"
    )
    assert "expected three shares that sum to 1, of train, val and test, got 2" in fails(
        "train", "-i", "twice.csv", "--split-sizes", "0.8", "0.2", "-o", "other", "-q"
    )
    assert "folds is 900, expected at most" in fails("train", "-i", "twice.csv", "--num-folds", "900", "-o", "other", "-q")
    assert "leave --splits-column out" in fails(
        "train", "-i", "twice.csv", "--num-replicates", "2", "--splits-column", "ring", "-o", "other", "-q"
    )
    assert "leave out --split-sizes and --split-seed" in fails(
        "train", "-i", "twice.csv", "--num-folds", "2", "--split-sizes", "1", "0", "0", "--split-seed", "1", "-o", "other", "-q"
    )
    folds = ("train", "-i", "twice.csv", "--target-columns", "size", "--num-folds", "2", *SMALL)
    assert " folds ┃" in works(*folds, "-o", "folds").stdout
    assert " seeds ┃" in works(*folds, "-o", "seeds", "--seeds", "2").stdout  # the deviation is over seeds
    for fold in range(2):
        rows = read_json(Path(f"folds/seed-0/fold-{fold}/splits.json"))
        assert {(int(row) - 1) % len(CARBON) for row in rows["train"]}.isdisjoint(
            (int(row) - 1) % len(CARBON) for row in rows["val"]
        )
        assert len(rows["train"]) + len(rows["val"]) == 2 * len(CARBON)


def test_all_models_or_the_best() -> None:
    file = table()
    works("train", "-i", file, "--target-columns", "size", "--seeds", "3", "-o", "run", *SMALL)
    values = read_json(Path("run/summary.json"))["val"]["values"]
    best = values.index(min(values))
    works("predict", "-i", file, "--model-paths", "run", "-o", "out.csv", "-q", "--best-model")
    found = pd.read_csv("out.csv")
    assert "size_unc" not in found
    alone = package.load("run").models[best]
    assert [model.folder for model in package.load("run", best=True).models] == [alone.folder]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["train", "-i", "a.csv", "--metrics", "mae", "rmse", "-q"], ["--metrics", "mae", "--metrics", "rmse", "-q"]),
        (
            ["train", "--split-sizes", "0.8", "0.1", "0.1", "zinc"],
            ["--split-sizes", "0.8"] + 2 * ["--split-sizes", "0.1"] + ["zinc"],
        ),
        (["train", "--metrics", "mae", "zinc/sun-ego"], ["--metrics", "mae", "zinc/sun-ego"]),
        (["train", "zinc", "--epochs", "3"], ["zinc", "--epochs", "3"]),
    ],
)
def test_options_that_take_several_words(args: list[str], expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr("typer.core.TyperCommand.parse_args", lambda self, ctx, words: seen.append(words) or [])
    reign(*args)
    assert seen[0][-len(expected) :] == expected


def test_search_of_the_settings_for_a_table() -> None:
    pytest.importorskip("optuna")
    file = table()
    done = works(
        "tune", "-i", file, "--target-columns", "size", "--trials", "6", "--grid", "model.hidden_channels=4,8", "--grid", "model.num_layers=1",
        "--set", "train.epochs=3", "-o", "runs",
    )  # fmt: skip
    assert "All trials start from random weights" in done.stderr
    assert "The best run is in runs/best." in done.stdout
    assert "Predict with: reign predict -i FILE.csv --model-paths runs/best -o out.csv" in done.stdout
    values = {
        path.parent.name: read_json(path)["val"]["mean"] for path in Path("runs").glob("trial-*/summary.json")
    }  # trials that stopped early have none
    best = min(values, key=values.__getitem__)
    assert f"The best settings are those of trial {best.removeprefix('trial-')}." in done.stdout
    assert read_json(Path("runs/best/summary.json"))["val"]["mean"] == pytest.approx(values[best])
    tried = [package.load(f"runs/{name}").recipe for name in values]
    assert {recipe.model.num_layers for recipe in tried} == {1}
    assert {recipe.model.hidden_channels for recipe in tried} <= {4, 8}
    assert len({recipe.train.optimiser.lr for recipe in tried}) == len(tried)
    works("predict", "-i", file, "--model-paths", "runs/best", "-o", "out.csv", "-q")
    assert "give a recipe, as in" in fails("tune")
    assert "the file none.csv does not exist" in fails("tune", "-i", "none.csv")
    said = fails("tune", "-i", file, "--target-columns", "size", "-o", "more", "--grid", "model.num_layers=2,0")
    assert "model.num_layers: input should be greater than 0 (got 0)" in said
    assert "runs/best already exists" in fails("tune", "-i", file, "-o", "runs", "--target-columns", "size")


def test_descriptors_besides_the_graph() -> None:
    """The target is a column of numbers that the graph says nothing about: only a model that gets it can learn it."""
    hidden = [100.0 * ((7 * i) % 5) for i in range(len(CARBON))]
    file = table(hidden=hidden, copy=hidden)
    long = ["--set", "train.epochs=40", "--set", "train.optimiser.lr=0.02", "--split-sizes", "0.8", "0.1", "0.1"]
    given = [
        "--target-columns",
        "hidden",
        "--descriptors-columns",
        "copy",
        "size",
        "--molecule-featurizers",
        "rdkit_2d",
        "morgan_count",
    ]
    works("train", "-i", file, *given, "-o", "run", *SMALL, *long)
    works("predict", "-i", file, "--model-paths", "run", "-o", "out.csv", "-q")
    found = pd.read_csv("out.csv")
    assert (found["hidden_pred"] - found["hidden"]).abs().mean() < 60  # 120 for the mean of all
    encoder = package.load("run").models[0].model.node_encoder
    rows = [int(row) - 1 for row in read_json(Path("run/seed-0/splits.json"))["train"]]
    assert float(encoder.mean[0]) == pytest.approx(sum(hidden[row] for row in rows) / len(rows))
    frame = pd.read_csv(file)
    frame.loc[2, "copy"] = None
    frame.to_csv("gap.csv", index=False)
    works("predict", "-i", "gap.csv", "--model-paths", "run", "-o", "out.csv", "-q")
    errors = pd.read_csv("out.csv", keep_default_na=False)["error"]
    assert errors[2] == "copy of gap.csv is '', expected a number, because it is a descriptor"
    assert (errors.drop(2) == "").all()
    frame.drop(columns="copy").to_csv("without.csv", index=False)
    assert "without.csv has no column 'copy'" in fails("predict", "-i", "without.csv", "--model-paths", "run", "-q")
    with pytest.raises(ValueError, match="the model needs the descriptors copy, size; predict for a table that has them"):
        package.load("run").predict(["CCO"])
    assert "there are no descriptors 'rdkit'" in fails("train", "-i", file, "--molecule-featurizers", "rdkit", "-o", "other", "-q")
    assert "--nearest is not possible" in fails("predict", "-i", file, "--model-paths", "run", "-q", "--nearest", "1")


def test_descriptors_from_a_file() -> None:
    file = table()
    pd.DataFrame({"a": range(len(CARBON)), "b": [0.5] * len(CARBON)}).to_csv("more.csv", index=False)
    done = works("train", "-i", file, "--target-columns", "size", "--descriptors-path", "more.csv", "-o", "run", *SMALL)
    command = "reign predict -i {} --descriptors-path DESCRIPTORS.csv --model-paths {} -o {}"
    assert f"Predict with: {command.format('FILE.csv', 'run', 'out.csv')}" in done.stdout
    assert f"Predict with: {command.format('FILE.csv', 'm.zip', 'out.csv')}" in works("export", "run", "-o", "m.zip").stdout
    assert works("export", "run", "-o", "quiet.zip", "-q").output == ""
    assert Path("quiet.zip").is_file()
    with zipfile.ZipFile("m.zip") as archive:
        card = archive.read("README.md").decode()
    assert command.format("molecules.csv", "model.zip", "predictions.csv") in card
    assert 'predict_file("molecules.csv", descriptors_path="DESCRIPTORS.csv")' in card
    with pytest.raises(ValueError, match="the model needs a table of descriptors; use predict_file with descriptors_path"):
        package.load("run").predict(["CCO"])
    pd.DataFrame({"smiles": ["CCO", "CCC"]}).to_csv("new.csv", index=False)
    pd.DataFrame({"a": [1, 1000], "b": [0.5, 0.5]}).to_csv("new_more.csv", index=False)
    start = ("predict", "-i", "new.csv", "--model-paths", "run", "-o", "out.csv", "-q")
    works(*start, "--descriptors-path", "new_more.csv")
    assert pd.read_csv("out.csv")["size_pred"].notna().all()
    assert "give that of this table with --descriptors-path" in fails(*start)
    assert "more.csv has 42 rows, expected 2" in fails(*start, "--descriptors-path", "more.csv")
    works("evaluate", "run", "-i", file, "--descriptors-path", "more.csv", "-q")
    assert "give that of this table with --descriptors-path" in fails("evaluate", "run", "-i", file, "-q")
    works("train", "-i", file, "--target-columns", "size", "-o", "plain", *SMALL)
    both = ("predict", "-i", file, "--model-paths", "run", "--model-paths", "plain", "--descriptors-path", "more.csv", "-q")
    assert (
        "were trained on different inputs, such as other descriptors or another feature of chirality (data.stereo); expected runs"
        in fails(*both)
    )
    assert "leave --descriptors-path out" in fails("evaluate", "plain", "-i", file, "--descriptors-path", "more.csv", "-q")
    pd.DataFrame({"a": range(len(CARBON))}).to_csv("less.csv", index=False)
    message = "features have 10 columns, expected 9 of types and 2 of numbers"
    assert message in fails("evaluate", "run", "-i", file, "--descriptors-path", "less.csv", "-q")
    assert "the run nowhere does not exist" in fails("predict", "-i", file, "--model-paths", "nowhere", "-q")


def test_splits_by_groups_and_clusters() -> None:
    plates = [f"p{row % 7}" for row in range(len(CARBON))]
    file = table(plate=plates, year=[2000 + row for row in range(len(CARBON))])
    given = ("train", "-i", file, "--target-columns", "size", *SMALL)
    works(*given, "--time-column", "year", "-o", "time")
    rows = {split: [int(row) for row in ids] for split, ids in read_json(Path("time/seed-0/splits.json")).items()}
    assert max(rows["train"]) < min(rows["val"]) <= max(rows["val"]) < min(rows["test"])
    works(*given, "--group-column", "plate", "--num-folds", "3", "-o", "folds")
    for fold in range(3):
        rows = read_json(Path(f"folds/seed-0/fold-{fold}/splits.json"))
        assert {plates[int(row) - 1] for row in rows["train"]}.isdisjoint(plates[int(row) - 1] for row in rows["val"])
    works(*given, "--split-type", "butina", "--num-replicates", "2", "-o", "runs")
    first, second = (read_json(Path(f"runs/replicate-{r}/seed-0/splits.json")) for r in range(2))
    assert first != second
    works("train", "--resume", "runs/replicate-0", "-q", "--no-report")
    for options, message in (
        (["--group-column", "plate", "--time-column", "year"], "group_column and time_column are set"),
        (["--group-column", "plate", "--split-type", "kmeans"], "group_column and split are set"),
        (["--time-column", "year", "--num-replicates", "2"], "leave --time-column out, or use --seeds"),
        (["--split-type", "kennard_stone", "--num-replicates", "2"], "leave --split-type kennard_stone out, or use --seeds"),
        (["--split-type", "kennard_stone", "--num-folds", "2"], "folds are drawn at random, but data.split gives the splits"),
        (["--time-column", "year", "--num-folds", "2"], "--num-folds draws its own splits at random; leave out --time-column"),
        (["--time-column", "when"], "when"),
        (["--split-type", "bunita"], "split"),
        (["--splits-file", "none.json"], "none.json"),
    ):
        assert message in fails(*given, *options, "-o", "other"), options
    assert not Path("other").exists() or not list(Path("other").iterdir())


def test_patience() -> None:
    long = ("--epochs", "12", "--patience", "2", "--set", "train.optimiser.lr=1e-12", "--set", "train.average=0")
    done = works("train", "-i", table(), "--target-columns", "size", *SMALL[:-4], *long, "-o", "run", "--no-report")
    summary = read_json(Path("run/summary.json"))
    values = pd.read_csv("run/seed-0/metrics.csv")["val_rmse"].tolist()
    best = values.index(min(values))
    assert len(values) == summary["members"][0]["epochs"] == best + 3 < 12
    assert f"Training ended after {best + 3} of 12 epochs: val_rmse is best in epoch {best + 1} (patience 2)" in done.stderr
    assert (summary["report"], summary["val"]["mean"]) == ("best", pytest.approx(min(values)))


def test_absolute_errors_are_reported_for_the_loss_l1() -> None:
    given = ("train", "-i", table(), "--target-columns", "size", "-l", "l1", *SMALL)
    works(*given, "-o", "run")
    works(*given, "--metrics", "rmse", "mae", "-o", "both")
    assert [read_json(Path(run) / "summary.json")["metric"] for run in ("run", "both")] == ["mae", "rmse"]


# -- encoders --------------------------------------------------------------------------------------------------------------


def test_an_encoder_is_made_and_started_from() -> None:
    Path("few.smi").write_text("\n".join(CARBON))
    tiny = ["--set", "model.hidden_channels=8", "--set", "model.num_layers=1", "--set", "train.batch_size=16", "--minutes", "0.02"]
    assert "42 molecules with 210 descriptors" in works("pretrain", "few.smi", "-o", "enc", "--only-read", "-q").stdout
    done = works("pretrain", "few.smi", "-o", "enc", "--data", "chains", "--licence", "MIT", "-q", *tiny)
    assert "The encoder is in enc/encoder" in done.stdout
    card = read_json(Path("enc/encoder/card.json"))
    assert (card["data"], card["licence"], card["training"]["schedule"]["name"]) == ("chains", "MIT", "clock")
    assert card["training"]["epochs"] < 10_000
    short = ["-i", table(), "--target-columns", "size", "--epochs", "1", "-b", "16", "--no-report"]
    done = works("train", *short, "--from-foundation", "enc/encoder", "-o", "run")
    assert "all weights but those of the last layer" in done.stderr
    assert "started from encoder" in done.stdout
    assert read_json(Path("run/summary.json"))["start"] == "encoder"
    works("predict", "-i", "mols.csv", "--model-paths", "run", "-o", "out.csv", "-q")
    start = read_json(Path("run/environment.json"))["start"]
    assert start == {"sha256": card["sha256"], "data": "chains", "licence": "MIT"}
    works("export", "run", "-o", "model.zip")
    with zipfile.ZipFile("model.zip") as archive:
        assert "- Licence of what its weights started from: MIT" in archive.read("README.md").decode()
    Path("enc/encoder").rename("away")
    works("train", "--resume", "run", "--epochs", "2", "-q", "--no-report")  # its only model has started
    assert "does not exist" in fails("train", "--resume", "run", "--seeds", "2", "-q", "--no-report")
    Path("away").rename("enc/encoder")
    environment = Path("run/environment.json")
    environment.write_text(environment.read_text().replace(card["sha256"], "0" * 64))
    assert "have changed since the run in run was started" in fails("train", "--resume", "run", "--seeds", "2", "-q", "--no-report")
    works("train", "--resume", "run", "--epochs", "3", "-q", "--no-report")
    assert "do not fit this model" in fails(
        "train", *short, "--checkpoint", "enc/encoder", "--set", "model.hidden_channels=9", "-o", "r"
    )
    assert "expected an encoder that comes with reign" in fails("train", *short, "--from-foundation", "nope", "-o", "r")
    assert "give only one of them" in fails("train", *short, "--from-scratch", "--checkpoint", "enc/encoder", "-o", "r")
    assert "leave out where to start from" in fails("train", "--resume", "run", "--from-scratch")
    assert "has other settings than these" in fails("pretrain", "few.smi", "-o", "enc", "-q", *tiny, "--set", "seed=1")
    assert "about differs" in fails("pretrain", "few.smi", "-o", "enc", "--data", "rings", "--licence", "MIT", "-q", *tiny)
    assert "its --limit is none, and that of few.smi is 9" in fails("pretrain", "few.smi", "-o", "enc", "--limit", "9", "-q", *tiny)
    Path("few.smi").write_text("CCO")
    assert "its checksum of the SMILES is" in fails("pretrain", "few.smi", "-o", "enc", "-q", *tiny)
    for way in (
        ["--from-scratch", "--set", "train.checkpoint=x"],
        ["--from-foundation", "enc/encoder", "--set", "train.checkpoint=null"],
    ):
        assert "which say where to start; give only one of them" in fails("train", *short, *way, "-o", "r")
    Path("bad.smi").write_bytes(b"\xff\xfe")
    assert "expected a text file with one SMILES in each line" in fails("pretrain", "bad.smi", "-o", "other", "-q")
    assert "the file missing.smi does not exist" in fails("pretrain", "missing.smi", "-o", "other", "-q")


def test_numbers_start_from_the_encoder_by_default() -> None:
    short = ["-i", table(), "--target-columns", "size", "--epochs", "1", "-b", "16", "--no-report"]
    done = works("train", *short, "-o", "run")
    assert "Training starts from molecules-1: all weights but those of the last layer" in done.stderr
    assert "started from molecules-1" in done.stdout
    assert "random weights" not in works("train", *short, "--from-scratch", "-o", "scratch").stderr
    assert Recipe.load(Path("run/recipe.yaml")).train.checkpoint == "molecules-1"
    assert Recipe.load(Path("scratch/recipe.yaml")).model.name == "sun"
    assert "start" not in read_json(Path("scratch/summary.json"))
    done = works("train", *short, "--model", "ds", "-o", "other")
    assert "Training starts from random weights, because the settings of the model are not those of the encoder." in done.stderr
    works("train", "--resume", "run", "--epochs", "2", "-q", "--no-report")
    assert read_json(Path("run/summary.json"))["start"] == "molecules-1"
