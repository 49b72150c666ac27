"""The forest and the Gaussian process next to the models of a table of molecules: how their scores are shown, and predictions with them."""

import json
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import reign as package
from commands import fails, works
from reign.data.molecules import from_smiles
from reign.disk import read_json
from reign.train.predict import forest
from reign.train.predict.ensemble import KINDS
from reign.train.predict.forest import Forest
from reign.train.predict.gaussian import GaussianProcess
from reign.train.runs import baseline
from reign.train.runs.run import Run

pytest.importorskip("rdkit")
SMALL = ["--set", "model.hidden_channels=4", "--set", "model.num_layers=1", "-b", "32", "--epochs", "2", "--no-report"]
CARBON = [start + "C" * n + end for start in ("", "c1ccccc1", "C1CC1") for end in ("", "O", "N", "F") for n in range(1, 8)]
BOTH = ["--ensemble-with", "forest"]


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(forest, "TREES", 5)
    monkeypatch.setattr(forest, "LEAST_TREES", 1)
    monkeypatch.setattr(baseline, "FEWEST", 20)


def table(name: str = "mols.csv", **columns: list[Any]) -> str:
    """84 molecules with a number and a class."""
    values = {"size": [len(s) / 3 for s in CARBON], "ring": [int("c" in s) for s in CARBON], **columns}
    pd.DataFrame({"smiles": CARBON, **values}).to_csv(name, index=False)
    return name


def train(*options: Any, target: str = "size", output: str = "run") -> Any:
    return works("train", "-i", table(), "--target-columns", target, "-o", output, *SMALL, *options)


def test_its_score_stands_next_to_that_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    done = train()
    summary = read_json(Path("run/summary.json"))
    found, process = summary["baselines"]
    assert (found["name"], process["name"]) == ("forest", "gp")
    assert found["trees"] == 5
    assert process["molecules"] == len(read_json(Path("run/seed-0/splits.json"))["train"])
    assert "together" not in summary
    rows = [line.split("│")[1:-1] for line in done.stdout.splitlines() if line.startswith("│")]
    cells = {row[0].strip(): row[1].strip() for row in rows}
    assert cells["val, forest"] == f"{found['val']['mean']:.4g}"
    assert cells["test, forest"] == f"{found['test']['mean']:.4g}"
    assert cells["val, Gaussian process"] == f"{process['val']['mean']:.4g}"
    scores = {
        "the model": summary["val"]["mean"],
        "the forest": found["val"]["mean"],
        "the Gaussian process": process["val"]["mean"],
    }
    winner = min(scores, key=lambda name: scores[name])
    rows_held = len(read_json(Path("run/seed-0/splits.json"))["val"])
    line = f"On the {rows_held} validation rows {winner} is best: rmse " + ", ".join(
        f"{value:.4g} of {name}" for name, value in scores.items()
    )
    line += "; so few rows hardly decide, and --num-folds 5 compares on all rows."
    line += "" if winner == "the model" else " A run with --ensemble-with forest gp predicts with them, too."
    assert line in done.stdout.splitlines()
    notes = [line for line in done.stderr.splitlines() if "forest" in line]
    assert len(notes) == 1
    assert notes[0].startswith("To compare with, a forest (5 trees, ")
    assert f" and a Gaussian process ({process['molecules']} molecules, " in notes[0]
    kept = pd.read_csv("run/predictions.csv")  # the model alone predicts
    own = pd.read_csv("run/seed-0/predictions.csv")
    assert kept["size_pred"].tolist() == own["size_pred"].tolist()
    table_rows = pd.read_csv("mols.csv")
    splits = read_json(Path("run/seed-0/splits.json"))
    rows_of = {split: [int(name) - 1 for name in names] for split, names in splits.items()}
    held = table_rows.iloc[rows_of["val"]]
    x = forest.describe(*graphs_and_texts(held["smiles"]), Run("run").recipe.data, package.train.Callback())
    out = Forest.load(Path("run/forest.safetensors"), 1)(x)[:, 0].numpy()
    assert found["val"]["mean"] == pytest.approx(float(np.sqrt(((out - held["size"]) ** 2).mean())))
    works("report", "run", "-q")
    page = Path("run/report.html").read_text()
    assert "val, forest" in page
    assert line in page
    monkeypatch.setattr(Forest, "fit", None)
    monkeypatch.setattr(GaussianProcess, "fit", None)
    Path("run/summary.json").unlink()
    works("train", "--resume", "run", "--no-report")  # both are there and are not fitted again
    again = read_json(Path("run/summary.json"))["baselines"]
    before = [each[key]["mean"] for each in (found, process) for key in ("val", "test")]
    assert [each[key]["mean"] for each in again for key in ("val", "test")] == pytest.approx(before)


