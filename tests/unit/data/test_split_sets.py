"""Train, validation and test of every data set: no graph is in two of them, and none is lost."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from reign.data import (
    CSL,
    DATASETS,
    EXP,
    SR,
    ZINC,
    Counting,
    GraphDataset,
    GraphProperties,
    MolHIV,
    Problem,
    load_problem,
    random_split,
    scaffold_split,
)
from reign.data.sets._expressive import exp_graphs, stratified
from reign.testing import random_graphs

CHECKED = {"zinc", "molhiv", "moleculeace", "tu", "csl", "exp", "sr", "counting", "graph-properties"}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REIGN_CACHE", str(tmp_path / "cache"))


def made(kind: type[GraphDataset], /, **options: Any) -> dict[str, list[Data]]:
    """What a data set makes, before anything is stored: the very objects, so that one in two splits can be seen."""
    new = kind.__new__(kind)
    new.options = kind.complete(options)
    return new.make()


def check_objects(parts: dict[str, list[Data]], number: int) -> None:
    seen = Counter(id(data) for part in parts.values() for data in part)
    assert len(seen) == number
    assert set(seen.values()) == {1}


def prints(graphs: list[Data]) -> list[str]:
    """A hash of everything in a graph."""
    found = []
    for data in graphs:
        values = [data[key] for key in ("x", "edge_index", "edge_attr", "y") if key in data]
        found.append(hashlib.sha256(b"|".join(value.numpy().tobytes() for value in values)).hexdigest())
    return found


def test_every_data_set_is_looked_at_here() -> None:
    assert set(DATASETS) == CHECKED


def test_stratified_splits() -> None:
    graphs = random_graphs(60)
    for g, data in enumerate(graphs):
        data.y = torch.tensor([[float(g % 3 == 0)]])
    parts = stratified(graphs)
    check_objects(parts, 60)
    assert {split: Counter(int(data.y) for data in part) for split, part in parts.items()} == {
        "train": {0: 24, 1: 12},
        "val": {0: 8, 1: 4},
        "test": {0: 8, 1: 4},
    }


def test_csl_exp_and_sr(real_data: Path) -> None:
    check_objects(made(CSL), 150)
    for name in ("EXP", "CEXP"):
        parts = made(EXP, set=name)
        check_objects(parts, 1200)
        assert Counter(prints([data for part in parts.values() for data in part])) == Counter(prints(exp_graphs(name)))
    check_objects(made(SR), 15)


@pytest.mark.parametrize("kind", ["regular", "er"])
def test_counting(kind: str) -> None:
    parts = made(Counting, kind=kind, num_graphs=40)
    assert {split: len(part) for split, part in parts.items()} == {"train": 12, "val": 8, "test": 20}
    check_objects(parts, 40)


def test_counting_of_chen(real_data: Path) -> None:
    ids = [np.load(real_data / "counting_er_chen2020.npz")[f"{split}_idx"] for split in Counting.splits]
    assert [len(part) for part in ids] == [1500, 1000, 2500]
    assert sorted(np.concatenate(ids)) == list(range(5000))
    check_objects(made(Counting, kind="chen2020"), 5000)


def test_graph_properties(real_data: Path) -> None:
    parts = made(GraphProperties, share=0.02)
    assert {split: len(part) for split, part in parts.items()} == {"train": 100, "val": 15, "test": 25}
    everything = prints([data for part in parts.values() for data in part])
    assert len(set(everything)) == len(everything) == 140
    pna = made(GraphProperties, source="pna")
    assert {split: len(part) for split, part in pna.items()} == {"train": 5120, "val": 640, "test": 1280}
    everything = prints([data for part in pna.values() for data in part])
    assert len(set(everything)) == len(everything)


def test_zinc(real_data: Path) -> None:
    """All rows of the file, in their order; no graph with its target is in two splits."""
    arrays, parts = np.load(real_data / "zinc12k.npz"), made(ZINC)
    for split, part in parts.items():
        assert torch.cat([data.y for data in part]).flatten().tolist() == arrays[f"{split}_y"].astype(np.float32).tolist()
        assert sum(data.num_nodes for data in part) == len(arrays[f"{split}_atom_type"])
    train, val, test = (set(prints(part)) for part in parts.values())
    assert not train & val
    assert not train & test
    assert not val & test


def test_molhiv(real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of the table in the split that it names; molecules are not read here, which takes long."""
    import pandas as pd

    def unread(smiles: str, strict: bool) -> Data:
        return Data(text=smiles)

    monkeypatch.setattr("reign.data.molecules.from_smiles", unread)
    table, parts = pd.read_csv(real_data / "ogbg_molhiv.csv.xz"), made(MolHIV)
    assert {split: len(part) for split, part in parts.items()} == MolHIV.sizes
    for split, name in (("train", "train"), ("val", "valid"), ("test", "test")):
        mine = table[table["split"] == name]
        assert [data.text for data in parts[split]] == list(mine["smiles"])
        assert [int(data.y) for data in parts[split]] == list(mine["HIV_active"])


def test_folds_of_tu(real_data: Path) -> None:
    problem = load_problem("tu", set="MUTAG")
    folds = problem.folds(10, seed=0)
    assert sorted(torch.cat([fold.splits["val"] for fold in folds]).tolist()) == list(range(188))
    for fold in folds:
        assert sorted(torch.cat([fold.splits["train"], fold.splits["val"]]).tolist()) == list(range(188))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sizes", [(0.8, 0.1, 0.1), (0.5, 0.5, 0.0), (0.34, 0.33, 0.33)])
def test_tables_of_molecules(sizes: tuple[float, float, float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    number = int(rng.integers(20, 60))
    keys = [f"m{k}" for k in rng.integers(0, number, number)]
    rings = [f"s{int(k[1:]) % 7}" if int(k[1:]) % 3 else "" for k in keys]
    for splits in (random_split(keys, sizes, seed), scaffold_split(rings, keys, sizes, seed)):
        assert sorted(torch.cat(list(splits.values())).tolist()) == list(range(number))
        owner = {keys[i]: split for split, ids in splits.items() for i in ids.tolist()}
        assert all(owner[keys[i]] == split for split, ids in splits.items() for i in ids.tolist())


def test_scaffolds_larger_than_half_a_test_set_are_for_training() -> None:
    """Ten scaffolds of 6 in a table of 100 with tests of 10: more than 5, so all of them are learned from; those of 5 are not bound."""
    scaffolds = [f"large {i // 6}" for i in range(60)] + [f"small {i // 5}" for i in range(40)]
    free = set()
    for seed in range(10):
        splits = scaffold_split(scaffolds, [str(i) for i in range(100)], (0.8, 0.1, 0.1), seed)
        assert set(range(60)) <= set(splits["train"].tolist())
        free |= set(splits["test"].tolist())
    assert len(free) > 10


def test_fewer_and_limited_graphs_come_from_their_splits() -> None:
    graphs = random_graphs(30)
    for data in graphs:
        data.y = torch.zeros(1, 1)
    problem = Problem.of(graphs[:16], graphs[16:22], graphs[22:])
    fewer, limited = problem.fewer(5, seed=2), problem.limit(4)
    assert set(fewer.splits["train"].tolist()) < set(range(16))
    assert fewer.splits["train"].unique().numel() == 5
    assert all(torch.equal(fewer.splits[split], problem.splits[split]) for split in ("val", "test"))
    for split, ids in limited.splits.items():
        assert ids.unique().numel() == 4
        assert set(ids.tolist()) < set(problem.splits[split].tolist())
