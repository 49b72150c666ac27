"""Read a table literally: every line is a row, and a row with too many fields does not affect the others. Lines are read one by one."""

import bz2
import csv
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from reign._validate import did_you_mean
from reign.disk import first_line

OPEN: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
BROKEN = (
    OSError,
    EOFError,
    csv.Error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    RuntimeError,  # an encrypted archive
    NotImplementedError,  # an archive with a compression that Python does not support
)
LARGEST = (
    2**31
)  # largest size of a decompressed table that is kept in memory, because a small file can decompress to more than the memory
LONGEST = 2**27  # largest number of characters of a line or a field


def endings(path: Path) -> list[str]:
    """The endings of the name of a file, in lower case.

    >>> endings(Path("molecules.TSV.gz"))
    ['.tsv', '.gz']
    """
    return [ending.lower() for ending in path.suffixes]


class CsvTable:
    """A CSV or .tsv file, which may be compressed. The header is read and checked at once, and rows when they are asked for.

    Args:
        path: the file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise ValueError(f"the file {self.path} does not exist.")
        self.delimiter = "\t" if ".tsv" in endings(self.path) else ","
        header = next(self._records(), None)
        if not header or not any(header):
            raise ValueError(f"{self.path} cannot be read as a table (it has no header).")
        if twice := [name for name in header if header.count(name) > 1]:
            raise ValueError(f"{self.path} has {header.count(twice[0])} columns named '{twice[0]}'; rename them.")
        self.columns: list[str] = header

    def rows(self) -> Iterator[tuple[list[str], str | None]]:
        """The cells of each row, one for each column, and what is wrong with a row of too many fields."""
        width = len(self.columns)
        records = self._records()
        next(records)
        for row in records:
            extra, wrong = row[width:], None
            if any(cell.strip() for cell in extra):
                wrong = f"the row has {len(row)} fields, expected {width}"
            yield row[:width] + [""] * (width - len(row)), wrong

    def count(self) -> int:
        """The number of rows. All of them are read, so that a mistake in the file is found before the work starts."""
        return sum(1 for _ in self._records()) - 1

    @property
    def compressed(self) -> bool:
        """Whether the file is compressed."""
        return self.path.suffix.lower() in (".zip", *OPEN)

    def _records(self) -> Iterator[list[str]]:
        try:
            with _opened(self.path) as file:
                yield from _records(iter(partial(_line, file), ""), self.delimiter)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self.path} cannot be read as a table (byte {error.object[error.start]:#04x} is not UTF-8 text); save it as CSV in UTF-8."
            ) from None
        except BROKEN as error:
            raise ValueError(f"{self.path} cannot be read as a table ({first_line(error)}).") from None
        except _OpenQuote as error:
            raise ValueError(
                f"{self.path} cannot be read as a table: the quote that opens in line {error.line} {error}, so rows would be lost. Close the quote "
                "where its field ends, or double it if it is part of the text; if the field is meant to span lines, put it on one line."
            ) from None


def need_columns(known: Iterable[str], columns: Sequence[str], path: str | Path) -> None:
    """Raise ``ValueError`` for a column that does not exist, with a similar name that does."""
    known = list(map(str, known))
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


def _records(lines: Iterator[str], delimiter: str) -> Iterator[list[str]]:
    """The rows of a table, starting with the header. Raise ``_OpenQuote`` for a quote that swallows rows.

    A quoted field may span several lines. If the first and another one of these lines are rows by themselves, or if the quote is not closed
    or is closed in the middle of a field, the quote is assumed to be unclosed by mistake.
    """
    span: list[str] = []  # the lines of the record that is being read

    def noted() -> Iterator[str]:
        for line in lines:
            span.append(line)
            yield line

    if csv.field_size_limit() < LONGEST:
        csv.field_size_limit(LONGEST)  # one long field must not make the others unreadable
    reader = csv.reader(noted(), delimiter=delimiter)
    fields, last, end = 0, span, 0
    try:
        for record in reader:
            fields = fields or len(record)
            if len(span) > 1:
                _check_quotes(span, fields, end + 1, delimiter)
            yield record
            last, end = [*span], reader.line_num
            span.clear()
    except csv.Error:
        if len(span) > 1:
            raise _OpenQuote(end + 1, f"is not closed in {LONGEST:,} characters") from None
        raise
    if last:
        _check_quotes(last, fields, end - len(last) + 1, delimiter)


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


@contextmanager
def _opened(path: Path) -> Iterator[io.TextIOWrapper]:
    """The text of a file, decompressed, with its line ends as they are."""
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if len(names) != 1:
                raise ValueError(f"{path} holds {len(names)} files, expected one table.")
            with archive.open(names[0]) as file, _text(file) as text:
                yield text
    else:
        with OPEN.get(path.suffix.lower(), open)(path, "rb") as file, _text(file) as text:
            yield text


def _text(file: Any) -> io.TextIOWrapper:
    return io.TextIOWrapper(file, "utf-8-sig", newline="")


def _line(file: io.TextIOWrapper) -> str:
    line = file.readline(LONGEST + 1)
    if len(line) > LONGEST:
        raise csv.Error(f"a line has more than {LONGEST:,} characters")
    return line