def graphs_and_texts(texts: Any) -> tuple[Any, list[list[str]]]:
    from reign.data import GraphPack

    return GraphPack.of([from_smiles(text) for text in texts]), [list(texts)]


def test_it_is_fitted_while_the_models_are_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    from reign.train.runs import train as runs

    fitted, fit, run_jobs = threading.Event(), Forest.fit, runs.run_jobs
    monkeypatch.setattr(Forest, "fit", lambda *given: fitted.set() or fit(*given))
    monkeypatch.setattr(runs, "run_jobs", lambda *given: run_jobs(*given) if fitted.wait(60) else pytest.fail("it waits"))
    train("-q")
    assert read_json(Path("run/summary.json"))["baselines"][0]["trees"] == 5


def test_a_forest_that_cannot_be_used_never_ends_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    train("-q")
    before, fit = read_json(Path("run/summary.json"))["baselines"][0], Forest.fit
    Path("run/forest.safetensors").write_bytes(b"damaged")
    for made in (None, fit):
        monkeypatch.setattr(Forest, "fit", made)
        Path("run/summary.json").unlink()
        done = works("train", "--resume", "run", "--no-report")
        assert ("There is no forest to compare with: " in done.stderr) == (made is None)
        after = {each["name"]: each for each in read_json(Path("run/summary.json"))["baselines"]}
        assert list(after) == (["gp"] if made is None else ["forest", "gp"])
        assert made is None or [after["forest"][key] for key in ("val", "test")] == [before[key] for key in ("val", "test")]


def test_molecules_that_cannot_be_described_never_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "describe", None)
    done = train()
    assert "There is no baseline to compare with: " in done.stderr
    assert "baselines" not in read_json(Path("run/summary.json"))


def test_one_that_fails_leaves_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_to_fit(*given: Any, **more: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(GaussianProcess, "fit", fails_to_fit)
    done = train(*BOTH)
    assert [each["name"] for each in read_json(Path("run/summary.json"))["baselines"]] == ["forest"]
    assert "There is no Gaussian process to compare with: no room" in done.stderr
    assert "together" in read_json(Path("run/summary.json"))
    message = fails("train", "-i", table(), "--target-columns", "size", "-o", "other", *SMALL, "-q", "--ensemble-with", "gp")
    assert "memory" in message


def test_its_words_stand_where_a_recipe_may_stand() -> None:
    train("--ensemble-with", "gp", "forest")
    assert Run("run").recipe.ensemble_with == ["forest", "gp"]
    Path("run/summary.json").unlink()
    works("train", "--resume", "run", "--ensemble-with", "gp", "forest", "--no-report", "-q")
    settings = {"data": {"path": str(Path("mols.csv").absolute()), "target_columns": ["size"]}, "ensemble_with": "gp"}
    Path("rec.yaml").write_text(json.dumps({**settings, "model": {"hidden_channels": 4, "num_layers": 1}, "train": {"epochs": 1}}))
    works("train", "--ensemble-with", "forest", "gp", "rec.yaml", "-o", "other", "-q", "--no-report")
    assert Run("other").recipe.ensemble_with == ["forest", "gp"]


def test_without_it() -> None:
    done = train("--no-baseline", output="none")
    assert "forest" not in done.stdout + done.stderr
    assert "baselines" not in read_json(Path("none/summary.json"))
    assert not [*Path("none").rglob("forest*"), *Path("none").rglob("gp*")]
    few = works("train", "-i", table(), "--target-columns", "size", "-o", "few", *SMALL, "--split-sizes", "0.2", "0", "0.8")
    assert "forest" not in few.stdout + few.stderr
    done = works("train", "-i", table(), "--target-columns", "size", "-o", "held", *SMALL, "--split-sizes", "0.8", "0", "0.2")
    assert "There are no validation rows that could say whether the forest and the Gaussian process are better." in done.stdout
    works("train", "-i", table(), "--target-columns", "size", "-o", "all", *SMALL, "--split-sizes", "1", "0", "0")
    assert not Path("all/forest.safetensors").exists()  # there are no rows to compare it on
    assert "the baselines that --no-baseline leaves out" in fails(
        "train", "-i", "mols.csv", "-o", "other", *BOTH, "--no-baseline", "-q"
    )
    assert "should be 'forest' or 'gp'" in fails("train", "-i", "mols.csv", "-o", "other", "--ensemble-with", "trees", "-q")
    assert "data.name is 'zinc'" in fails("train", "zinc/gin", "-o", "other", *BOTH, "-q")


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "MOST", 50)
    train()
    assert "baselines" not in read_json(Path("run/summary.json"))
    message = fails("train", "-i", "mols.csv", "--target-columns", "size", "-o", "other", *SMALL, "-q", *BOTH)
    assert "for tables of at most 50 molecules, but mols.csv has 84" in message
    assert not Path("other/recipe.yaml").is_file()


