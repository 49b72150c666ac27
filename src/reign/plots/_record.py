"""A finished run for a report: all of it is read before the first page is written."""

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch

from reign.experiments import find_table, list_tables
from reign.experiments.paper import PaperTable, mean_and_std
from reign.train.runs.run import Run
from reign.train.settings.config import Recipe
from reign.train.settings.losses import as_outputs
from reign.train.settings.metrics import METRICS
from reign.train.settings.yaml import RawSettings


class FinishedRun(Run):
    """A finished run, with the history of its models."""

    @classmethod
    def read(cls, folder: Path) -> "FinishedRun":
        """Read the folder of a run. If a file is damaged, ``ValueError`` names it."""
        run = cls.open(folder)
        _ = run.summary, run.recipe, run.environment, run.memory, run.table, run.history, run.predictions
        return run

    @cached_property
    def history(self) -> list[dict[str, list[float]]]:
        """The metrics of every epoch of each model, by column."""
        return [member.history for member in self.members]

    def metrics_of_targets(self) -> tuple[list[str], list[list[float]]]:
        """The names of all metrics that suit the task, and their values for each target."""
        found, problem = self.predictions, self.problem
        assert found is not None
        names = [name for name, metric in METRICS.items() if problem.task in metric.tasks]
        rows = []
        for t in range(len(problem.targets)):
            values = found.values if problem.classes else found.values[:, t : t + 1]
            out, y = as_outputs(torch.from_numpy(values), problem.task), torch.from_numpy(found.y[:, t : t + 1])
            rows.append([METRICS[name](out, y) for name in names])
        return names, rows


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
                    found.append(PaperCell(table, name, row, column, differences(theirs["train"], mine["train"], "train.")))
    least = min((len(cell.other) for cell in found), default=0)
    return [cell for cell in found if len(cell.other) == least and cell.number is not None]


@cache
def _tables() -> dict[str, PaperTable]:
    """The tables of the paper. They are read only once."""
    tables = {name: find_table(name) for name in list_tables()}
    return {name: table for name, table in tables.items() if not table.is_single}


@cache
def _settings(name: str, row: str, column: str) -> RawSettings:
    return _tables()[name].settings_of(row, column)


@cache
def _recipe(name: str, row: str, column: str) -> RawSettings:
    return _tables()[name].recipe(row, column).model_dump(mode="json")


def differences(theirs: RawSettings, mine: RawSettings, prefix: str = "") -> dict[str, tuple[Any, Any]]:
    """The settings that differ between two recipes, with both values, by their names such as ``train.epochs``."""
    out: dict[str, tuple[Any, Any]] = {}
    for key in {**theirs, **mine}:
        a, b = theirs.get(key), mine.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            out |= differences(a, b, f"{prefix}{key}.")
        elif a != b and key not in ("eager", "max_pairs", "tensorboard"):
            out[f"{prefix}{key}"] = (a, b)
    return out
