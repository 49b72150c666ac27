"""A table as it stands in the file: every line is a row, and a row with too many fields does not cost the others."""

import bz2
import csv
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from reign._validate import did_you_mean

OPEN: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
BROKEN = (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


def read_table(path: str | Path) -> tuple[pd.DataFrame, dict[int, str]]:
    """A CSV (or .tsv, perhaps compressed) as text; and what is wrong with the rows that have too many or too few fields."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}.")
    try:
        lines = list(csv.reader(io.StringIO(_text(path), newline=""), delimiter="\t" if ".tsv" in path.suffixes else ","))
    except BROKEN as error:
        raise ValueError(f"{path} cannot be read as a table ({str(error).strip()}).") from None
    if not lines or not any(lines[0]):
        raise ValueError(f"{path} cannot be read as a table (it has no header).")
    header, rows = lines[0], lines[1:]
    if twice := [name for name in header if header.count(name) > 1]:
        raise ValueError(f"{path} has {header.count(twice[0])} columns named '{twice[0]}'; rename them.")
    wrong = {}
    for r, row in enumerate(rows):
        extra = row[len(header) :]
        if any(cell.strip() for cell in extra):
            wrong[r] = f"the row has {len(row)} fields, expected {len(header)}"
        rows[r] = row[: len(header)] + [""] * (len(header) - len(row))
    return pd.DataFrame(rows, columns=header, dtype=str), wrong


def need_columns(table: pd.DataFrame, columns: Sequence[str], path: str | Path) -> None:
    """Raise ``ValueError`` for a column that is not there, with the nearest that is."""
    known = list(map(str, table.columns))
    for column in columns:
        if column not in known:
            hint = " Columns must be separated by commas." if len(known) == 1 and ";" in known[0] else ""
            raise ValueError(f"{path} has no column '{column}'{did_you_mean(column, known)} It has {', '.join(known)}.{hint}")
        if list(columns).count(column) > 1:
            raise ValueError(f"column '{column}' was given twice.")


def _text(path: Path) -> str:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if len(names) != 1:
                raise ValueError(f"{path} holds {len(names)} files, expected one table.")
            return archive.read(names[0]).decode("utf-8-sig")
    if path.suffix in OPEN:
        with OPEN[path.suffix](path, "rb") as file:
            return file.read().decode("utf-8-sig")
    return path.read_bytes().decode("utf-8-sig")
