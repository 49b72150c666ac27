"""Columns of a table as labels: numbers, 0 or 1, or classes; an empty cell is a missing label."""

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

LARGEST = 3e38  # largest absolute value of a label, close to the largest float32
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


def number_columns(table: pd.DataFrame, others: Sequence[str | None], path: str | Path) -> list[str]:
    """The columns, except ``others``, that hold only numbers. Raise ``ValueError`` if there are none."""

    def numbers(column: str) -> bool:
        values = [read_number(text) for text in table[column]]
        return all(v is not None for v in values) and any(v is not None and not math.isnan(v) for v in values)

    found = [column for column in table.columns if column not in others and numbers(column)]
    if not found:
        raise ValueError(
            f"{path} has no column of numbers except {', '.join(c for c in others if c)}; give the targets with --target-columns."
        )
    return found


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
