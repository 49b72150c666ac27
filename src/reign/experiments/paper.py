"""The tables of the paper: rows are models, columns are tasks, and the settings of a cell are a recipe; and the YAML files that hold them.

``extends: NAME`` takes all values of a table, a recipe or a base file (a name that starts with an underscore, such as ``_zinc``) that comes
with reign. ``extends: FILE.yaml`` takes the values of a file in the same folder. Values of the file itself override them.

``settings: {extends: molecules}`` takes the settings of a single recipe.

A row can extend a row of any table, with ``extends: TABLE/ROW``: it takes the title, the settings and the grid of that row, but not the settings
of its table or of single cells, nor the numbers of the paper or the runs that the row uses.
"""

from collections.abc import Iterator, Mapping
from fnmatch import filter as matching
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from reign._validate import did_you_mean
from reign.tables import Table, number
from reign.train.runs.run import Run
from reign.train.settings.config import Recipe, Settings
from reign.train.settings.yaml import RawSettings, merge, read_yaml

Number = tuple[float, float | None]
Value = Literal["test", "val", "train", "best_train", "cliff", "noncliff"]
SINGLE = "run"  # the row of a table that is a single recipe


class Column(Settings):
    """A column of a table: its settings, and which number of a run it shows."""

    settings: RawSettings = Field(default_factory=dict)
    value: Value = "test"


class Row(Settings):
    """A row of a table: the settings of a model, also those of single cells, the numbers of the paper, and the grid from which the settings are
    chosen."""

    title: str
    settings: RawSettings = Field(default_factory=dict)
    cells: dict[str, RawSettings] = Field(default_factory=dict, description="settings that were chosen for a column")
    paper: dict[str, float | Number] = Field(default_factory=dict)
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    runs: str | None = Field(
        None, pattern=r"^[^/]+/[^/]+/[^/]+$", description="TABLE/ROW/COLUMN, whose runs are used again where they are finished"
    )
    trivial: bool = Field(False, description="the mean of the training targets for all graphs, without a model")


class Quick(Settings):
    """A quick test of a table: the settings that it changes, and the rows and columns that it runs."""

    settings: RawSettings = Field(default_factory=dict)
    rows: list[str] | None = None
    columns: list[str] | None = None


class PaperTable(Settings):
    """A table of the paper."""

    title: str
    unit: str = Field(description="the unit of the numbers")
    factor: float = Field(1.0, description="factor that converts our numbers to the unit of the paper")
    seeds: int = 1
    settings: RawSettings
    columns: dict[str, Column] = Field(default_factory=lambda: {"test": Column()}, min_length=1)
    also: list[Value] = Field(
        default_factory=list,
        description="numbers that further columns, NAME-VALUE, show of the run of each column; the table then shows means",
    )
    rows: dict[str, Row] = Field(min_length=1)
    quoted: dict[str, dict[str, float | Number | None]] = Field(
        default_factory=dict, description="rows that the paper took from other work"
    )
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    max_weights: int | None = Field(None, description="the largest number of weights of a point of a grid")
    search: Mapping[str, Any] | None = Field(
        None, description="settings of the data with which a grid is searched once for all columns of a row"
    )
    quick: Quick = Quick()
    notes: list[str] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, given: RawSettings) -> RawSettings:
        columns, also = given.get("columns"), given.get("also")
        if not isinstance(columns, dict) or not isinstance(also, list):
            return given
        more = {f"{name}-{value}": {**about, "value": value} for name, about in columns.items() for value in also}
        return {**given, "columns": {**columns, **more}}

    @model_validator(mode="after")
    def _check(self) -> "PaperTable":
        for name, row in self.rows.items():
            for column in row.cells:
                if column not in self.columns:
                    raise ValueError(f"rows.{name}.cells has '{column}', expected columns of the table: {', '.join(self.columns)}")
        return self

    @classmethod
    def single(cls, title: str, settings: RawSettings) -> "PaperTable":
        """A single recipe as a table with one cell."""
        return cls(title=title, unit="", settings=settings, rows={SINGLE: Row(title=title)})

    @property
    def is_single(self) -> bool:
        """Whether this is a single recipe and not a table of the paper."""
        return list(self.rows) == [SINGLE]

    def settings_of(self, row: str, column: str, quick: bool = False) -> RawSettings:
        """The settings of a cell as plain values. Those of the table are overridden by its column, its row, the cell itself and the quick test, in
        this order."""
        about = self.rows[row]
        layers = [self.settings, self.columns[column].settings, about.settings, about.cells.get(column, {})]
        return merge({"seeds": list(range(self.seeds))}, *layers, self.quick.settings if quick else {})

    def recipe(self, row: str, column: str, *changes: Mapping[str, Any], quick: bool = False) -> Recipe:
        """The recipe of a cell, with some changes."""
        return Recipe.check(
            merge(self.settings_of(row, column, quick), *changes), self.title if self.is_single else f"{row}/{column}"
        )

    def precision(self, *changes: Mapping[str, Any]) -> str:
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
    """The cells of a table in the given rows and columns; all if not given. A column may be a pattern, such as CHEMBL2*."""
    found = dict.fromkeys(name for c in columns or ["*"] for name in matching(table.columns, c) or [table.find_column(c)])
    for row in [table.find_row(r) for r in rows] if rows else table.rows:
        for column in found:
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


