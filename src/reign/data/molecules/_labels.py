"""Columns of a table as labels: numbers, 0 or 1, or classes; an empty cell is a missing label."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from reign.smiles import Molecule, descriptor

LARGEST = 3e38  # largest absolute value of a label, close to the largest float32
MOST_CHECKED, LEAST_CHECKED = 100, 10  # number of rows in which a column is compared with the structure
ALIKE = 0.9999  # correlation from which on a column is computed from the structure
COUNTED = 20  # number of rows from which on whole numbers without a gap are likely to count the rows
ID_ENDS = {"id", "ids", "idx", "cid", "sid", "uid", "identifier"}  # last words of the names of identifiers, as in mol_id
ID_NAMES = {"", "index", "no", "nr", "number", "row", "unnamed0"}
STRUCTURE = {  # descriptors of RDKit with simple names, and usual names of columns with them
    "MolWt": ("the molecular weight", "mw mwt molwt molweight molecularweight molecularmass molarmass"),
    "ExactMolWt": ("the exact mass", "exactmass exactmw monoisotopicmass"),
    "HeavyAtomCount": ("the number of heavy atoms", "heavyatoms numheavyatoms heavyatomcount natoms numatoms"),
    "NumHDonors": ("the number of donors of hydrogen bonds", "hbd numhdonors"),
    "NumHAcceptors": ("the number of acceptors of hydrogen bonds", "hba numhacceptors"),
    "RingCount": ("the number of rings", "rings nrings numrings ringcount"),
    "NumRotatableBonds": ("the number of rotatable bonds", "rotatablebonds numrotatablebonds rotb"),
    "NumHeteroatoms": ("the number of hetero atoms", "numheteroatoms"),
    "NumValenceElectrons": ("the number of valence electrons", "numvalenceelectrons"),
    "FractionCSP3": ("the share of sp3 carbons", "fsp3 fractioncsp3"),
    "TPSA": ("the polar surface area", "tpsa psa polarsurfacearea"),
    "MolLogP": ("Crippen's logP", "clogp alogp xlogp mollogp"),
    "MolMR": ("the molar refractivity", "mr molmr"),
}
MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}


def read_number(text: str) -> float | None:
    """The number in a cell; NaN if it is empty, None if it is not a number."""
    if text.strip().lower() in MISSING:
        return math.nan
    if "_" in text:  # Python reads 1_000 as a number
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def number_columns(
    table: pd.DataFrame, others: Sequence[str | None], path: str | Path, known: Sequence[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """The targets if none are given: the columns, except ``others``, that hold only numbers. The second result says why some of these are left out.

    A column that is named like an identifier and holds whole numbers, most of them different, is left out; and one that numbers the rows, if others
    remain. A column of which most cells are numbers is no target, either. Raise ``ValueError`` if there are no targets.

    Args:
        table: a table of text.
        others: columns for other purposes.
        path: the file of the table, for messages.
        known: columns that are targets in any case.
    """
    found: list[str] = []
    left: dict[str, str] = {}
    counting: list[str] = []
    for column in table.columns:
        values = [read_number(text) for text in table[column]] if column not in others else []
        numbers = [value for value in values if value is not None and not math.isnan(value)]
        if len(numbers) > values.count(None) > 0:
            row = values.index(None)
            left[column] = f"holds {table[column].iloc[row]!r} in row {row + 1}, though most of its cells are numbers"
        if None in values or not numbers:
            continue
        whole = all(value >= 0 and value.is_integer() for value in numbers)
        different = len(set(numbers))
        if column not in known and whole and 2 * different > len(numbers) and _names_identifiers(column):
            left[column] = "is named like an identifier, and holds whole numbers"
            continue
        found.append(column)
        if whole and different == len(numbers) >= COUNTED and max(numbers) - min(numbers) == different - 1:
            counting.append(column)
    if counting and len(counting) < len(found):
        left |= {column: "numbers the rows without a gap" for column in counting if column not in known}
        found = [column for column in found if column not in left]
    if not found:
        but = [c for c in others if c] + [f"{column} (which {why})" for column, why in left.items()]
        raise ValueError(f"{path} has no column of numbers except {', '.join(but)}; give the targets with --target-columns.")
    return found, left


def _names_identifiers(column: str) -> bool:
    """Whether a column has a name such as id, mol_id, CompoundID, or that of an index written by pandas.

    >>> [_names_identifiers(name) for name in ("mol_id", "CompoundID", "ID", "Unnamed: 0", "", "solid", "ID50", "%", "溶解度")]
    [True, True, True, True, True, False, False, False, False]
    """
    words = _words(column) or [column.strip()]  # a name may be in another alphabet
    return "".join(words) in ID_NAMES or words[-1] in ID_ENDS


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name)]


def computed_columns(labels: Sequence[Sequence[float]], targets: Sequence[str], molecules: Sequence[Molecule]) -> dict[str, str]:
    """The targets that are computed from the structure, and what they are: by their names, or because a descriptor of RDKit follows them exactly."""
    found = {}
    for t, target in enumerate(targets):
        name = "".join(_words(target))
        what = next((what for what, names in STRUCTURE.values() if name in names.split()), None)
        rows = [row for row in range(len(labels)) if not math.isnan(labels[row][t])][:MOST_CHECKED]
        values = np.array([labels[row][t] for row in rows])
        if what is None and len(rows) >= LEAST_CHECKED and len(set(values.tolist())) > 2:
            mine = [molecules[row] for row in rows]
            follows = (what for name, (what, _) in STRUCTURE.items() if _follow(values, [descriptor(each, name) for each in mine]))
            what = next(follows, None)
        if what is not None:
            found[target] = what
    return found


def _follow(values: np.ndarray, others: list[float]) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.corrcoef(values, others)[0, 1] > ALIKE)


def read_labels(
    table: pd.DataFrame, targets: list[str], task: str, classes: list[str]
) -> tuple[list[list[float]], list[str], dict[int, str]]:
    """The labels of each row (NaN for a missing one), the names of classes, and what is wrong with some rows."""
    wrong: dict[int, str] = {}
    if task == "multiclass":
        if len(targets) != 1:
            raise ValueError(f"a multiclass task has one target, got {', '.join(targets)}; use --target-columns once.")
        words = [text.strip() for text in table[targets[0]]]
        classes = classes or _in_order({word for word in words if word.lower() not in MISSING})
        for row, word in enumerate(words):
            if word not in classes and word.lower() not in MISSING:
                wrong[row] = f"{targets[0]} is {word!r}, expected one of {', '.join(classes)}"
        if len(classes) < 2:
            raise ValueError(f"column '{targets[0]}' holds {len(classes)} classes, expected two or more.")
        rows = [[float(classes.index(word)) if word in classes else math.nan] for word in words]
    else:
        rows = []
        for row in range(len(table)):
            values = [read_number(table[target].iloc[row]) for target in targets]
            for target, value in zip(targets, values, strict=True):
                shown = table[target].iloc[row]
                if value is None:
                    wrong.setdefault(row, f"{target} is {shown!r}, expected a number, or an empty cell for a missing label")
                elif abs(value) > LARGEST:
                    wrong.setdefault(
                        row, f"{target} is {shown!r}, expected a number of at most {LARGEST:g} in size; use other units"
                    )
                elif task == "classification" and not math.isnan(value) and value not in (0.0, 1.0):
                    wrong.setdefault(row, f"{target} is {shown!r}, expected 0 or 1; for more classes use --task-type multiclass")
            rows.append([math.nan if value is None else value for value in values])
    for row, found in enumerate(rows):
        if all(math.isnan(value) for value in found):
            wrong.setdefault(row, "no label")
    return rows, classes, wrong


def read_weights(cells: Sequence[str], column: str) -> tuple[list[float], dict[int, str]]:
    """The weight of each row, and what is wrong with some."""
    wrong: dict[int, str] = {}
    weights = []
    for row, text in enumerate(cells):
        value = read_number(text)
        good = value is not None and 0 <= value <= LARGEST
        if not good:
            wrong[row] = f"{column} is {text!r}, expected a weight: a number of at least 0"
        weights.append(value if value is not None and good else 0.0)
    return weights, wrong


def _in_order(words: set[str]) -> list[str]:
    """Sort numbers by value and words alphabetically."""
    try:
        return sorted(words, key=lambda word: (float(word), word))
    except ValueError:
        return sorted(words)