def test_predictions_with_both() -> None:
    options = ["--split-sizes", "0.4", "0.4", "0.2", "--seeds", "2"]
    train(*options, output="alone")
    train(*options, *BOTH)
    texts = ["CCCCCO", "c1ccccc1CCCN", "no molecule", "CCCCCCCCCC"]
    alone, both = package.load("alone"), package.load("run")
    graphs, smiles = graphs_and_texts([text for text in texts if " " not in text])
    trees = Forest.load(Path("run/forest.safetensors"), 1)(
        forest.describe(graphs, smiles, both.recipe.data, package.train.Callback())
    )[:, 0]
    good = [0, 1, 3]
    found = both.predict(texts)
    assert found["error"].iloc[2]
    expected = (
        alone.predict(texts)["size_pred"].iloc[good].to_numpy() + trees.numpy()
    ) / 2  # the forest counts as much as all models
    assert found["size_pred"].iloc[good].to_numpy() == pytest.approx(expected)
    assert {"size_unc", "size_lower", "size_upper"} <= set(found.columns)
    pd.DataFrame({"smiles": texts}).to_csv("new.csv", index=False)
    works("predict", "-i", "new.csv", "--model-paths", "run", "-o", "out.csv", "-q")
    assert pd.read_csv("out.csv")["size_pred"].iloc[good].to_numpy() == pytest.approx(expected)
    works("export", "run", "-o", "run.zip", "-q")
    assert package.load("run.zip").predict(texts)["size_pred"].iloc[good].to_numpy() == pytest.approx(expected)
    summary = read_json(Path("run/summary.json"))
    together = summary["together"]
    kept = pd.read_csv("run/predictions.csv")
    assert together["test"]["mean"] == pytest.approx(float(np.sqrt(((kept["size_pred"] - kept["size"]) ** 2).mean())))
    done = works("evaluate", "run", "-q")
    assert f"ensemble of 2 and the forest: test rmse {together['test']['mean']:.5g}" in done.stdout
    done = works("evaluate", "run", "-i", "mols.csv", "-q")
    assert "ensemble of 2 and the forest: mols.csv rmse" in done.stdout
    with pytest.raises(ValueError, match="predict for SMILES, not for graphs"):
        both.predict([from_smiles("CCO")])
    assert package.load("run", best=True).predict(["CCO"]).shape[0] == 1


