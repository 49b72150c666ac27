"""Descriptors: numbers about a whole molecule that are an additional input of a model, from the table or computed by RDKit."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch_geometric.data import Data

from reign.data.molecules._csv_reader import need_columns, read_table
from reign.data.molecules._labels import LARGEST, read_number
from reign.data.molecules._smiles import Molecule, in_one_line

BITS = 2_048


def rdkit_2d(molecule: Molecule) -> list[float]:
    """The 2D descriptors of RDKit; NaN where RDKit cannot compute one."""
    from rdkit.Chem import Descriptors

    found = Descriptors.CalcMolDescriptors(molecule.mol, missingVal=math.nan, silent=True)
    return [value if math.isfinite(value) else math.nan for value in map(float, found.values())]


def morgan_count(molecule: Molecule) -> list[float]:
    """The number of occurrences of each of 2,048 Morgan environments of radius 2."""
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=BITS)
    return list(map(float, generator.GetCountFingerprintAsNumPy(molecule.mol)))


def morgan_binary(molecule: Molecule) -> list[float]:
    """Which of 2,048 Morgan environments of radius 2 occur."""
    return [min(1.0, count) for count in morgan_count(molecule)]


FEATURIZERS: dict[str, Callable[[Molecule], list[float]]] = {
    "rdkit_2d": rdkit_2d,
    "morgan_count": morgan_count,
    "morgan_binary": morgan_binary,
}


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
    ) -> tuple[list[Data | None], dict[int, str]]:
        """The graphs with descriptors as additional columns of all their nodes, and the reasons for rows without a graph.

        Args:
            graphs: a graph for each row, or None.
            molecules: a molecule for each row, or None.
            wrong: reasons for the rows without a graph.
            table: the table of text, for ``columns``.
            file: the file of the table, for messages.
        """
        if not self:
            return list(graphs), wrong
        rows: list[list[float]] = [[] for _ in graphs]
        found = dict(wrong)
        for part, source in self._tables(table, file, len(graphs)):
            for row, cells in enumerate(part.itertuples(index=False, name=None)):
                for column, text in zip(part.columns, cells, strict=True):
                    value = read_number(text)
                    if value is None or not abs(value) <= LARGEST:
                        found.setdefault(row, f"{column} of {source} is {text!r}, expected a number, because it is a descriptor")
                        value = 0.0
                    rows[row].append(value)
        out: list[Data | None] = []
        for row, (data, molecule) in enumerate(zip(graphs, molecules, strict=True)):
            out.append(None)
            if data is None or molecule is None or row in found:
                continue
            try:
                with in_one_line(molecule.text):
                    values = rows[row] + [v for name in self.featurizers for v in FEATURIZERS[name](molecule)]
            except ValueError as error:
                found[row] = str(error)
                continue
            numbers = torch.tensor(values, dtype=torch.float64).clamp(-LARGEST, LARGEST).float()
            out[-1] = Data(
                x=torch.cat([data.x.float(), numbers.expand(data.num_nodes, -1)], dim=1),
                edge_index=data.edge_index,
                edge_attr=data.edge_attr,
            )
        return out, found

    def _tables(self, table: pd.DataFrame | None, file: str | Path, number: int) -> list[tuple[pd.DataFrame, Any]]:
        parts: list[tuple[pd.DataFrame, Any]] = []
        if self.columns:
            if table is None:
                raise ValueError(f"the model needs the descriptors {', '.join(self.columns)}; predict for a table that has them.")
            need_columns(table, self.columns, file)
            parts.append((table[list(self.columns)], Path(file).name))
        if self.path:
            other, odd = read_table(self.path)
            if len(other) != number:
                raise ValueError(
                    f"{self.path} has {len(other):,} rows, expected {number:,}, one for each row of {Path(file).name or 'the input'}."
                )
            if odd:
                row, reason = next(iter(odd.items()))
                raise ValueError(f"{self.path}, row {row + 1}: {reason}.")
            parts.append((other, Path(self.path).name))
        return parts


def num_descriptors(graphs: Sequence[Data | None], types: int) -> int:
    """The number of descriptors of graphs whose first columns are types."""
    first = next((data for data in graphs if data is not None), None)
    return 0 if first is None else int(first.x.size(1)) - types
