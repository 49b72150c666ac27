"""Read a table literally: every line is a row, and a row with too many fields does not affect the others."""

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
from reign.disk import first_line

OPEN: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
BROKEN = (
    OSError,
    EOFError,
    UnicodeDecodeError,
    csv.Error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    RuntimeError,  # an encrypted archive
    NotImplementedError,  # an archive with a compression that Python does not support
)
LARGEST = 2**31  # largest size of a decompressed table in bytes, because a small file can decompress to more than the memory


def read_table(path: str | Path) -> tuple[pd.DataFrame, dict[int, str]]:
    """Read a CSV or .tsv, which may be compressed, as text. The second result explains what is wrong with rows of too many or few fields."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}.")
    try:
        records = _records(_text(path), "\t" if ".tsv" in path.suffixes else ",")
    except BROKEN as error:
        raise ValueError(f"{path} cannot be read as a table ({first_line(error)}).") from None
    except _OpenQuote as error:
        raise ValueError(
            f"{path} cannot be read as a table: the quote that opens in line {error.line} {error}, so rows would be lost. Close the quote "
            "where its field ends, or double it if it is part of the text; if the field is meant to span lines, put it on one line."
        ) from None
    if not records or not any(records[0]):
        raise ValueError(f"{path} cannot be read as a table (it has no header).")
    header, rows = records[0], records[1:]
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
    """Raise ``ValueError`` for a column that does not exist, with a similar name that does."""
    known = list(map(str, table.columns))
    for column in columns:
        if column not in known:
            hint = " Columns must be separated by commas." if len(known) == 1 and ";" in known[0] else ""
            raise ValueError(f"{path} has no column '{column}'{did_you_mean(column, known)} It has {', '.join(known)}.{hint}")
        if list(columns).count(column) > 1:
            raise ValueError(f"column '{column}' was given twice.")


class _OpenQuote(Exception):
    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


def _records(text: str, delimiter: str) -> list[list[str]]:
    """The rows of a table, starting with the header. Raise ``_OpenQuote`` for a quote that swallows rows.

    A quoted field may span several lines. If the first and another one of these lines are rows by themselves, or if the quote is not closed
    or is closed in the middle of a field, the quote is assumed to be unclosed by mistake.
    """
    lines = list(io.StringIO(text, newline=""))
    limit = csv.field_size_limit(max(len(text), 1))  # one long field must not make the others unreadable
    try:
        reader = csv.reader(lines, delimiter=delimiter)
        records: list[list[str]] = []
        first = 0
        for record in reader:
            span, first = lines[first : reader.line_num], reader.line_num
            records.append(record)
            if len(span) > 1 or first == len(lines):
                _check_quotes(span, len(records[0]), first - len(span) + 1, delimiter)
        return records
    finally:
        csv.field_size_limit(limit)


def _check_quotes(span: list[str], fields: int, line: int, delimiter: str) -> None:
    """Raise ``_OpenQuote`` if the lines of one record are likely to be several rows."""
    try:
        list(csv.reader(span, delimiter=delimiter, strict=True))
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise _OpenQuote(line, "is not closed") from None
        if len(span) > 1:
            raise _OpenQuote(line, f"is closed in the middle of a field, {len(span) - 1} lines later") from None
    if len(span) > 1 and len(next(csv.reader(span[:1], delimiter=delimiter, quoting=csv.QUOTE_NONE), [])) >= fields:
        for text in span[1:]:
            if len(next(csv.reader([text], delimiter=delimiter), [])) == fields:
                raise _OpenQuote(
                    line, f"is closed only {len(span) - 1} lines later, and the lines in between are rows by themselves"
                )


def _text(path: Path) -> str:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if len(names) != 1:
                raise ValueError(f"{path} holds {len(names)} files, expected one table.")
            with archive.open(names[0]) as file:
                return _decode(path, file.read(LARGEST + 1))
    if path.suffix in OPEN:
        with OPEN[path.suffix](path, "rb") as file:
            return _decode(path, file.read(LARGEST + 1))
    return path.read_bytes().decode("utf-8-sig")


def _decode(path: Path, content: bytes) -> str:
    if len(content) > LARGEST:
        raise ValueError(f"{path} holds more than {LARGEST / 1e9:.1f} GB; unpack it first.")
    return content.decode("utf-8-sig")
