"""Warnings for what is beyond the training molecules: their size, their features, and the range of their targets."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from reign.data import GraphPack, Problem
from reign.data.molecules import Molecule, from_smiles
from reign.experiments import find_recipe
from reign.train import load, train
from reign.train.engine.callbacks import Callback
from reign.train.predict.nearest import Domain
from reign.train.predict.shards import Actor, predict_folder

ALKANES = ["C" * n for n in range(2, 9)]
INSIDE = "CCCC"


FILE = "domain.json"


def known(targets: Sequence[float] = (1.0, 3.0), texts: Sequence[str] = (*ALKANES, "C[N+](C)(C)C")) -> Domain:
    """The domain of a training on these molecules, with targets in the order of the molecules."""
    graphs = [from_smiles(text) for text in texts]
    for n, data in enumerate(graphs):
        data.y = torch.tensor([targets[n % len(targets)], float("nan") if n == 0 else 7.0])
    other = from_smiles("c1ccccc1Br")  # which is not trained on
    other.y = torch.tensor([99.0, 99.0])
    problem = Problem.of(graphs, test=[other], targets=["a", "b"])
    return Domain.of_training(problem, problem.splits["train"])


def warned(domain: Domain, *texts: str, a: float = 2.0, b: float = 7.0) -> list[str]:
    values = {"a": [a] * len(texts), "b": [b] * len(texts)}
    return domain.warnings(GraphPack.of([from_smiles(text) for text in texts]), values)


def test_only_training_molecules_count() -> None:
    domain = known()
    assert domain.atoms == (2, 8)
    assert domain.features is not None
    assert domain.features["atom"][0] == [5, 6]  # carbon and nitrogen
    assert domain.features["bond"] == [[0], [0], [0]]
    assert domain.targets == {"a": (1.0, 3.0), "b": (7.0, 7.0)}


def test_what_is_beyond_the_training_molecules() -> None:
    domain = known()
    assert warned(domain, INSIDE, "C" * 10, "C" * 11, "C") == [
        "",
        "",  # within the margin
        "11 atoms, but the training molecules have 2 to 8",
        "1 atom, but the training molecules have 2 to 8; no training molecule has an atom with 4 hydrogens",
    ]
    assert warned(domain, "CC[SiH2]C", INSIDE, "C1CC1") == [
        "no training molecule has the element Si",
        "",
        "no training molecule has an atom in a ring",
    ]
    assert warned(domain, "C[Fe+3]C") == [
        "no training molecule has the element Fe or an atom of degree 2 or an atom of charge 3 (and 1 more)"
    ]


def test_a_parity_is_not_called_by_the_tag_of_rdkit() -> None:
    """The column of chirality has RDKit's tags for "ogb" only. If all training molecules lack chirality, both parities are called the same."""
    one, both = "C[C@H](N)O", "C[C@H](N)[C@H](O)C"
    flat = known(texts=["CC(N)O", "CC(N)C(O)C"])
    assert warned(flat, one) == ["no training molecule has an atom of chirality CHI_TETRAHEDRAL_CCW"]
    chiral = GraphPack.of([Molecule.read(text).graph() for text in (one, both, "CC(N)O")])
    assert chiral.x[:, 1].unique().tolist() == [0, 1, 2]
    assert replace(flat, stereo="parity").warnings(chiral, {}) == [*["no training molecule has a chiral centre"] * 2, ""]
    half = replace(known(texts=[one, "CC(N)C(O)C"]), stereo="parity")  # has one of the two parities
    said = half.warnings(GraphPack.of([Molecule.read(text).graph() for text in (one, "C[C@@H](N)O")]), {})
    assert sorted(said) == ["", "no training molecule has a chiral centre of this parity"]


def test_predictions_far_outside_the_targets() -> None:
    """The margin is a quarter of the range. A target that is constant has no range."""
    domain = known()
    assert warned(domain, INSIDE, a=3.5) == warned(domain, INSIDE, a=0.5, b=1e9) == [""]
    said = "predicted far outside the training targets: a is -11410 (1 to 3 in training)"
    assert warned(domain, INSIDE, a=-11410.0) == [said]
    assert warned(domain, INSIDE, a=3.51)[0].startswith("predicted far outside")
    many = Domain(targets=dict.fromkeys("abcde", (0.0, 1.0)))
    assert many.warnings(GraphPack.of([from_smiles("C")]), {name: [9.0] for name in "abcde"}) == [
        "predicted far outside the training targets: a is 9 (0 to 1 in training), b is 9 (0 to 1 in training), c is 9 (0 to 1 in training) "
        "(and 2 more)"
    ]