# -- files ---------------------------------------------------------------------------------------------------------------------

FOLDER = "reign.experiments.recipes"
YAML = (".yaml", ".yml")


def list_tables() -> list[str]:
    """The names of the paper's tables, and of the recipe for tables of molecules.

    >>> "zinc" in list_tables()
    True
    """
    return [name for name in _built_in() if not name.startswith("_")]


def find_table(name: str) -> PaperTable:
    """Find a table by its name, or read it from a YAML file. A recipe becomes a table with one cell."""
    if not name.endswith(YAML):
        name = find_name(name, list_tables(), "table or recipe")
    elif not _is_file(Path(name)):
        raise ValueError(f"the file {name} does not exist.")
    values = read_extended(name)
    if "rows" not in values:
        of_a_run = Run(Path(name).parent).files.problem.is_file()  # perhaps of an older version
        values = ({"format": 1} if of_a_run else {}) | {str(key): value for key, value in values.items()}
        if values.get("format") == 1:
            values = Recipe.todays(values)  # before any changes, which have the defaults of today
        return PaperTable.single(name, values)
    return PaperTable.check(values, name)


def find_recipe(name: str, *changes: Mapping[str, Any]) -> tuple[Recipe, str]:
    """Find a recipe by ``TABLE[/ROW[/COLUMN]]`` or in a YAML file, and its full name. The default is the first row and the first column."""
    start, rest = (name, []) if name.endswith(YAML) else (name.split("/")[0], name.split("/")[1:])
    if len(rest) > 2:
        raise ValueError(f"'{name}' has {len(rest) + 1} parts, expected TABLE, TABLE/ROW or TABLE/ROW/COLUMN.")
    table = find_table(start)
    row = (
        table.find_row(rest[0])
        if rest
        else next((name for name, about in table.rows.items() if not about.trivial), next(iter(table.rows)))
    )
    if table.rows[row].trivial:
        raise ValueError(f"{start}/{row} has no model to train; reign reproduce {start} computes it.")
    column = table.find_column(rest[1]) if len(rest) > 1 else next(iter(table.columns))
    return table.recipe(row, column, *changes), "/".join([Path(start).stem, row, column])


def read_extended(name: str) -> RawSettings:
    """The values of a table file, merged over those of the file that it extends, and so on; the same for its rows.

    Args:
        name: the name of a file that comes with reign, or the path of a YAML file.
    """
    return _Files().read(name)


