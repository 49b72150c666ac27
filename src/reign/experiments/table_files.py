"""Table files: the YAML files of the paper's tables, and a user's own. A file can extend another one.

``extends: NAME`` takes all values of a table, a recipe or a base file (a name that starts with an underscore, such as ``_zinc``) that comes
with reign. ``extends: FILE.yaml`` takes the values of a file in the same folder. Values of the file itself override them.

A row can extend a row of any table, with ``extends: TABLE/ROW``: it takes the title, the settings and the grid of that row, but not the settings
of its table or of single cells, nor the numbers of the paper.
"""

from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reign._validate import did_you_mean
from reign.experiments.tables import PaperTable, find_name
from reign.train.settings.config import Recipe, explain
from reign.train.settings.yaml import merge, read_yaml

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
        return PaperTable.single(name, {str(key): value for key, value in values.items()})
    try:
        return PaperTable.model_validate(values)
    except ValidationError as error:
        raise ValueError(f"{name}: {explain(error, PaperTable)}") from None


def find_recipe(name: str, *changes: dict[str, Any]) -> tuple[Recipe, str]:
    """Find a recipe by ``TABLE[/ROW[/COLUMN]]`` or in a YAML file, and its full name. The default is the first row and the first column."""
    start, rest = (name, []) if name.endswith(YAML) else (name.split("/")[0], name.split("/")[1:])
    if len(rest) > 2:
        raise ValueError(f"'{name}' has {len(rest) + 1} parts, expected TABLE, TABLE/ROW or TABLE/ROW/COLUMN.")
    table = find_table(start)
    row = table.find_row(rest[0]) if rest else next(iter(table.rows))
    column = table.find_column(rest[1]) if len(rest) > 1 else next(iter(table.columns))
    return table.recipe(row, column, *changes), "/".join([Path(start).stem, row, column])


def read_extended(name: str) -> dict[str, Any]:
    """The values of a table file, merged over those of the file that it extends, and so on; the same for its rows.

    Args:
        name: the name of a file that comes with reign, or the path of a YAML file.
    """
    return _Files().read(name)


class _Files:
    """Files that extend each other. Each is read once, and of the tables that rows extend only these rows are looked at."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Any]] = {}

    def read(self, name: str) -> dict[str, Any]:
        """The values of a file and of all that it extends."""
        out: dict[str, Any] = {}
        for file in reversed(self.chain(name)):
            own = {key: value for key, value in self.values[file].items() if key != "extends"}
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
        found: dict[str, Any] = {}
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
        taken = {key: value for key, value in found.items() if key not in ("paper", "cells")}
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


def _read(name: str) -> dict[str, Any]:
    if name.endswith(YAML):
        return read_yaml(Path(name))
    with resources.as_file(resources.files(FOLDER) / f"{name}.yaml") as file:
        return read_yaml(file)
