"""A table of the paper: rows are models, columns are tasks, and the settings of a cell are a recipe."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, model_validator

from reign._validate import did_you_mean
from reign.tables import Table, number
from reign.train.settings.config import Recipe, Settings
from reign.train.settings.yaml import merge

Number = tuple[float, float | None]
SINGLE = "run"  # the row of a table that is a single recipe


class Column(Settings):
    """A column of a table: its settings, and which number of a run it shows."""

    settings: dict[str, Any] = Field(default_factory=dict)
    value: Literal["test", "val", "train", "best_train"] = "test"


class Row(Settings):
    """A row of a table: the settings of a model, also those of single cells, the numbers of the paper, and the grid from which the settings were
    chosen."""

    title: str
    settings: dict[str, Any] = Field(default_factory=dict)
    cells: dict[str, dict[str, Any]] = Field(default_factory=dict, description="settings that were chosen for a column")
    paper: dict[str, float | Number] = Field(default_factory=dict)
    grid: dict[str, list[Any]] = Field(default_factory=dict)


class Quick(Settings):
    """A quick test of a table: the settings that it changes, and the rows and columns that it runs."""

    settings: dict[str, Any] = Field(default_factory=dict)
    rows: list[str] | None = None
    columns: list[str] | None = None


class PaperTable(Settings):
    """A table of the paper."""

    title: str
    unit: str = Field(description="the unit of the numbers")
    factor: float = Field(1.0, description="factor that converts our numbers to the unit of the paper")
    seeds: int = 1
    settings: dict[str, Any]
    columns: dict[str, Column] = Field(default_factory=lambda: {"test": Column()}, min_length=1)
    rows: dict[str, Row] = Field(min_length=1)
    quoted: dict[str, dict[str, float | Number | None]] = Field(
        default_factory=dict, description="rows that the paper took from other work"
    )
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    quick: Quick = Quick()
    notes: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check(self) -> "PaperTable":
        for name, row in self.rows.items():
            for column in row.cells:
                if column not in self.columns:
                    raise ValueError(f"rows.{name}.cells has '{column}', expected columns of the table: {', '.join(self.columns)}")
        return self

    @classmethod
    def single(cls, title: str, settings: dict[str, Any]) -> "PaperTable":
        """A single recipe as a table with one cell."""
        return cls(title=title, unit="", settings=settings, rows={SINGLE: Row(title=title)})

    @property
    def is_single(self) -> bool:
        """Whether this is a single recipe and not a table of the paper."""
        return list(self.rows) == [SINGLE]

    def settings_of(self, row: str, column: str, quick: bool = False) -> dict[str, Any]:
        """The settings of a cell as plain values. Those of the table are overridden by its column, its row, the cell itself and the quick test, in
        this order."""
        about = self.rows[row]
        layers = [self.settings, self.columns[column].settings, about.settings, about.cells.get(column, {})]
        return merge({"seeds": list(range(self.seeds))}, *layers, self.quick.settings if quick else {})

    def recipe(self, row: str, column: str, *changes: dict[str, Any], quick: bool = False) -> Recipe:
        """The recipe of a cell, with some changes."""
        return Recipe.check(
            merge(self.settings_of(row, column, quick), *changes), self.title if self.is_single else f"{row}/{column}"
        )

    def precision(self, *changes: dict[str, Any]) -> str:
        """The precision of the first cell. All cells of a table share the devices that are set up for it."""
        return self.recipe(next(iter(self.rows)), next(iter(self.columns)), *changes).train.precision

    def own_run(self, column: str) -> str:
        """The column whose run a column uses. Columns with the same settings show numbers of the same run."""
        return next(name for name, other in self.columns.items() if other.settings == self.columns[column].settings)

    def find_row(self, name: str) -> str:
        """Find a row by its name."""
        return find_name(name, list(self.rows), "row")

    def find_column(self, name: str) -> str:
        """Find a column by its name."""
        return find_name(name, list(self.columns), "column")

    def grid_of(self, row: str) -> dict[str, list[Any]]:
        """The values to try for each setting of a row."""
        return {**self.grid, **self.rows[row].grid}


def cells(table: PaperTable, rows: list[str] | None = None, columns: list[str] | None = None) -> Iterator[tuple[str, str]]:
    """The cells of a table in the given rows and columns; all if not given."""
    for row in [table.find_row(r) for r in rows] if rows else table.rows:
        for column in [table.find_column(c) for c in columns] if columns else table.columns:
            yield row, column


def mean_and_std(value: float | Number) -> Number:
    """A number of the paper as mean and standard deviation. The deviation is None if the paper gives none.

    >>> mean_and_std(0.1), mean_and_std((0.1, 0.02))
    ((0.1, None), (0.1, 0.02))
    """
    return value if isinstance(value, tuple) else (value, None)


def find_name(name: str, known: list[str], what: str) -> str:
    """Find a known name. An unknown name raises ``ValueError`` with a similar one."""
    if name in known:
        return name
    raise ValueError(f"unknown {what} '{name}'{did_you_mean(name, known)} Known: {', '.join(known)}.")


def list_of_tables(papers: dict[str, PaperTable]) -> Table:
    """The tables of the paper by name."""
    rows = [
        [name, "the recipe of reign train -i FILE.csv", "", ""]
        if paper.is_single
        else [name, paper.title, ", ".join(paper.rows), ", ".join(paper.columns)]
        for name, paper in papers.items()
    ]
    caption = "Use reign train TABLE/ROW/COLUMN, or reign reproduce TABLE."
    return Table("Tables of recipes", ["table", "description", "rows", "columns"], rows, caption, "l", names=True)


def paper_table(paper: PaperTable) -> Table:
    """The rows and columns of a table, with the numbers of the paper."""
    rows = [[row, about.title, *(in_print(about.paper.get(c)) for c in paper.columns)] for row, about in paper.rows.items()]
    rows += [["", f"{title} (quoted)", *(in_print(of.get(c)) for c in paper.columns)] for title, of in paper.quoted.items()]
    columns = ["row", "model", *(f"{column} (paper)" for column in paper.columns)]
    return Table(f"{paper.title}: {paper.unit}", columns, rows, " ".join(paper.notes), "llr", names=True)


def in_print(value: float | Number | None) -> str:
    """A number of the paper, if there is one.

    >>> in_print((0.083, 0.003)), in_print(0.1), in_print(None)
    ('0.083 ± 0.003', '0.1', '')
    """
    return "" if value is None else number(*mean_and_std(value))
