"""A user's table of molecules as a problem to learn. No row is lost without a word."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import torch
from torch_geometric.data import Data

from reign.data import GraphPack, Problem, column_split, random_split, scaffold_split
from reign.data.molecules._csv_reader import need_columns, read_table
from reign.data.molecules._smiles import canonical, from_many, scaffold

MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}


@dataclass
class Report:
    """What was found in a table; rows are counted from 1, below the header."""

    rows: int
    left_out: dict[int, str] = field(default_factory=dict)
    duplicates: int = 0
    apart: int = 0
    splits: dict[str, int] = field(default_factory=dict)
    salts: int = 0
    spaces: int = 0
    missing: int = 0

    def lines(self) -> list[str]:
        """In words."""
        out = [f"{self.rows - len(self.left_out):,} of {self.rows:,} rows read"]
        if self.missing:
            out.append(f"{self.missing:,} labels are missing; they count nowhere")
        if self.duplicates:
            where = f"{self.apart:,} of them are in more than one split" if self.apart else "each in one split"
            out.append(f"{self.duplicates:,} rows repeat a molecule; all are kept, {where}")
        if self.salts:
            out.append(f"{self.salts:,} rows are salts or mixtures; each is one graph of several pieces")
        if self.spaces:
            out.append(f"{self.spaces:,} SMILES have spaces around them, which do not matter")
        for split, number in self.splits.items():
            if number == 0:
                out.append(f"no row is for {split}")
        return out


def read_molecules(table: pd.DataFrame, columns: Sequence[str], odd: dict[int, str]) -> tuple[list[Data | None], dict[int, str]]:
    """A graph for each row, or None and the reason. Several columns of SMILES make one graph of several pieces.

    Args:
        table: of text.
        columns: of SMILES.
        odd: rows that are known not to be read, and why.
    """
    cells = ([text.strip() for text in texts] for texts in zip(*(table[column] for column in columns), strict=True))
    graphs, wrong = from_many(".".join(texts) if all(texts) and row not in odd else "" for row, texts in enumerate(cells))
    return graphs, {**wrong, **odd}


def load_table(
    path: str | Path,
    smiles_columns: Sequence[str] = ("smiles",),
    target_columns: Sequence[str] | None = None,
    task: str = "regression",
    split: str = "random",
    split_sizes: Sequence[float] = (0.8, 0.1, 0.1),
    splits_column: str | None = None,
    split_seed: int = 0,
    classes: Sequence[str] = (),
) -> tuple[Problem, Report]:
    """A table of molecules as a problem, and what was found in it; ``classes`` are those there are if not given."""
    table, odd = read_table(path)
    need_columns(table, [*smiles_columns, *(target_columns or []), *([splits_column] if splits_column else [])], path)
    targets = list(target_columns) if target_columns else _number_columns(table, [*smiles_columns, splits_column], path)
    graphs, wrong = read_molecules(table, smiles_columns, odd)
    labels, known, wrong_labels = _labels(table, targets, task, list(classes))
    wrong = {**wrong_labels, **wrong}
    if splits_column:
        _, wrong_split = column_split(list(table[splits_column]))
        wrong = {**wrong_split, **wrong}
    good = [row for row in range(len(table)) if row not in wrong]
    report = Report(len(table), {row + 1: wrong[row] for row in sorted(wrong)})
    if not good:
        first = next(iter(report.left_out.items()), None)
        raise ValueError(f"{path} has no row to learn from" + (f"; row {first[0]}: {first[1]}." if first else ": it has no rows."))
    chosen = []
    for row in good:
        data = graphs[row]
        assert data is not None
        data.y = torch.tensor([labels[row]], dtype=torch.float64)
        chosen.append(data)
    texts = [".".join(table[column].iloc[row].strip() for column in smiles_columns) for row in good]
    keys = [canonical(text) for text in texts]
    report.duplicates = len(keys) - len(set(keys))
    report.salts = sum(any("." in table[c].iloc[row] for c in smiles_columns) for row in good)
    report.spaces = sum(any(table[c].iloc[row] != table[c].iloc[row].strip() for c in smiles_columns) for row in good)
    report.missing = sum(math.isnan(value) for row in good for value in labels[row])
    if splits_column:
        splits, _ = column_split([table[splits_column].iloc[row] for row in good])
    elif split == "scaffold_balanced":
        splits = scaffold_split([scaffold(text) for text in texts], keys, split_sizes, split_seed)
    else:
        splits = random_split(keys, split_sizes, split_seed)
    owner = {i: split for split, ids in splits.items() for i in ids.tolist()}
    report.apart = len(keys) - len(set(keys)) and len({(key, owner[i]) for i, key in enumerate(keys)}) - len(set(keys))
    report.splits = {split: int(splits[split].numel()) if split in splits else 0 for split in ("train", "val", "test")}
    if "train" not in splits:
        raise ValueError(f"{path} leaves no row for training; it has {len(good)} rows that can be read.")
    known_rows = splits["train"].tolist()
    for column, target in enumerate(targets):
        if all(math.isnan(labels[good[i]][column]) for i in known_rows):
            raise ValueError(
                f"{target} has no label in the {len(known_rows)} training rows; leave it out, or split in another way."
            )
    problem = Problem(
        name=Path(path).name,
        graphs=GraphPack.of(chosen),
        splits=splits,
        task=task,
        targets=targets,
        node_encoder="atom",
        edge_encoder="bond",
        classes=known,
        names=[str(row + 1) for row in good],
    )
    return problem, report


def _number(text: str) -> float | None:
    """The number a cell holds, NaN if it is empty, None if it holds something else."""
    if text.strip().lower() in MISSING:
        return math.nan
    if "_" in text:  # Python takes 1_000 for a number
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _number_columns(table: pd.DataFrame, others: Sequence[str | None], path: str | Path) -> list[str]:
    def numbers(column: str) -> bool:
        values = [_number(text) for text in table[column]]
        return all(v is not None for v in values) and any(v is not None and not math.isnan(v) for v in values)

    found = [column for column in table.columns if column not in others and numbers(column)]
    if not found:
        raise ValueError(
            f"{path} has no column of numbers beside {', '.join(c for c in others if c)}; name the targets with --target-columns."
        )
    return found


def _labels(
    table: pd.DataFrame, targets: list[str], task: str, classes: list[str]
) -> tuple[list[list[float]], list[str], dict[int, str]]:
    """Labels of each row (NaN where missing), names of classes, and what is wrong with some rows."""
    wrong: dict[int, str] = {}
    if task == "multiclass":
        if len(targets) != 1:
            raise ValueError(f"multiclass has one target, got {', '.join(targets)}; use --target-columns once.")
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
            values = [_number(table[target].iloc[row]) for target in targets]
            for target, value in zip(targets, values, strict=True):
                shown = table[target].iloc[row]
                if value is None:
                    wrong.setdefault(row, f"{target} is {shown!r}, expected a number, or nothing if it is missing")
                elif task == "classification" and not math.isnan(value) and value not in (0.0, 1.0):
                    wrong.setdefault(row, f"{target} is {shown!r}, expected 0 or 1; for more classes use --task-type multiclass")
            rows.append([math.nan if value is None else value for value in values])
    for row, found in enumerate(rows):
        if all(math.isnan(value) for value in found):
            wrong.setdefault(row, "no label")
    return rows, classes, wrong


def _in_order(words: set[str]) -> list[str]:
    """Numbers by value, words by letters."""
    try:
        return sorted(words, key=lambda word: (float(word), word))
    except ValueError:
        return sorted(words)
