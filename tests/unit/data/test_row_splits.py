"""Splits of the rows of a table by clusters, distances, groups, times and files."""

import json
import random
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from rdkit.Chem import rdFingerprintGenerator
from rdkit.DataStructs import BulkTanimotoSimilarity

from reign.data import Problem, group_split, time_split
from reign.data.molecules import Molecule, load_table, read_many
from reign.data.molecules._splits import Fingerprints, butina, k_means, kennard_stone

SIZES = (0.6, 0.2, 0.2)
SMILES = ["C" * n + end for n in range(1, 11) for end in ("", "O", "N", "(C)O", "c1ccccc1", "C(=O)O")]


def plain(items: Any, _: str) -> Any:
    return items


def molecules() -> list[Molecule]:
    found, wrong = read_many(SMILES)
    assert not wrong
    return [each for each in found if each is not None]


def similarities() -> np.ndarray:
    """All similarities, by RDKit."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    prints = [generator.GetFingerprint(each.mol) for each in molecules()]
    return np.array([BulkTanimotoSimilarity(one, prints) for one in prints])


def table(folder: Path, **columns: Any) -> Path:
    file = folder / "t.csv"
    pd.DataFrame({"smiles": SMILES, "y": [float(len(text)) for text in SMILES], **columns}).to_csv(file, index=False)
    return file


def parts(problem: Problem) -> dict[str, set[int]]:
    return {split: set(ids.tolist()) for split, ids in problem.splits.items()}


# -- similarities, clusters and orders ---------------------------------------------------------------------------------


def test_similarities_are_those_of_rdkit() -> None:
    prints, expected = Fingerprints(molecules()), similarities()
    for m in range(len(prints)):
        assert np.allclose(prints.similarity(m), expected[m])
    assert np.allclose(prints.similarity(3, np.array([5, 1])), expected[3, [5, 1]])


@pytest.mark.parametrize("similarity", [0.3, 0.6, 0.9])
def test_butina_is_as_by_hand(similarity: float) -> None:
    near = similarities() >= similarity
    order = sorted(range(len(near)), key=lambda m: (-near[m].sum(), m))
    expected: dict[int, int] = {}
    for m in order:
        if m not in expected:
            number = len(set(expected.values()))
            expected |= {other: number for other in np.flatnonzero(near[m]).tolist() if other not in expected}
    assert butina(Fingerprints(molecules()), similarity, plain) == [expected[m] for m in range(len(near))]


def test_kennard_stone_is_as_by_hand() -> None:
    all_pairs, place = similarities(), kennard_stone(Fingerprints(molecules()), plain)
    order = np.argsort(place).tolist()
    assert sorted(order) == list(range(len(SMILES)))
    assert all_pairs[order[0], order[1]] == all_pairs.min()
    for rank in range(2, len(order)):
        before, rest = order[:rank], order[rank:]
        closest = all_pairs[rest][:, before].max(1)
        assert closest[0] == pytest.approx(closest.min())


def test_k_means_finds_clusters_and_has_a_seed() -> None:
    prints, expected = Fingerprints(molecules()), similarities()
    found = k_means(prints, 0, plain)
    assert found == k_means(prints, 0, plain)
    assert found != k_means(prints, 1, plain)
    together = [expected[a, b] for a, b in combinations(range(len(found)), 2) if found[a] == found[b]]
    assert np.mean(together) > 2 * expected.mean()


def test_k_means_is_exact() -> None:
    """No mean is nearer than that of a molecule's cluster, in fractions; the order in which bits are added does not matter."""
    prints, other = Fingerprints(molecules()), Fingerprints(molecules())
    found, bits = np.array(k_means(prints, 0, plain)), prints.unpacked(slice(None)).astype(int)
    clusters = [bits[found == cluster] for cluster in range(max(found) + 1)]
    sums = [(cluster.sum(0), len(cluster)) for cluster in clusters]
    assert len(sums) == 10
    for bit, cluster in zip(bits, found, strict=True):
        away = [Fraction(int(total @ total), size**2) - Fraction(2 * int(bit @ total), size) for total, size in sums]
        assert away[cluster] == min(away)
    other.bits = np.packbits(other.unpacked(slice(None))[:, np.random.permutation(2048)], axis=1)  # noqa: NPY002
    assert k_means(other, 0, plain) == found.tolist()


# -- groups and times --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_groups_stay_whole_and_every_share_has_one(seed: int) -> None:
    draw = random.Random(seed)
    keys = [draw.randrange(12) for _ in range(200)]
    found = {split: {keys[i] for i in ids.tolist()} for split, ids in group_split(keys, SIZES, seed).items()}
    assert sum(map(len, found.values())) == 12
    assert set.union(*found.values()) == set(range(12))
    assert set(group_split("aaabbbccc", (0.8, 0.1, 0.1), seed)) == {"train", "val", "test"}
    assert set(group_split("aaabbb", (0.8, 0.0, 0.2), seed)) == {"train", "test"}
    assert set(group_split("aaaa", (0.8, 0.1, 0.1), seed)) == {"train"}