def test_predictions_of_models_with_a_forest_and_a_gaussian_process() -> None:
    """Each of them counts as much as all models, wherever a run predicts."""
    options = ["--split-sizes", "0.4", "0.4", "0.2", "--seeds", "2"]
    train(*options, output="alone")
    train(*options, "--ensemble-with", "forest", "gp")
    texts = ["CCCCCO", "c1ccccc1CCCN", "CCCCCCCCCC"]
    graphs, smiles = graphs_and_texts(texts)
    x = forest.describe(graphs, smiles, Run("run").recipe.data, package.train.Callback())
    beside = [kind.load(Path(f"run/{name}.safetensors"), 1)(x)[:, 0].numpy() for name, kind in KINDS.items()]
    expected = (package.load("alone").predict(texts)["size_pred"].to_numpy() + beside[0] + beside[1]) / 3
    assert np.abs(beside[0] - beside[1]).min() > 1e-3
    assert package.load("run").predict(texts)["size_pred"].to_numpy() == pytest.approx(expected)
    said = works("export", "run", "-o", "run.zip", "-q") and package.load("run.zip")
    assert said.predict(texts)["size_pred"].to_numpy() == pytest.approx(expected)
    with zipfile.ZipFile("run.zip") as file:
        card = file.read("README.md").decode()
    assert "the mean of this and of the forest and the Gaussian process, on counts" in card
    assert "The leaves of the forest hold labels of training molecules. The Gaussian process holds fingerprints" in card
    summary = read_json(Path("run/summary.json"))
    assert summary["partners"] == ["forest", "gp"]
    done = works("evaluate", "run", "-q")
    assert (
        f"ensemble of 2 and the forest and the Gaussian process: test rmse {summary['together']['test']['mean']:.5g}" in done.stdout
    )
    with pytest.raises(ValueError, match="with the forest and the Gaussian process, too, from SMILES; predict for SMILES"):
        package.load("run").predict([from_smiles("CCO")])
    train(*options, "--ensemble-with", "gp", output="one")
    found = package.load("one").predict(texts)["size_pred"].to_numpy()
    assert found == pytest.approx((package.load("alone").predict(texts)["size_pred"].to_numpy() + beside[1]) / 2)
    assert list(read_json(Path("one/summary.json"))["together"]) == ["val", "test"]
    message = fails(
        "train",
        "-i",
        "mols.csv",
        "--target-columns",
        "ring",
        "-t",
        "classification",
        "-o",
        "no",
        *SMALL,
        "-q",
        "--ensemble-with",
        "gp",
    )
    assert "--ensemble-with gp is for numbers, but the targets are classes" in message
    assert "expected each name once" in fails("train", "-i", "mols.csv", "-o", "no", "-q", "--ensemble-with", "gp", "gp")
    train("-t", "classification", target="ring", output="classes")
    assert [each["name"] for each in read_json(Path("classes/summary.json"))["baselines"]] == ["forest"]


def test_one_model_and_a_forest_have_intervals() -> None:
    train(*BOTH, "--split-sizes", "0.4", "0.4", "0.2")
    found = package.load("run").predict(["CCCCCO"])
    assert found["size_lower"].iloc[0] < found["size_pred"].iloc[0] < found["size_upper"].iloc[0]
    assert "ensemble" in read_json(Path("run/calibration.json"))["intervals"]
    name = "prediction of the models, without the forest"
    works("explain", "run", "--smiles", "CCCCCO", "-o", "page.html", "--csv", "scores.csv", "-q")
    both, alone = found["size_pred"].iloc[0], pd.read_csv("scores.csv")[name].iloc[0]
    trees = Forest.load(Path("run/forest.safetensors"), 1)(
        forest.describe(*graphs_and_texts(["CCCCCO"]), Run("run").recipe.data, package.train.Callback())
    )
    assert both == pytest.approx((alone + trees.item()) / 2)
    assert f"size: the {name} is" in Path("page.html").read_text()


@pytest.mark.parametrize("task", ["classification", "multiclass"])
def test_probabilities_are_averaged(task: str) -> None:
    options = ["-t", task, "--split-sizes", "0.4", "0.4", "0.2"]
    train(*options, target="ring", output="alone")
    train(*options, *BOTH, target="ring")
    texts, column = ["CCCCCO", "c1ccccc1CCCN"], "ring_pred" if task == "classification" else "ring_prob_1"
    graphs, smiles = graphs_and_texts(texts)
    x = forest.describe(graphs, smiles, Run("run").recipe.data, package.train.Callback())
    trees = Forest.load(Path("run/forest.safetensors"), 1 if task == "classification" else 2)(x)[:, -1].numpy()
    alone, both = (package.load(place).predict(texts)[column].to_numpy() for place in ("alone", "run"))
    assert both == pytest.approx((alone + trees) / 2)


