"""MoleculeACE: sets from each place they can be read from, their splits and cliffs, and the means and ranks of the table."""

import io
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from reign.data import DATASETS, load_problem
from reign.data.sets._activity import SETS, MoleculeACE
from reign.disk import read_json
from reign.experiments import find_table
from reign.experiments.pages import results_markdown
from reign.experiments.paper import PaperTable, cells
from reign.experiments.records import read_records, record_table
from reign.experiments.reproduce import Cell, comparison_table, reproduce
from reign.smiles import Molecule
from reign.train.engine.execution import make_fabric

SMILES = ["C" * n for n in range(1, 21)] + ["C" * n + "O" for n in range(1, 6)] + ["C[C@H](N)O"]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REIGN_CACHE", str(tmp_path / "cache"))


def tiny_table() -> pd.DataFrame:
    """As the official tables: 20 rows to learn from, and six to test, two of which are cliffs. Training cliffs are no test cliffs."""
    n = range(len(SMILES))
    split = ["train"] * 20 + ["test"] * 6
    cliff = [int(i in (3, 21, 25)) for i in n]
    return pd.DataFrame(
        {"smiles": SMILES, "exp_mean [nM]": [10.0**i for i in n], "y": [-float(i) for i in n], "cliff_mol": cliff, "split": split}
    )


def labels(problem: Any) -> dict[str, list[float]]:
    return {split: problem.y[ids, 0].tolist() for split, ids in problem.splits.items()}