def test_shares_of_groups_are_close() -> None:
    keys = [row // 4 for row in range(400)]
    sizes = {split: ids.numel() for split, ids in group_split(keys, (0.8, 0.1, 0.1), 0).items()}
    assert sizes == {"train": 320, "val": 40, "test": 40}


def test_times_are_in_order() -> None:
    times = torch.randperm(50, generator=torch.Generator().manual_seed(0)).tolist()
    splits = {split: sorted(times[i] for i in ids.tolist()) for split, ids in time_split(times, SIZES).items()}
    assert splits == {"train": list(range(30)), "val": list(range(30, 40)), "test": list(range(40, 50))}
    ties = time_split([1] * 8 + [2] * 1 + [3] * 1, (0.5, 0.25, 0.25))
    assert {split: ids.numel() for split, ids in ties.items()} == {"train": 8, "val": 1, "test": 1}
    assert set(time_split([1, 1, 1], SIZES)) == {"train"}
    assert {split: ids.tolist() for split, ids in time_split([2, 1, 1], (0.8, 0.1, 0.1)).items()} == {"train": [1, 2], "test": [0]}
    assert set(time_split([1, 2], (0.8, 0.2, 0.0))) == {"train", "val"}
    assert {split: ids.tolist() for split, ids in time_split([4, 1, 2, 3], (0.5, 0.0, 0.5)).items()} == {
        "train": [1, 2],
        "test": [0, 3],
    }


# -- tables ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["butina", "kmeans", "kennard_stone"])
def test_a_table_by_similarity(split: str, tmp_path: Path) -> None:
    twice = [*SMILES, *SMILES]
    pd.DataFrame({"smiles": twice, "y": range(len(twice))}).to_csv(file := tmp_path / "t.csv", index=False)
    problem, report = load_table(file, target_columns=["y"], split=split, split_sizes=SIZES)
    found = parts(problem)
    assert report.apart == 0
    assert set.union(*found.values()) == set(range(len(twice)))
    assert all(len(found[name]) >= 5 for name in ("train", "val", "test"))
    again = parts(load_table(file, target_columns=["y"], split=split, split_sizes=SIZES)[0])
    other = parts(load_table(file, target_columns=["y"], split=split, split_sizes=SIZES, split_seed=1)[0])
    assert found == again
    assert (found == other) == (split == "kennard_stone")


def test_clusters_are_whole_in_splits_and_folds(tmp_path: Path) -> None:
    problem, _ = load_table(table(tmp_path), target_columns=["y"], split="butina", split_sizes=SIZES)
    near = similarities() >= 0.6
    assert problem.together is not None
    for a in range(len(near)):  # a molecule is a neighbour of the centre of its cluster
        mates = [b for b in range(len(near)) if problem.together[b] == problem.together[a]]
        assert any(near[centre][mates].all() for centre in mates)
    for each in [problem, *problem.folds(4, 0)]:
        words = [{problem.together[i] for i in ids} for ids in parts(each).values()]
        assert not set.intersection(words[0], words[1])
    assert sorted(i for fold in problem.folds(4, 0) for i in parts(fold)["val"]) == list(range(len(near)))
    with pytest.raises(ValueError, match="the number of groups"):
        problem.folds(50, 0)


def test_folds_keep_groups_and_molecules_whole(tmp_path: Path) -> None:
    file, rows = tmp_path / "t.csv", [(text, f"p{row % 20}") for row, text in enumerate(SMILES)]
    rows += [(SMILES[row], "p0") for row in (1, 2)]  # they join the groups p0, p1 and p2; CCO is in the table twice, too
    pd.DataFrame([(*row, r / 3) for r, row in enumerate(rows)], columns=["smiles", "plate", "y"]).to_csv(file, index=False)
    problem, _ = load_table(file, target_columns=["y"], group_column="plate")
    for fold in problem.folds(4, 0):
        for words in (problem.groups, problem.together):
            assert words is not None
            train, val = ({words[i] for i in ids} for ids in parts(fold).values())
            assert not train & val
    with pytest.raises(ValueError, match="expected at most 17, the number of groups"):
        problem.folds(19, 0)


def test_a_table_by_group(tmp_path: Path) -> None:
    plates = [f"p{row % 9}" if row else "" for row in range(len(SMILES))]
    problem, report = load_table(table(tmp_path, plate=plates), target_columns=["y"], group_column="plate", split_sizes=SIZES)
    assert report.left_out == {1: "plate is empty, expected a group"}
    assert problem.together == plates[1:]
    of = {split: {plates[i + 1] for i in ids} for split, ids in parts(problem).items()}
    assert sum(map(len, of.values())) == 9
    two = [f"p{row % 2}" for row in range(len(SMILES))]
    _, report = load_table(table(tmp_path, plate=two), target_columns=["y"], group_column="plate")
    assert "train, val and test have 50, 50, 0 % of the rows, not 80, 10, 10 %, because groups stay together" in report.lines()


@pytest.mark.parametrize(
    "words",
    [
        [str(row) for row in range(60)],
        [f"{1990 + row}" for row in range(60)],
        [f"{2000 + row // 12}-{1 + row % 12:02d}" for row in range(60)],
        [
            f"{2000 + row // 12}-{1 + row % 12:02d}-07" if row % 2 else f"{2000 + row // 12}-{1 + row % 12:02d}-03T10:00:00Z"
            for row in range(60)
        ],
    ],
    ids=["numbers", "years", "months", "dates"],
)
def test_a_table_by_time(words: list[str], tmp_path: Path) -> None:
    rows = list(range(60))
    random.Random(0).shuffle(rows)
    file = table(tmp_path, time=[words[row] for row in rows])
    problem, _ = load_table(file, target_columns=["y"], time_column="time", split_sizes=SIZES)
    assert {split: {rows[i] for i in ids} for split, ids in parts(problem).items()} == {
        "train": set(range(36)), "val": set(range(36, 48)), "test": set(range(48, 60)),
    }  # fmt: skip
    assert problem.targets == ["y"]


def test_times_that_cannot_be_read(tmp_path: Path) -> None:
    words = ["2020-01-01", "", "soon", *(f"2021-01-{row % 28 + 1:02d}" for row in range(57))]
    _, report = load_table(table(tmp_path, time=words), target_columns=["y"], time_column="time")
    assert report.left_out[2] == "time is empty, expected a time"
    assert report.left_out[3] == "time is 'soon', expected a number, or a date such as 2021-03-25"
    with pytest.raises(ValueError, match=r"the time column 'time' cannot be read: row 1: time is '03/04/2021'"):
        load_table(table(tmp_path, time=["03/04/2021"] * 60), target_columns=["y"], time_column="time")


def test_a_file_of_splits(tmp_path: Path) -> None:
    file, splits = table(tmp_path), tmp_path / "s.json"
    for given in (
        {"train": [*range(40)], "val": "40-44,46", "test": ["47-49", 50]},
        {"train": "0-39", "val": "40-44, 46", "test": [47, 48, 49, 50]},
    ):
        splits.write_text(json.dumps([given]))
        problem, report = load_table(file, target_columns=["y"], splits_file=splits)
        assert [problem.names[i] for i in problem.splits["val"].tolist()] == [str(row + 1) for row in (40, 41, 42, 43, 44, 46)]  # type: ignore[index]
        assert {split: ids.numel() for split, ids in problem.splits.items()} == {"train": 40, "val": 6, "test": 4}
        assert report.left_out[46] == "it is in no split of s.json"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "is damaged"),
        ("[" * 100_000, "is damaged"),
        ("[]", r"holds \[\], expected"),
        ('[{"train": [1]}, {"train": [2]}]', "has 2 splits of the table, expected one"),
        ('{"val": [1]}', "expected {"),
        ('{"train": [1], "dev": [2]}', "expected {"),
        ('{"train": [60]}', "has the row 60 in train, expected numbers from 0 to 59"),
        ('{"train": [1, 2], "val": [2]}', "the row 2 in train and in val"),
        ('{"train": [-1]}', "has -1, expected the number of a row"),
        ('{"train": [1.5]}', "has 1.5, expected"),
        ('{"train": [true]}', "has True, expected"),
        ('{"train": "0-x"}', "has '0-x', expected"),
        ('{"train": "0-999999999"}', "has the row 60 in train"),
        ('{"train": 3}', "has 3, expected a list"),
        ('{"train": "0-9, 49-20"}', "has '49-20', expected the smaller number first, as in 20-49"),
    ],
)
def test_files_of_splits_that_are_wrong(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_table(table(tmp_path), target_columns=["y"], splits_file=tmp_path / "s.json")
    with pytest.raises(ValueError, match=r"the file .*nothing\.json does not exist"):
        load_table(table(tmp_path), target_columns=["y"], splits_file=tmp_path / "nothing.json")


def test_ignored_columns_are_no_targets(tmp_path: Path) -> None:
    file = table(tmp_path, a=[row * 0.5 for row in range(60)], b=[row % 7 * 0.3 for row in range(60)])
    assert load_table(file, ignore_columns=["a"])[0].targets == ["y", "b"]
    with pytest.raises(ValueError, match="c"):
        load_table(file, ignore_columns=["c"])