def test_folds_have_their_own_forests() -> None:
    done = works("train", "-i", table(), "--target-columns", "size", "-o", "run", *SMALL, *BOTH, "--num-folds", "3")
    summary = read_json(Path("run/summary.json"))
    found = summary["baselines"][0]
    files = sorted(Path("run").rglob("forest.safetensors"))
    assert [str(file.parent) for file in files] == [f"run/seed-0/fold-{f}" for f in range(3)]
    assert len({file.read_bytes() for file in files}) == 3
    assert len(found["val"]["values"]) == len(summary["together"]["val"]["values"]) == 3
    assert "val, together" in done.stdout
    works("export", "run", "-o", "run.zip", "-q")
    one, two = (package.load(place).predict(["CCCCO"])["size_pred"].iloc[0] for place in ("run", "run.zip"))
    assert one == two


def test_columns_of_smiles_are_told_apart() -> None:
    table(other=[*CARBON[1:], CARBON[0]])
    columns = ["-s", "smiles", "-s", "other"]
    works("train", "-i", "mols.csv", *columns, "--target-columns", "size", "-o", "run", *SMALL, *BOTH)
    pd.DataFrame({"smiles": ["CCCCCCO", "c1ccccc1C"], "other": ["c1ccccc1C", "CCCCCCO"]}).to_csv("new.csv", index=False)
    works("predict", "-i", "new.csv", "--model-paths", "run", "-o", "out.csv", "-q")
    first, second = pd.read_csv("out.csv")["size_pred"]
    assert abs(first - second) > 1e-3  # the model sees one graph, but the forest sees which molecule is in which column
    works("predict", "-i", "new.csv", "--model-paths", "run", "-o", "out1.csv", "-q", "--num-workers", "1")
    assert Path("out.csv").read_bytes() == Path("out1.csv").read_bytes()
    with pytest.raises(ValueError, match="needs the SMILES of smiles, other apart"):
        package.load("run").predict(["CCO.CC"])


def test_a_forest_of_a_stranger() -> None:
    train(*BOTH)
    file = Path("run/forest.safetensors")
    content = bytearray(file.read_bytes())
    content[-64:] = b"\xff" * 64
    file.write_bytes(bytes(content))
    pd.DataFrame({"smiles": ["CCO"]}).to_csv("new.csv", index=False)
    assert "forest.safetensors is damaged" in fails("predict", "-i", "new.csv", "--model-paths", "run", "-o", "out.csv", "-q")
    file.unlink()
    assert "forest.safetensors is damaged" in fails("predict", "-i", "new.csv", "--model-paths", "run", "-o", "out.csv", "-q")
    assert not Path("out.csv").exists()
    Path("run/summary.json").unlink()
    file.write_bytes(bytes(content))
    said = fails("train", "--resume", "run", "-q")
    assert "forest.safetensors is damaged" in said
    assert "To fit it again, delete the file, and continue with: reign train --resume run" in said
    file.unlink()
    works("train", "--resume", "run", "-q", "--no-report")
    works("predict", "-i", "new.csv", "--model-paths", "run", "-o", "out.csv", "-q")


def test_replicates() -> None:
    done = train("--num-replicates", "2", output="runs")
    for r in range(2):
        assert "baselines" in read_json(Path(f"runs/replicate-{r}/summary.json"))
        assert f"replicate {r}: On the " in done.stdout
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if line.startswith("│")]
    values = [read_json(Path(f"runs/replicate-{r}/summary.json"))["baselines"][1]["test"]["mean"] for r in range(2)]
    assert [row[-1] for row in rows[:3]] == [f"{value:.4g}" for value in [*values, sum(values) / 2]]