@pytest.mark.parametrize("place", ["CHEMBL204_Ki.csv", "moleculeace/CHEMBL204_Ki.csv", "moleculeace.csv.xz", "download"])
def test_a_set_from_each_place(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, table = tmp_path / "data", tiny_table()
    (folder / "moleculeace").mkdir(parents=True)
    monkeypatch.setenv("REIGN_DATA", str(folder))
    if place == "moleculeace.csv.xz":
        other = table.assign(set="CHEMBL1862_Ki", y=7.0)
        both = pd.concat([other, table.assign(set="CHEMBL204_Ki")]).rename(columns={"cliff_mol": "cliff"})
        both.drop(columns="exp_mean [nM]").to_csv(folder / place, index=False)
    elif place != "download":
        table.to_csv(folder / place, index=False)

    def fetch(url: str) -> io.BytesIO:
        assert place == "download"
        assert url.startswith("https://raw.githubusercontent.com/molML/MoleculeACE/")
        assert url.endswith("/benchmark_data/CHEMBL204_Ki.csv")
        found = io.BytesIO(table.to_csv(index=False).encode())
        found.headers, found.url, found.status = {}, url, 200  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(urllib.request, "urlopen", fetch)
    problem = load_problem("moleculeace", set="CHEMBL204_Ki")
    found = labels(problem)
    assert sorted(found["train"] + found["val"]) == [-float(i) for i in range(19, -1, -1)]
    assert (len(found["train"]), len(found["val"])) == (18, 2)
    assert found["test"] == [-20.0, -21.0, -22.0, -23.0, -24.0, -25.0]
    assert found["cliff"] == [-21.0, -25.0]
    assert found["noncliff"] == [-20.0, -22.0, -23.0, -24.0]
    assert [problem.texts["smiles"][i] for i in problem.splits["cliff"]] == ["CCO", "C[C@H](N)O"]
    g = int(problem.splits["test"][-1])
    x = problem.graphs.x[problem.graphs.node_ptr[g] : problem.graphs.node_ptr[g + 1]]
    assert torch.equal(x, Molecule.read("C[C@H](N)O").graph().x)  # with the parity, as in tables of molecules
    assert int(x[1, 1]) != 0


def test_folds_do_not_repeat_test_molecules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graphs of cliff and noncliff are copies of those of test, and would otherwise be on both sides of a fold."""
    monkeypatch.setenv("REIGN_DATA", str(tmp_path))
    tiny_table().to_csv(tmp_path / "CHEMBL204_Ki.csv", index=False)
    for fold in load_problem("moleculeace", set="CHEMBL204_Ki").folds(5, 0):
        found = labels(fold)
        assert sorted(found["train"] + found["val"]) == [-float(i) for i in range(25, -1, -1)]


def test_what_is_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REIGN_DATA", str(tmp_path))

    def refuse(url: str) -> io.BytesIO:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with pytest.raises(
        ValueError,
        match=r"CHEMBL204_Ki.csv cannot be downloaded \(.*no network.*\). Put CHEMBL204_Ki.csv, as it is there, into the folder",
    ):
        MoleculeACE(set="CHEMBL204_Ki")
    with pytest.raises(ValueError, match="set is 'CHEMBL204', expected one of CHEMBL1862_Ki, CHEMBL1871_Ki, "):
        MoleculeACE(set="CHEMBL204")
    for change, message in (
        ({"split": "valid"}, "has the split 'valid', expected train or test"),
        ({"cliff_mol": 2}, "has the cliff '2', expected 0 or 1"),
    ):
        tiny_table().assign(**change).to_csv(tmp_path / "CHEMBL204_Ki.csv", index=False)
        with pytest.raises(ValueError, match=message):
            MoleculeACE(set="CHEMBL204_Ki")
    tiny_table().drop(columns="y").to_csv(tmp_path / "CHEMBL204_Ki.csv", index=False)
    with pytest.raises(ValueError, match=r"CHEMBL204_Ki.csv has no column 'y', expected smiles, y, cliff_mol and split"):
        MoleculeACE(set="CHEMBL204_Ki")


def test_all_real_sets(real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row once in train, val or test; molecules are not read here, which takes long."""

    class Unread:
        @staticmethod
        def read(smiles: str) -> Any:
            return type("M", (), {"graph": staticmethod(lambda: Data())})

    monkeypatch.setattr("reign.data.molecules.Molecule", Unread)
    whole = pd.read_csv(real_data / "moleculeace.csv.xz")
    names = sorted(set(whole["set"]))
    assert (len(names), len(whole)) == (20, 32_519)
    for name in names:
        new = MoleculeACE.__new__(MoleculeACE)
        new.options = MoleculeACE.complete({"set": name})
        made, rows = new.make(), whole[whole["set"] == name]
        text = {split: [bytes(d.smiles.tolist()).decode() for d in part] for split, part in made.items()}
        test, cliff = rows[rows["split"] == "test"], rows[(rows["split"] == "test") & (rows["cliff"] == 1)]
        assert text["test"] == list(test["smiles"])
        assert text["cliff"] == list(cliff["smiles"])
        assert set(text["cliff"]) | set(text["noncliff"]) == set(text["test"])
        assert len(text["cliff"]) + len(text["noncliff"]) == len(text["test"])
        assert [float(d.y) for d in made["test"]] == pytest.approx(list(test["y"]))
        assert sorted(text["train"] + text["val"]) == sorted(rows[rows["split"] == "train"]["smiles"])
        assert 0 <= len(text["val"]) - (len(text["train"]) + len(text["val"])) // 10 <= 1


def test_one_real_set(real_data: Path) -> None:
    """CHEMBL2835_Ki with its molecules."""
    problem = load_problem("moleculeace", set="CHEMBL2835_Ki")
    assert {split: ids.numel() for split, ids in problem.splits.items()} == {
        "train": 441,
        "val": 48,
        "test": 126,
        "cliff": 13,
        "noncliff": 113,
    }
    assert problem.graphs.x.size(1) == 9


# -- the table -----------------------------------------------------------------------------------------------------------------


def test_the_table_has_all_sets_and_quoted_numbers() -> None:
    table = find_table("moleculeace")
    assert list(table.columns)[:30] == SETS
    assert len(table.columns) == 90
    assert {table.own_run(f"{name}-{part}") == name for name in SETS for part in ("cliff", "noncliff")} == {True}
    assert [table.columns[c].value for c in ("CHEMBL204_Ki", "CHEMBL204_Ki-cliff", "CHEMBL204_Ki-noncliff")] == [
        "test",
        "cliff",
        "noncliff",
    ]
    for numbers in table.quoted.values():
        assert set(numbers) == {name for each in SETS for name in (each, f"{each}-cliff")}
    one = cells(table, ["scratch"], ["CHEMBL237_*"])
    assert [column for _, column in one if "-" not in column] == ["CHEMBL237_EC50", "CHEMBL237_Ki"]
    with pytest.raises(ValueError, match="unknown column 'CHEMBL2'"):
        list(cells(table, columns=["CHEMBL2"]))


@pytest.mark.parametrize(
    ("row", "recipe", "partners"),
    [
        ("scratch", "molecules", []),
        ("pretrained", "molecules-pretrained", []),
        ("with-forest", "molecules-pretrained", ["forest"]),
        ("with-both", "molecules-pretrained", ["forest", "gp"]),
    ],
)
def test_rows_have_the_settings_of_reign_train(row: str, recipe: str, partners: list[str]) -> None:
    ours, default = find_table("moleculeace").recipe(row, "CHEMBL204_Ki"), find_table(recipe).rows["run"]
    assert default.settings == {}
    like = find_table(recipe).recipe("run", "test", {"data": {"path": "x.csv"}, "train": {"metric": "rmse"}})
    assert (ours.model, ours.train, ours.ensemble_with) == (like.model, like.train, partners)
    assert DATASETS["moleculeace"].stereo == like.data.stereo == ours.data.stereo_of_graphs


@pytest.mark.parametrize("row", ["scratch", "with-forest"])
@pytest.mark.usefixtures("signatures_unchecked")
def test_cliffs_of_a_run_are_those_of_its_predictions(row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the table of a set to the records: both RMSEs follow from the predictions for the test molecules."""
    monkeypatch.setenv("REIGN_DATA", str(tmp_path))
    tiny_table().to_csv(tmp_path / "CHEMBL204_Ki.csv", index=False)
    table, run = find_table("moleculeace"), tmp_path / "runs" / row / "CHEMBL204_Ki"
    small = {"model": {"hidden_channels": 4, "num_layers": 1}, "train": {"epochs": 2, "average": 0, "checkpoint": None}}
    found = reproduce(table, tmp_path / "runs", small, rows=[row], columns=["CHEMBL204_Ki*"], fabric=make_fabric(accelerator="cpu"))
    predicted = pd.read_csv(run / "predictions.csv")
    assert list(predicted["smiles"]) == SMILES[20:]
    error = (predicted["-log10 nM_pred"] - predicted["-log10 nM"]) ** 2
    expected = {"CHEMBL204_Ki": error, "CHEMBL204_Ki-cliff": error[[1, 5]], "CHEMBL204_Ki-noncliff": error[[0, 2, 3, 4]]}
    assert {c.column: c.ours for c in found} == pytest.approx({name: e.mean() ** 0.5 for name, e in expected.items()}, rel=1e-4)
    assert len({round(c.ours, 4) for c in found}) == 3
    files = record_table(tmp_path / "runs", "moleculeace", table, tmp_path / "results")
    if row == "with-forest":  # the numbers are those of both, and a record has those of single models
        summary = read_json(run / "summary.json")
        assert summary["together"]["cliff"]["mean"] == found[1].ours
        assert found[1].ours not in (summary["parts"]["cliff"]["mean"], summary["baselines"][0]["parts"]["cliff"]["mean"])
        assert files == []
        return
    (file,) = files
    assert file.name == "scratch--CHEMBL204_Ki.json"
    page = results_markdown(read_records(tmp_path / "results"))
    assert "| model | test (1) | rank | cliff (1) | rank | noncliff (1) | rank |" in page
    assert f"| reign train -i, --from-scratch | {found[0].ours:.4g} | 5.0 of 5 | {found[1].ours:.4g} |" in page


def test_the_mean_of_training_targets_as_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each set has the mean of its own targets, and a number for every kind of molecules."""
    monkeypatch.setenv("REIGN_DATA", str(tmp_path))
    rows, names = tiny_table(), ("CHEMBL204_Ki", "CHEMBL1862_Ki")
    for name, shift in zip(names, (0.0, 100.0), strict=True):
        rows.assign(y=rows["y"] * (1 + shift)).to_csv(tmp_path / f"{name}.csv", index=False)
    about = {name: {"settings": {"data": {"options": {"set": name}}}} for name in names}
    table = PaperTable.model_validate(
        {
            "title": "t", "unit": "u", "also": ["cliff"], "columns": about, "rows": {"mean": {"title": "mean", "trivial": True}},
            "settings": {"data": {"name": "moleculeace"}, "model": {"name": "sun"}, "train": {"metric": "mae"}},
        }
    )  # fmt: skip
    found = {cell.column: cell.ours for cell in reproduce(table, tmp_path / "runs")}
    for name, shift in zip(names, (0.0, 100.0), strict=True):
        problem = load_problem("moleculeace", set=name)
        mean = problem.y[problem.splits["train"]].mean()
        for column, split in ((name, "test"), (f"{name}-cliff", "cliff")):
            assert found[column] == pytest.approx(float((problem.y[problem.splits[split]] - mean).abs().mean()), rel=1e-5), shift


def test_rows_of_equal_titles_and_a_single_row() -> None:
    table = PaperTable.model_validate(
        {
            "title": "t", "unit": "u", "settings": {}, "also": ["cliff"], "columns": {"a": {}},
            "rows": {"one": {"title": "same"}, "two": {"title": "same"}}, "quoted": {"one": {"a": None}},
        }
    )  # fmt: skip
    found = [Cell("one", "a", 1.0, None, 1, None, None), Cell("two", "a", 2.0, None, 1, None, None)]
    found.append(Cell("one", "a-cliff", 3.0, None, 1, None, None))
    shown = [list(map(str, row)) for row in comparison_table(table, found, quick=False).rows]
    assert shown == [["same", "1", "1.0 of 2", "3", ""], ["same", "2", "2.0 of 2", "", ""], ["one (quoted)", "", "", "", ""]]


def test_means_and_ranks() -> None:
    table = PaperTable.model_validate(
        {
            "title": "t", "unit": "u", "settings": {}, "also": ["cliff"], "columns": {"a": {}, "b": {}},
            "rows": {"one": {"title": "ours"}, "two": {"title": "worse"}},
            "quoted": {"theirs": {"a": 2.0, "b": 1.0, "a-cliff": 3.0}},
        }
    )  # fmt: skip
    assert list(table.columns) == ["a", "b", "a-cliff", "b-cliff"]
    numbers = {"one": [1.0, 2.0, 4.0, 5.0], "two": [3.0, 5.0, 4.5, 5.5]}
    found = [Cell(row, c, v, None, 1, None, None) for row, own in numbers.items() for c, v in zip(table.columns, own, strict=True)]
    shown = comparison_table(table, found, quick=False)
    assert list(shown.columns) == ["model", "test (2)", "rank", "cliff (2)", "rank"]
    assert [list(map(str, row)) for row in shown.rows] == [
        ["ours", "1.5", "1.5 of 3", "4.5", "1.0 of 2"],
        ["worse", "4", "3.0 of 3", "5", "2.0 of 2"],
        ["theirs (quoted)", "1.5", "1.5 of 3", "", ""],  # it has no cliffs of b
    ]
