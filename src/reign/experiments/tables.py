"""The paper's tables as recipes: rows are models, columns are tasks, a cell is a run."""

from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from reign._validate import did_you_mean
from reign.train.config import Recipe, Settings, explain
from reign.train.overrides import merge, nested, read_yaml

Number = tuple[float, float | None]


class Column(Settings):
    """A column: what differs there, and which number of a run it shows."""

    settings: dict[str, Any] = Field(default_factory=dict)
    value: Literal["test", "val", "train", "best_train"] = "test"


class Row(Settings):
    """A row: a model, what the paper found, and the grid it was chosen from."""

    title: str
    settings: dict[str, Any] = Field(default_factory=dict)
    paper: dict[str, float | Number] = Field(default_factory=dict)
    grid: dict[str, list[Any]] = Field(default_factory=dict)


class Quick(Settings):
    """What a quick look changes, and which rows and columns it has."""

    settings: dict[str, Any] = Field(default_factory=dict)
    rows: list[str] | None = None
    columns: list[str] | None = None


class Table(Settings):
    """A table of the paper."""

    title: str
    unit: str = Field(description="what the numbers are")
    factor: float = Field(1.0, description="of our numbers, to have the paper's unit")
    seeds: int = 1
    settings: dict[str, Any]
    columns: dict[str, Column] = Field(default_factory=lambda: {"test": Column()}, min_length=1)
    rows: dict[str, Row] = Field(min_length=1)
    quoted: dict[str, dict[str, float | Number | None]] = Field(
        default_factory=dict, description="rows the paper took from elsewhere"
    )
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    quick: Quick = Quick()
    notes: list[str] = Field(default_factory=list)

    def recipe(self, row: str, column: str, *changes: dict[str, Any], quick: bool = False) -> Recipe:
        """The recipe of a cell."""
        settings = [self.settings, self.columns[column].settings, self.rows[row].settings]
        settings += [self.quick.settings] if quick else []
        return Recipe.check(
            merge({"seeds": list(range(self.seeds))}, *settings, *changes), self.title if row == "run" else f"{row}/{column}"
        )

    def own_run(self, column: str) -> str:
        """The column whose run a column shows: columns without settings of their own show numbers of one run."""
        return next(name for name, other in self.columns.items() if other.settings == self.columns[column].settings)

    def find_row(self, name: str) -> str:
        """A row by its name."""
        return _find(name, list(self.rows), "row")

    def find_column(self, name: str) -> str:
        """A column by its name."""
        return _find(name, list(self.columns), "column")

    def grid_of(self, row: str) -> dict[str, list[Any]]:
        """What to choose from."""
        return {**self.grid, **self.rows[row].grid}


def list_tables() -> list[str]:
    """The names of the paper's tables.

    >>> "zinc" in list_tables()
    True
    """
    return sorted(
        file.name.removesuffix(".yaml")
        for file in resources.files("reign.experiments.recipes").iterdir()
        if file.name.endswith(".yaml")
    )


def load_table_recipe(name: str) -> Table:
    """A table by name, or from a YAML file."""
    if name.endswith((".yaml", ".yml")):
        if not Path(name).is_file():
            raise ValueError(f"there is no file {name}.")
        values = read_yaml(Path(name))
    else:
        name = _find(name, list_tables(), "recipe")
        with resources.as_file(resources.files("reign.experiments.recipes") / f"{name}.yaml") as file:
            values = read_yaml(file)
    if "rows" not in values:  # a single run
        values = {str(key): value for key, value in values.items()}
        return Table(title=name, unit="", settings=values, rows={"run": Row(title=name)})
    try:
        return Table.model_validate(values)
    except ValidationError as error:
        raise ValueError(f"{name}: " + "; ".join(explain(dict(e)) for e in error.errors())) from None


def find_recipe(name: str, *changes: dict[str, Any]) -> tuple[Recipe, str]:
    """A recipe by ``TABLE[/ROW[/COLUMN]]``, the first of each where not said, or a YAML file; and its full name."""
    start, rest = (name, []) if name.endswith((".yaml", ".yml")) else (name.split("/")[0], name.split("/")[1:])
    if len(rest) > 2:
        raise ValueError(f"'{name}' has {len(rest) + 1} parts, expected RECIPE, RECIPE/ROW or RECIPE/ROW/COLUMN.")
    table = load_table_recipe(start)
    row = table.find_row(rest[0]) if rest else next(iter(table.rows))
    column = table.find_column(rest[1]) if len(rest) > 1 else next(iter(table.columns))
    return table.recipe(row, column, *changes), "/".join([Path(start).stem, row, column])


def cells(table: Table, rows: list[str] | None = None, columns: list[str] | None = None) -> Iterator[tuple[str, str]]:
    """Rows and columns, all if not given."""
    for row in [table.find_row(r) for r in rows] if rows else table.rows:
        for column in [table.find_column(c) for c in columns] if columns else table.columns:
            yield row, column


def point(choice: dict[str, Any]) -> dict[str, Any]:
    """A point of a grid as settings."""
    return merge(*(nested(key, value) for key, value in choice.items()))


def _find(name: str, known: list[str], what: str) -> str:
    if name in known:
        return name
    raise ValueError(f"unknown {what} '{name}'{did_you_mean(name, known)} Known: {', '.join(known)}.")