def test_several_runs_are_one_domain() -> None:
    """A molecule is beyond the domain of several runs if it is beyond that of each."""
    one, two = known(), known((0.0, 1.0), ["CCN", "c1ccccc1" * 3])
    for both in (one.joined(two), two.joined(one)):
        assert (both.atoms, both.targets["a"]) == ((2, 18), (0.0, 3.0))
        assert warned(both, "CN", "c1ccccc1c1ccccc1", "C[N+](C)(C)C") == ["", "", ""]
        assert warned(both, "C[SiH2]C") == ["no training molecule has the element Si"]
    unknown = one.joined(Domain(targets={"a": (0.0, 1.0)}))
    assert warned(unknown, "[Xe]") == [""]
    assert warned(unknown, "[Xe]", a=9.0) == ["predicted far outside the training targets: a is 9 (0 to 3 in training)"]


def test_a_file_that_is_damaged(tmp_path: Path) -> None:
    domain = known()
    domain.save(tmp_path / FILE)
    assert Domain.load(tmp_path / FILE) == domain
    good = json.loads((tmp_path / FILE).read_text())
    changes: list[dict[str, Any]] = [
        {"atoms": [1]}, {"atoms": ["1", 2]}, {"atom": [[1]]}, {"bond": [[0], [0], [-1]]}, {"bond": [[0], [0], [2**70]]}, {"bond": [0, 0, 0]},
        {"targets": {"a": [0, float("nan")]}}, {"targets": {"a": 1}}, {"targets": []},
    ]  # fmt: skip
    for change in changes:
        (tmp_path / FILE).write_text(json.dumps({**good, **change}))
        with pytest.raises(ValueError, match=r"domain\.json is damaged"):
            Domain.load(tmp_path / FILE)


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    texts = [start + "C" * n + end for start in ("", "O") for end in ("", "N") for n in range(3, 8)]
    pd.DataFrame({"smiles": texts, "size": [float(len(text)) for text in texts]}).to_csv(folder / "mols.csv", index=False)
    recipe, _ = find_recipe(
        "molecules",
        {"data": {"path": str(folder / "mols.csv"), "target_columns": ["size"]}},
        {"model": {"hidden_channels": 8, "num_layers": 1}, "train": {"epochs": 1, "batch_size": 4}},
    )
    train(recipe, folder / "run")
    return folder / "run"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A molecule that is near, one that is far, one that cannot be read, and a long chain."""
    pd.DataFrame({"smiles": ["CCCN", "CC[SiH2]C", "xyz", "C" * 150]}).to_csv(tmp_path / "in.csv", index=False)
    return tmp_path / "in.csv"


@pytest.mark.usefixtures("signatures_unchecked")
def test_rows_beyond_the_training_molecules_are_marked(run: Path, table: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    predictor = load(run)
    near, far, bad, long = predictor.predict_file(table)["warning"]
    assert (near, bad) == ("", "")
    assert far == "no training molecule has the element Si"
    assert long.startswith("150 atoms, but the training molecules have 4 to 9")
    written = predictor.write_predictions(table, tmp_path / "out.csv", chunk_rows=1)
    assert (written.failed, written.warned) == (1, 2)
    assert predictor.write_predictions(table, tmp_path / "out.parquet").warned == 2
    for found in (
        pd.read_csv(tmp_path / "out.csv", keep_default_na=False), pd.read_parquet(tmp_path / "out.parquet"),
        predictor.predict(["CCCN", "CC[SiH2]C", "xyz", "C" * 150]),
    ):  # fmt: skip
        assert list(found.columns)[-2:] == ["warning", "error"]
        assert found["warning"].tolist() == [near, far, bad, long]
    assert "warning" not in predictor.predict(["CCCN"], warnings=False).columns
    assert "warning" not in predictor.predict_file(table, warnings=False, nearest=1).columns
    (tmp_path / "in").mkdir()
    shutil.copy(table, tmp_path / "in")
    assert predict_folder(predictor, tmp_path / "in", tmp_path / "many", chunk_rows=2).warned == 2
    row = Actor([str(run)], "cpu", False, {"chunk_rows": 2})({"table": str(table), "target": str(tmp_path / "ray.csv")})
    assert (row["failed"], row["warned"]) == (1, 2)
    assert (tmp_path / "ray.csv").read_bytes() == (tmp_path / "many" / "in.csv").read_bytes()
    both = predictor.predict_file(table, nearest=1)["warning"]
    assert both[0] == ""
    assert both[3].startswith(f"{long}; unlike all training molecules: the largest similarity is 0.")


@pytest.mark.usefixtures("signatures_unchecked")
def test_work_on_training_molecules_shows_its_progress(run: Path, table: Path, tmp_path: Path) -> None:
    class Loops(Callback):
        def __init__(self) -> None:
            self.loops: dict[str, int] = {}

        def track(self, items: Any, label: str) -> Any:
            self.loops[label] = len(items)
            return items

    read = {"reading SMILES": 16, "making graphs": 16}
    near, old = Loops(), Loops()
    load(run).stream(table, nearest=1, callback=near)
    assert near.loops == {**read, "fingerprints, molecule": 16, "similarities, molecule": 16}
    shutil.copytree(run, tmp_path / "old")
    (tmp_path / "old" / FILE).unlink()
    predictor = load(tmp_path / "old")
    predictor.stream(table, callback=old)
    assert old.loops == read
    predictor.stream(table, callback=(again := Loops()))
    assert again.loops == {}  # it is known by now


@pytest.mark.usefixtures("signatures_unchecked")
def test_a_run_names_chirality_by_its_own_setting(run: Path, tmp_path: Path) -> None:
    assert load(run).recipe.data.stereo == "parity"
    assert load(run).predict(["CC[C@H](N)O"])["warning"][0] == "no training molecule has a chiral centre"
    old = shutil.copytree(run, tmp_path / "old")
    recipe = (old / "recipe.yaml").read_text()
    (old / "recipe.yaml").write_text(recipe.replace("stereo: parity", "stereo: ogb"))
    assert load(old).predict(["CC[C@H](N)O"])["warning"][0] == "no training molecule has an atom of chirality CHI_TETRAHEDRAL_CCW"


@pytest.mark.usefixtures("signatures_unchecked")
def test_a_column_of_the_table_with_this_name_is_not_lost(run: Path, tmp_path: Path) -> None:
    pd.DataFrame({"smiles": ["C[SiH2]C"], "warning": ["toxic"]}).to_csv(tmp_path / "in.csv", index=False)
    with pytest.raises(ValueError, match="already has a column 'warning', .* rename it, or use --no-warnings"):
        load(run).predict_file(tmp_path / "in.csv")
    assert load(run).predict_file(tmp_path / "in.csv", warnings=False)["warning"].tolist() == ["toxic"]


@pytest.mark.usefixtures("signatures_unchecked")
def test_runs_that_were_made_earlier(run: Path, table: Path, tmp_path: Path) -> None:
    """Without a summary it is computed from training.csv; without this as well, only predictions are judged."""
    new = load(run)
    old = shutil.copytree(run, tmp_path / "old")
    (old / FILE).unlink()
    assert (load(old).domain.atoms, load(old).domain.features) == (new.domain.atoms, new.domain.features)
    for ours, theirs in zip(load(old).predict_file(table)["warning"], new.predict_file(table)["warning"], strict=True):
        assert ours.split("; predicted")[0] == theirs.split("; predicted")[0]
    low, high = load(old).domain.targets["size"]
    assert low < new.domain.targets["size"][0] < new.domain.targets["size"][1] < high
    (old / "training.csv").unlink()
    older = load(old)
    assert older.predict(["CCCN", "CC[SiH2]C"])["warning"].tolist() == ["", ""]
    head: Any = older.models[0].model.head
    with torch.no_grad():
        next(reversed(list(head.parameters()))).add_(1e4)
    said = older.predict(["CCCN"])["warning"][0]
    assert said.startswith("predicted far outside the training targets: size is ")
    assert "(about " in said
    (run / FILE).rename(run / "moved.json")
    (run / FILE).write_text("{}")
    with pytest.raises(ValueError, match=r"domain\.json is damaged \(it has no atoms\)"):
        load(run).stream(table)
    (run / "moved.json").replace(run / FILE)
