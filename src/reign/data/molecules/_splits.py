"""How the rows of a table are split: at random, by scaffold, cluster, distance, group or time, or as a column or a file says."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from rdkit.Chem import rdFingerprintGenerator

from reign.data._files import Progress
from reign.data._problem import SPLITS, Ids, column_split, group_split, random_split, scaffold_split, time_split
from reign.data.molecules._labels import MISSING, read_number
from reign.disk import read_json
from reign.smiles import BITS, Molecule

RADIUS = 2  # of Morgan fingerprints
MOST_MEANS, PER_MEAN, LEAST_MEANS = 100, 20, 10  # clusters of k-means: at most, molecules for each, and at least
TRIES, MOST_STEPS = 5, 50  # of k-means: molecules tried as each start, and steps at most
AT_ONCE = 4_096  # molecules whose bits are unpacked at the same time
UNEVEN = 0.05  # a difference between a share and the one that was asked for is reported from here on
WHOLE = {
    "butina": "clusters",
    "kmeans": "clusters",
    "group": "groups",
    "time": "rows of the same time",
    "kennard_stone": "rows of one molecule",
}


@dataclass(frozen=True)
class Splitting:
    """The way in which the rows of a table are split.

    Args:
        kind: "random", "scaffold_balanced", "butina", "kennard_stone" or "kmeans", or "none" for all rows in the test split. The other ways take its place.
        sizes: shares of train, val and test.
        seed: the seed of what is random.
        column: a column with the words train, val and test.
        file: a JSON file with the numbers of the rows of each split, counted from 0, as chemprop writes it.
        group_column: a column of words; rows with the same word stay together.
        time_column: a column of numbers or dates; the oldest rows are learned from, and the newest are tested.
        similarity: for "butina": the Tanimoto similarity from which on molecules are neighbours.
    """

    kind: str = "random"
    sizes: Sequence[float] = (0.8, 0.1, 0.1)
    seed: int = 0
    column: str | None = None
    file: str | Path | None = None
    group_column: str | None = None
    time_column: str | None = None
    similarity: float = 0.6

    @property
    def columns(self) -> list[str]:
        """The columns of the table that are read."""
        return [column for column in (self.column, self.group_column, self.time_column) if column]

    @property
    def way(self) -> str:
        """A word for how the rows are split."""
        given = {"given": self.column or self.file, "group": self.group_column, "time": self.time_column}
        return next((word for word, value in given.items() if value), self.kind)

    def read(self, table: pd.DataFrame) -> tuple[list[Any], dict[int, str]]:
        """What the table or the file says about each row: its split, group or time. The second result says why rows cannot be used."""
        if self.column:
            words = list(table[self.column])
            return words, column_split(words)[1]
        if self.file:
            return _read_file(Path(self.file), len(table))
        if self.group_column:
            words = [word.strip() for word in table[self.group_column]]
            return words, {row: f"{self.group_column} is empty, expected a group" for row, word in enumerate(words) if not word}
        if self.time_column:
            return _read_times(list(table[self.time_column]), self.time_column)
        return [None] * len(table), {}

    def split(
        self, marks: Sequence[Any], keys: Sequence[str], scaffolds: Sequence[str], molecules: Sequence[Molecule], progress: Progress
    ) -> tuple[dict[str, Ids], list[str] | None]:
        """The splits, and a word for each row: rows with the same word are together. It is None if that is so for equal molecules alone.

        Args:
            marks: what ``read`` says about each row that is used.
            keys: the canonical SMILES of each row.
            scaffolds: the scaffold of each row, for "scaffold_balanced".
            molecules: the molecule of each row.
            progress: function that wraps loops, to show progress.
        """
        if self.way == "given":
            return column_split(marks)[0], None
        if self.way == "none":
            return {"test": torch.arange(len(keys))}, None
        if self.way == "random":
            return random_split(keys, self.sizes, self.seed), None
        if self.way == "scaffold_balanced":
            together = [scaffold or key for scaffold, key in zip(scaffolds, keys, strict=True)]
            return scaffold_split(scaffolds, keys, self.sizes, self.seed), together
        if self.way == "time":
            return time_split(marks, self.sizes), None
        if self.way == "group":
            return group_split(marks, self.sizes, self.seed), list(marks)
        first = {key: row for row, key in reversed(list(enumerate(keys)))}  # each molecule once
        prints = Fingerprints([molecules[row] for row in first.values()])
        if self.way == "kennard_stone":
            order = kennard_stone(prints, progress)
            place = dict(zip(first, order, strict=True))
            return time_split([place[key] for key in keys], self.sizes), None
        found = butina(prints, self.similarity, progress) if self.way == "butina" else k_means(prints, self.seed, progress)
        cluster = {key: f"cluster {number}" for key, number in zip(first, found, strict=True)}
        together = [cluster[key] for key in keys]
        return group_split(together, self.sizes, self.seed), together

    def about(self, splits: dict[str, Ids], number: int) -> str:
        """A sentence about shares that are not those asked for, because what belongs together stays together; empty if they are."""
        shares = [splits[split].numel() / number if split in splits else 0.0 for split in SPLITS]
        off = max(abs(share - size) for share, size in zip(shares, self.sizes, strict=True))
        if self.way not in WHOLE or off <= max(UNEVEN, 1 / number):
            return ""
        have, asked = (", ".join(f"{100 * share:.0f}" for share in each) for each in (shares, self.sizes))
        return f"train, val and test have {have} % of the rows, not {asked} %, because {WHOLE[self.way]} stay together"


# -- What a column or a file says --------------------------------------------------------------------------------------


def _read_times(cells: Sequence[str], column: str) -> tuple[list[Any], dict[int, str]]:
    """The time of each row as a number: all cells are read as numbers, or all as dates if one of them is a date and no number."""
    numbers = [read_number(cell) for cell in cells]
    dates = [_read_date(cell) for cell in cells]
    times = numbers
    if any(number is None and date is not None for number, date in zip(numbers, dates, strict=True)):
        times = [
            date if date is not None or cell.strip().lower() not in MISSING else math.nan
            for cell, date in zip(cells, dates, strict=True)
        ]
    wrong = {
        row: f"{column} is empty, expected a time"
        if time is not None
        else f"{column} is {cells[row]!r}, expected a number, or a date such as 2021-03-25"
        for row, time in enumerate(times)
        if time is None or math.isnan(time)
    }
    if len(wrong) == len(cells) > 0:
        raise ValueError(f"the time column '{column}' cannot be read: row 1: {wrong[0]}.")
    return times, wrong


def _read_date(cell: str) -> float | None:
    """Seconds since 1970 for a date in the form of ISO 8601, which may be only a year, or a year and a month; None for other words."""
    text = cell.strip()
    text += {4: "-01-01", 7: "-01"}.get(len(text), "")
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _read_file(file: Path, number: int) -> tuple[list[Any], dict[int, str]]:
    """The split of each row by a JSON file: ``{"train": [0, 1], "val": "2-4,7", "test": ...}``, or a list with one of these."""
    if not file.is_file():
        raise ValueError(f"the file {file} does not exist, expected a JSON file with the rows of each split.")
    given = read_json(file)
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    if isinstance(given, list) and len(given) > 1:
        raise ValueError(
            f"{file} has {len(given)} splits of the table, expected one; write each to a file of its own, and train once for each."
        )
    if not isinstance(given, dict) or "train" not in given or not given.keys() <= set(SPLITS):
        raise ValueError(
            f'{file} holds {given!r:.80}, expected {{"train": [0, 1, ...], "val": [...], "test": [...]}} with numbers of rows.'
        )
    words: list[Any] = [None] * number
    for split, rows in given.items():
        for row in _numbers(rows, file):
            if not 0 <= row < number:
                raise ValueError(f"{file} has the row {row} in {split}, expected numbers from 0 to {number - 1}.")
            if words[row] is not None:
                raise ValueError(f"{file} has the row {row} in {words[row]} and in {split}, expected each row once.")
            words[row] = split
    return words, {row: f"it is in no split of {file.name}" for row, word in enumerate(words) if word is None}


def _numbers(rows: Any, file: Path) -> Iterator[int]:
    """Whole numbers given as a list, or as text such as ``0-2,4``."""
    parts = rows.replace(" ", "").split(",") if isinstance(rows, str) else rows
    if not isinstance(parts, list):
        raise ValueError(f"{file} has {rows!r:.80}, expected a list of numbers of rows, or a text such as '0-2,4'.")
    for part in parts:
        ends = str(part).split("-") if not isinstance(part, bool) else [""]
        if not 1 <= len(ends) <= 2 or not all(end.isdecimal() and len(end) < 10 for end in ends):
            raise ValueError(f"{file} has {part!r:.80}, expected the number of a row, counted from 0.")
        if int(ends[0]) > int(ends[-1]):
            raise ValueError(f"{file} has {part!r:.80}, expected the smaller number first, as in {ends[1]}-{ends[0]}.")
        yield from range(int(ends[0]), int(ends[-1]) + 1)


# -- Clusters and orders of molecules by their similarity. Similarities are computed molecule by molecule: memory grows with the number of molecules


class Fingerprints:
    """The Morgan fingerprints of some molecules as bits.

    Args:
        molecules: the molecules.
    """

    def __init__(self, molecules: Sequence[Molecule]) -> None:
        generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
        self.bits = np.array([np.packbits(generator.GetFingerprintAsNumPy(molecule.mol)) for molecule in molecules])
        self.words = np.ascontiguousarray(self.bits.view(np.uint64).T)  # one column for each molecule
        self.counts = np.bitwise_count(self.words).sum(0, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.counts)

    def similarity(self, molecule: int, others: Any = slice(None)) -> np.ndarray:
        """The Tanimoto similarity of a molecule and some others."""
        common = self.common(molecule, others)
        return np.asarray(common / np.maximum(self.counts[molecule] + self.counts[others] - common, 1))

    def common(self, molecule: int, others: Any = slice(None)) -> np.ndarray:
        """The number of bits that a molecule and some others have in common."""
        return np.asarray(np.bitwise_count(self.words[:, others] & self.words[:, molecule, None]).sum(0, dtype=np.int32))

    def unpacked(self, molecules: Any) -> np.ndarray:
        """The bits of some molecules, one byte each."""
        return np.unpackbits(self.bits[molecules], axis=1)


def butina(prints: Fingerprints, similarity: float, progress: Progress) -> list[int]:
    """Clusters by Butina (1999), as one number for each molecule.

    The molecule with most neighbours and its neighbours are a cluster; it goes on with the molecule that has most neighbours, of those that are in no
    cluster yet.
    """
    n = len(prints)
    neighbours = np.zeros(n, dtype=np.int64)
    for m in progress(range(n), "neighbours, molecule"):
        close = prints.similarity(m, slice(0, m)) >= similarity
        neighbours[:m] += close
        neighbours[m] += close.sum()
    cluster, found, free = np.full(n, -1), 0, np.arange(n)
    for m in progress(np.argsort(-neighbours, kind="stable").tolist(), "clusters, molecule"):
        if cluster[m] < 0:
            free = free[cluster[free] < 0]
            cluster[free[prints.similarity(m, free) >= similarity]] = found
            cluster[m] = found
            found += 1
    return cluster.tolist()


def kennard_stone(prints: Fingerprints, progress: Progress) -> list[int]:
    """The place of each molecule in the order of Kennard and Stone (1969): first the two that are least similar, then always the molecule that is least
    similar to all before it."""
    n = len(prints)
    place, closest = np.zeros(n, dtype=np.int64), np.full(n, -1.0)
    chosen = _least_similar(prints, progress) if n > 1 else 0
    for rank in progress(range(n), "ordering molecules, molecule"):
        place[chosen] = rank
        closest = np.maximum(closest, prints.similarity(chosen))
        closest[chosen] = math.inf
        chosen = int(closest.argmin())
    return place.tolist()


def _least_similar(prints: Fingerprints, progress: Progress) -> int:
    """A molecule of the two that are least similar."""
    least, found = math.inf, 0
    for m in progress(range(1, len(prints)), "distances, molecule"):
        if (value := float(prints.similarity(m, slice(0, m)).min())) < least:
            least, found = value, m
        if least == 0:
            break
    return found


def k_means(prints: Fingerprints, seed: int, progress: Progress) -> list[int]:
    """Clusters of the fingerprints by k-means, as one number for each molecule; it starts from the best of a few tries of k-means++.

    All sums are of whole numbers and exact, so that the clusters depend neither on the number of threads nor on the machine.
    """
    n, rng = len(prints), torch.Generator().manual_seed(seed)
    number = min(n, MOST_MEANS, max(LEAST_MEANS, n // PER_MEAN))
    away, starts = np.full(n, BITS), list[int]()  # squared distances to the nearest start
    while len(starts) < number and away.any():  # equal molecules may leave fewer starts
        drawn = torch.randint(int(away.sum()), (TRIES,), generator=rng).numpy()
        tries = np.searchsorted(away.cumsum(), drawn, side="right").tolist()
        left = [np.minimum(away, prints.counts + prints.counts[m] - 2 * prints.common(m)) for m in tries]
        best = min(range(TRIES), key=lambda t: left[t].sum())
        starts, away = [*starts, tries[best]], left[best]
    sums, sizes, found = prints.unpacked(starts).astype(np.int64), np.ones(len(starts), dtype=np.int64), np.full(n, -1)
    for _ in progress(range(MOST_STEPS), f"{number} clusters by k-means, step"):
        before, found = found, np.empty_like(found)
        for block in (slice(start, start + AT_ONCE) for start in range(0, n, AT_ONCE)):
            products = prints.unpacked(block).astype(np.float64) @ sums.T.astype(np.float64)
            found[block] = ((sums**2).sum(1) / sizes**2 - 2 * products / sizes).argmin(1)
        if (found == before).all():
            break
        for cluster in np.unique(found):
            mates = found == cluster
            sums[cluster], sizes[cluster] = prints.unpacked(mates).sum(0, dtype=np.int64), mates.sum()
    return found.tolist()
