"""A finished run, read from its folder for a report."""

import csv
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reign.disk import first_line, read_json, read_record
from reign.experiments import find_table, list_tables
from reign.experiments.paper import PaperTable, mean_and_std
from reign.train.run_folder import read_about
from reign.train.settings.config import Recipe
from reign.train.settings.losses import as_outputs
from reign.train.settings.metrics import METRICS
from reign.train.summary import read_summary

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Predictions:
    """The predictions of a run for the graphs of a split.

    Args:
        split: the split.
        names: the name or the index of each graph.
        texts: columns that describe the graphs, such as SMILES.
        y: the targets, NaN for a missing one; the index of the class for multiclass.
        values: the predictions; probabilities if targets are classes.
        unsure: their spread over models; None for a single model.
    """

    split: str
    names: list[str]
    texts: dict[str, list[str]]
    y: Floats
    values: Floats
    unsure: Floats | None


@dataclass(frozen=True, eq=False)
class Record:
    """A finished run.

    Args:
        folder: its folder.
        recipe: its settings.
        about: its task, targets and classes.
        summary: its results.
        environment, memory: versions, device and command, and the peak memory; empty if they are not known.
        table: the report on the table that was trained on; empty for a data set, and for runs of older versions.
        history: the metrics of each model, as a list of values for each column.
        predictions: the predictions for the test graphs, or otherwise for the validation graphs; None if there are none.
    """

    folder: Path
    recipe: Recipe
    about: dict[str, Any]
    summary: dict[str, Any]
    environment: dict[str, Any]
    memory: dict[str, Any]
    table: dict[str, Any]
    history: list[dict[str, list[float]]]
    predictions: Predictions | None

    @classmethod
    def read(cls, folder: Path) -> "Record":
        """Read the folder of a run. If a file is damaged, ``ValueError`` names it."""
        about, summary = read_about(folder), read_summary(folder)
        members = [folder / member["folder"] for member in summary["members"]]
        return cls(
            folder,
            Recipe.load(folder / "recipe.yaml"),
            about,
            summary,
            _object(folder / "environment.json"),
            _object(folder / "memory.json"),
            _table_report(folder / "table.json"),
            [_columns(member / "metrics.csv") for member in members],
            _predictions(folder, members, about),
        )

    @property
    def labels(self) -> list[str]:
        """The names of the predicted columns: targets, or classes."""
        return self.about["classes"] or self.about["targets"]

    def metrics_of_targets(self) -> tuple[list[str], list[list[float]]]:
        """The names of all metrics that suit the task, and their values for each target."""
        found = self.predictions
        assert found is not None
        names = [name for name, metric in METRICS.items() if self.about["task"] in metric.tasks]
        rows = []
        for t in range(len(self.about["targets"])):
            values = found.values if self.about["classes"] else found.values[:, t : t + 1]
            out, y = as_outputs(torch.from_numpy(values), self.about["task"]), torch.from_numpy(found.y[:, t : t + 1])
            rows.append([METRICS[name](out, y) for name in names])
        return names, rows


def _object(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    found = read_json(file)
    if not isinstance(found, dict):
        raise ValueError(f"{file} is damaged (it holds {type(found).__name__}).")
    return found


def _table_report(file: Path) -> dict[str, Any]:
    """The output of ``Report.record``."""
    if not file.is_file():
        return {}
    parts = {"in_several_splits": ("smiles", "rows"), "contradicting_labels": ("smiles", "target", "rows", "labels")}
    found = read_record(file, lines=list, warnings=list, left_out=dict, **dict.fromkeys(parts, list))
    for part, keys in parts.items():
        for each in found[part]:
            if not isinstance(each, dict) or not each.keys() >= set(keys):
                raise ValueError(f"{file} is damaged ({part} has {each!r:.80}, expected {', '.join(keys)}).")
    return found


def _rows(file: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with file.open(newline="") as lines:
            header, *rows = csv.reader(lines)
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(f"{file} is damaged ({first_line(error)}).") from None
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"{file} is damaged (a row does not have {len(header)} fields).")
    return header, rows


def _columns(file: Path) -> dict[str, list[float]]:
    header, rows = _rows(file)
    return {name: [_number(file, row[c]) for row in rows] for c, name in enumerate(header)}


def _number(file: Path, text: str) -> float:
    try:
        return float(text) if text else math.nan
    except ValueError:
        raise ValueError(f"{file} is damaged ('{text[:40]}' is not a number).") from None


def _predictions(folder: Path, members: list[Path], about: dict[str, Any]) -> Predictions | None:
    """The predictions of the run for its test graphs; otherwise those of its models for the validation graphs, of the first model or of all
    folds of a seed."""
    labels = about["classes"] or about["targets"]
    if (folder / "predictions.csv").is_file():
        return _table(folder / "predictions.csv", "test", about["targets"], labels, len(about["classes"]))
    same_seed = [m for m in members if m.parent == members[0].parent and m.name.startswith("fold-")] or members[:1]
    parts = [
        _table(m / "predictions.csv", "val", about["targets"], labels, len(about["classes"]))
        for m in same_seed
        if (m / "predictions.csv").is_file()
    ]
    if not parts:
        return None
    return Predictions(
        "val",
        [name for part in parts for name in part.names],
        {column: [text for part in parts for text in part.texts[column]] for column in parts[0].texts},
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.values for part in parts]),
        None,
    )


