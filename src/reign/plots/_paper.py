"""Find the cell of a table of the paper that a run belongs to, and how their settings differ."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from reign.experiments import find_table, list_tables
from reign.experiments.tables import PaperTable, mean_and_std
from reign.train.settings.config import Recipe


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
