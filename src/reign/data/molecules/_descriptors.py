"""Descriptors, numbers about a whole molecule that are an additional input of a model, and the similarity of molecules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from rdkit.Chem import rdFingerprintGenerator
from torch_geometric.data import Data

from reign.data._files import Progress
from reign.data.molecules._csv_reader import need_columns
from reign.data.molecules._labels import read_number
from reign.data.molecules._table_file import read_table
from reign.smiles import FEATURIZERS, LARGEST, Molecule, descriptors, in_one_line

Part = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Descriptors:
    """The descriptors that a model uses.

    Args:
        columns: columns of the table.
        path: another table of numbers, with one row for each row of the table.
        featurizers: names of ``FEATURIZERS``.
    """

    columns: Sequence[str] = ()
    path: str | Path | None = None
    featurizers: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in self.featurizers:
            if name not in FEATURIZERS:
                raise ValueError(f"there are no descriptors '{name}', expected {', '.join(FEATURIZERS)}.")

    def __bool__(self) -> bool:
        return bool(self.columns or self.path or self.featurizers)

    def extend(
        self,
        graphs: Sequence[Data | None],
        molecules: Sequence[Molecule | None],
        wrong: dict[int, str],
        table: pd.DataFrame | None = None,
        file: str | Path = "",
        progress: Progress = lambda items, _: items,
    ) -> tuple[list[Data | None], dict[int, str]]:
        """The graphs with descriptors as additional columns of all their nodes, and the reasons for rows without a graph.

        Args:
            graphs: a graph for each row, or None.
            molecules: a molecule for each row, or None.
            wrong: reasons for the rows without a graph.
            table: the table of text, for ``columns``.
            file: the file of the table, for messages.
            progress: function that wraps loops, to show progress.
        """
        if not self:
            return list(graphs), wrong
        rows, found = self.numbers(self._tables(table, file, len(graphs)), len(graphs))
        found = found | wrong
        out: list[Data | None] = []
        for row, (data, molecule) in enumerate(progress(list(zip(graphs, molecules, strict=True)), "descriptors")):
            out.append(None)
            if data is None or molecule is None or row in found:
                continue
            try:
                out[-1] = self.attach(data, molecule, rows[row])
            except ValueError as error:
                found[row] = str(error)
        return out, found

    def numbers(self, parts: Sequence[tuple[Part, str]], number: int) -> tuple[list[list[float]], dict[int, str]]:
        """The numbers of each row, and the reasons for rows with a cell that is not a number.

        Args:
            parts: columns of text by name, each part with the name of its source, for messages.
            number: number of rows.
        """
        rows: list[list[float]] = [[] for _ in range(number)]
        wrong: dict[int, str] = {}
        for part, source in parts:
            for column, cells in part.items():
                for row, text in enumerate(cells):
                    value = read_number(text)
                    if value is None or not abs(value) <= LARGEST:
                        wrong.setdefault(row, f"{column} of {source} is {text!r}, expected a number, because it is a descriptor")
                        value = 0.0
                    rows[row].append(value)
        return rows, wrong

    def attach(self, data: Data, molecule: Molecule, numbers: Sequence[float]) -> Data:
        """A graph with its descriptors as additional columns: these numbers, and those of RDKit."""
        found = torch.from_numpy(descriptors(molecule, numbers, self.featurizers)).expand(data.num_nodes, -1)
        return Data(x=torch.cat([data.x.float(), found], dim=1), edge_index=data.edge_index, edge_attr=data.edge_attr)

    def _tables(self, table: pd.DataFrame | None, file: str | Path, number: int) -> list[tuple[Part, str]]:
        parts: list[tuple[Part, str]] = []
        if self.columns:
            if table is None:
                raise ValueError(f"the model needs the descriptors {', '.join(self.columns)}; predict for a table that has them.")
            need_columns(table.columns, self.columns, file)
            parts.append(({column: list(table[column]) for column in self.columns}, Path(file).name))
        if self.path:
            other, odd = read_table(self.path)
            check_rows(self.path, len(other), number, file)
            if odd:
                row, reason = next(iter(odd.items()))
                raise ValueError(f"{self.path}, row {row + 1}: {reason}.")
            parts.append(({column: list(other[column]) for column in other.columns}, Path(self.path).name))
        return parts


def check_rows(path: str | Path, found: int, expected: int, file: str | Path) -> None:
    """Raise ``ValueError`` if a file of descriptors does not have one row for each row of the table."""
    if found != expected:
        raise ValueError(f"{path} has {found:,} rows, expected {expected:,}, one for each row of {Path(file).name or 'the input'}.")


def num_descriptors(graphs: Sequence[Data | None], types: int) -> int:
    """The number of descriptors of graphs whose first columns are types."""
    first = next((data for data in graphs if data is not None), None)
    return 0 if first is None else int(first.x.size(1)) - types


# -- similarity: Morgan fingerprints with counts, and the Tanimoto similarity --------------------------------------------
# A count is the number of atoms with the same environment, so that a long chain is unlike a short one. The similarity of counts a and b is
# sum(min(a, b)) / sum(max(a, b)); where no count is above 1, it is the similarity of the bits.


RADIUS = 2
SAMPLE = 1_000  # largest number of molecules used to estimate the usual similarity
Counts = tuple[np.ndarray, np.ndarray]  # environments, and how many atoms have each of them


class Neighbours:
    """The molecules of a set that are most similar to a given one.

    Args:
        molecules: the set; None for molecules that cannot be read, which are never neighbours.
        progress: function that wraps loops, to show progress.
    """

    def __init__(self, molecules: Sequence[Molecule | None], progress: Progress = lambda items, _: items) -> None:
        pairs = progress(list(enumerate(molecules)), "fingerprints, molecule")
        made = [(i, fingerprint(molecule)) for i, molecule in pairs if molecule is not None]
        if not made:
            raise ValueError(f"none of the {len(molecules)} molecules can be read, expected at least one to compare with.")
        self.places = [i for i, _ in made]
        self.prints = [counts for _, counts in made]
        self.totals = np.array([counts.sum() for _, counts in self.prints])
        every = np.concatenate([environments for environments, _ in self.prints])
        order = np.argsort(every, kind="stable")  # equal environments next to each other
        self.environments, self.starts = np.unique(every[order], return_index=True)
        self.ends = np.append(self.starts[1:], len(every))
        self.owners = np.repeat(np.arange(len(made)), [len(counts) for _, counts in self.prints])[order]
        self.counts = np.concatenate([counts for _, counts in self.prints])[order]

    def nearest(self, molecule: Molecule, number: int) -> list[tuple[int, float]]:
        """The positions and similarities of the nearest molecules, the most similar first. Ties are in the order of the set."""
        alike = self._alike(fingerprint(molecule))
        order = np.argsort(-alike, kind="stable")[:number]
        return [(self.places[i], float(alike[i])) for i in order]

    def usual(self, share: float = 0.05, progress: Progress = lambda items, _: items) -> float:
        """The similarity to the nearest other molecule that all but this share of the set reach, estimated from at most a thousand molecules."""
        step = max(1, len(self.prints) // SAMPLE)
        found = []
        for i in progress(range(0, len(self.prints), step), "similarities, molecule"):
            alike = self._alike(self.prints[i])
            alike[i] = 0.0
            found.append(alike.max())
        return float(sorted(found)[int(share * len(found))])

    def _alike(self, given: Counts) -> np.ndarray:
        """The similarity to each molecule of the set. Only molecules that share an environment are looked at."""
        common = np.zeros(len(self.prints))
        places = np.searchsorted(self.environments, given[0])
        for environment, count, place in zip(*given, places, strict=True):
            if place < len(self.environments) and self.environments[place] == environment:
                there = slice(self.starts[place], self.ends[place])
                common[self.owners[there]] += np.minimum(self.counts[there], count)  # a molecule is in it once
        return common / (self.totals + given[1].sum() - common)


def fingerprint(molecule: Molecule) -> Counts:
    """The Morgan fingerprint of radius 2 with counts."""
    with in_one_line(molecule.text):
        found = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS).GetSparseCountFingerprint(molecule.mol)
    counts = found.GetNonzeroElements()
    return np.fromiter(counts.keys(), dtype=np.uint64), np.fromiter(counts.values(), dtype=np.int64)