def _table(file: Path, split: str, targets: list[str], labels: list[str], classes: int) -> Predictions:
    header, rows = _rows(file)
    values = [f"{label}_pred" for label in labels]
    if missing := [name for name in [*targets, *values] if name not in header]:
        raise ValueError(f"{file} is damaged (it has no column '{missing[0]}').")
    first = header.index(targets[0], 1)
    unsure = [f"{label}_unc" for label in labels]

    def numbers(names: list[str], start: int) -> Floats:
        where = [header.index(name, start) for name in names]
        return np.array([[_number(file, row[c]) for c in where] for row in rows], dtype=np.float64).reshape(len(rows), len(names))

    y = numbers(targets, first)
    if classes and not all(value in range(classes) for value in y[~np.isnan(y)].tolist()):
        raise ValueError(f"{file} is damaged (expected classes from 0 to {classes - 1}).")
    spread = numbers(unsure, first + len(targets)) if all(name in header for name in unsure) else None
    return Predictions(
        split,
        [row[0] for row in rows],
        {header[c]: [row[c] for row in rows] for c in range(1, first)},
        y,
        numbers(values, first + len(targets)),
        None if spread is None or np.isnan(spread).all() else spread,
    )


# -- the cell of a table of the paper that a run belongs to --------------------------------------------------------------------


@dataclass(frozen=True)
class PaperCell:
    """A cell of a table of the paper.

    Args:
        table: the table.
        name: its name.
        row, column: the row and the column.
        other: the settings that differ between the cell and the run, with both values.
    """

    table: PaperTable
    name: str
    row: str
    column: str
    other: dict[str, tuple[Any, Any]]

    @property
    def number(self) -> tuple[float, float | None] | None:
        """The number of the paper and its deviation, if the paper gives them."""
        found = self.table.rows[self.row].paper.get(self.column)
        return None if found is None else mean_and_std(found)


def paper_cells(recipe: Recipe) -> list[PaperCell]:
    """The cells with the data and the model of a recipe and the fewest other differences. The list is empty if there is no such cell."""
    found: list[PaperCell] = []
    mine = recipe.model_dump(mode="json")
    for name, table in _tables().items() if recipe.data.name != "csv" else ():
        for row in table.rows:
            for column in table.columns:
                settings = _settings(name, row, column)
                if settings["data"].get("name") != recipe.data.name or settings["model"].get("name", "sun") != recipe.model.name:
                    continue
                theirs = _recipe(name, row, column)
                if all(theirs[part] == mine[part] for part in ("data", "model", "folds")):
                    found.append(PaperCell(table, name, row, column, _differences(theirs["train"], mine["train"], "train.")))
    least = min((len(cell.other) for cell in found), default=0)
    return [cell for cell in found if len(cell.other) == least and cell.number is not None]


@cache
def _tables() -> dict[str, PaperTable]:
    """The tables of the paper. They are read only once."""
    tables = {name: find_table(name) for name in list_tables()}
    return {name: table for name, table in tables.items() if not table.is_single}


@cache
def _settings(name: str, row: str, column: str) -> dict[str, Any]:
    return _tables()[name].settings_of(row, column)


@cache
def _recipe(name: str, row: str, column: str) -> dict[str, Any]:
    return _tables()[name].recipe(row, column).model_dump(mode="json")


def _differences(theirs: dict[str, Any], mine: dict[str, Any], prefix: str) -> dict[str, tuple[Any, Any]]:
    out: dict[str, tuple[Any, Any]] = {}
    for key in {**theirs, **mine}:
        a, b = theirs.get(key), mine.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            out |= _differences(a, b, f"{prefix}{key}.")
        elif a != b and key not in ("eager", "max_pairs", "tensorboard"):
            out[f"{prefix}{key}"] = (a, b)
    return out