class _Files:
    """Files that extend each other. Each is read once, and of the tables that rows extend only these rows are looked at."""

    def __init__(self) -> None:
        self.values: dict[str, RawSettings] = {}

    def read(self, name: str) -> RawSettings:
        """The values of a file and of all that it extends."""
        out: RawSettings = {}
        for file in reversed(self.chain(name)):
            own = {key: value for key, value in self.values[file].items() if key != "extends"}
            if isinstance(settings := own.get("settings"), dict) and "extends" in settings:
                base = self.read(_base(file, settings["extends"]))
                own["settings"] = merge(base, {key: value for key, value in settings.items() if key != "extends"})
            if isinstance(rows := own.get("rows"), dict):
                own["rows"] = {row: self.extended(file, str(row), about) for row, about in rows.items()}
            out = merge(out, own)
        return out

    def chain(self, name: str) -> list[str]:
        """The file itself, the file that it extends, and so on."""
        found, places = [name], [_place(name)]
        while True:
            if found[-1] not in self.values:
                self.values[found[-1]] = _read(found[-1])
            if "extends" not in (values := self.values[found[-1]]):
                return found
            found.append(_base(found[-1], values["extends"]))
            places.append(_place(found[-1]))
            if places[-1] in places[:-1]:
                raise ValueError(f"{name} extends itself: {' -> '.join(places)}; remove one 'extends'.")

    def extended(self, name: str, row: str, about: Any, chain: tuple[tuple[str, str], ...] = ()) -> Any:
        """The values of a row, merged over those of the row that it extends, which is a row of this file or of another one."""
        if not isinstance(about, dict) or "extends" not in about:
            return about
        base, what = about["extends"], f"{name}: rows.{row}.extends is {about['extends']!r}"
        if not isinstance(base, str) or "/" not in base:
            raise ValueError(f"{what}, expected TABLE/ROW, such as zinc/gin.")
        if (here := (_place(name), row)) in chain:
            raise ValueError(f"{what}, but that row extends this one; remove one 'extends'.")
        table, _, wanted = base.rpartition("/")
        found: RawSettings = {}
        known: list[str] = []
        for file in reversed(self.chain(_base(name, table))):
            rows = self.values[file].get("rows")
            known += map(str, rows if isinstance(rows, dict) else [])
            if isinstance(rows, dict) and wanted in rows:
                part = self.extended(file, wanted, rows[wanted], (*chain, here))
                if not isinstance(part, dict):
                    raise ValueError(f"{what}, which is {part!r}, expected a row with a title and settings.")
                found = merge(found, part)
        if wanted not in known:
            raise ValueError(
                f"{what}, but {table} has no such row{did_you_mean(wanted, known)} It has {', '.join(known) or 'no rows'}."
            )
        taken = {key: value for key, value in found.items() if key not in ("paper", "cells", "runs")}
        return merge(taken, {key: value for key, value in about.items() if key != "extends"})


def _place(name: str) -> str:
    return str(Path(name).resolve()) if name.endswith(YAML) else name


def _base(name: str, base: Any) -> str:
    """The name or path of a base that a file extends."""
    if not isinstance(base, str):
        raise ValueError(f"{name}: extends is {base!r}, expected the name of a table or recipe, or a YAML file.")
    if not base.endswith(YAML):
        known = _built_in()
        if base not in known:
            raise ValueError(
                f"{name} extends '{base}', which does not exist{did_you_mean(base, known)} Known: {', '.join(known)}, or a YAML file."
            )
        return base
    file = Path(name).parent / base
    if not _is_file(file):
        raise ValueError(f"{name} extends {base}, but the file {file} does not exist.")
    return str(file)


def _is_file(file: Path) -> bool:
    try:
        return file.is_file()
    except (OSError, ValueError):  # a name that is too long, or has a null character
        return False


def _built_in() -> list[str]:
    files = (file.name for file in resources.files(FOLDER).iterdir())
    return sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))


def _read(name: str) -> RawSettings:
    if name.endswith(YAML):
        return read_yaml(Path(name))
    with resources.as_file(resources.files(FOLDER) / f"{name}.yaml") as file:
        return read_yaml(file)
