"""Read a table literally: every line is a row, and a row with too many fields does not affect the others. Lines are read one by one.

Tables as Excel saves them are read, too: columns separated by semicolons or tabs, numbers with decimal commas, and text in UTF-16 or Windows-1252.
Where such a table can be read in two ways, it is refused.
"""

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

from reign._validate import did_you_mean
from reign.disk import first_line

UTF8 = "utf-8-sig"
ENCODINGS = {UTF8: "UTF-8", "utf-16": "UTF-16", "cp1252": "Windows-1252"}
MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}  # the first bytes of a file
WESTERN = frozenset(b"\x80\x91\x92\x93\x94\x95\x96\x97\x99") | frozenset(
    range(0xA0, 0x100)
)  # signs of Windows-1252 in Western text
OTHERS = {";": "semicolons", "\t": "tabs"}  # what may separate columns besides commas

_EXPONENT = r"([eE][+-]?[0-9]+)?"
WHOLE = re.compile(r"[+-]?[0-9]+" + _EXPONENT)
DECIMAL_COMMA = re.compile(r"[+-]?([0-9]+,[0-9]*|,[0-9]+)" + _EXPONENT)
DECIMAL_POINT = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+)" + _EXPONENT)
THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")  # 1,234 is a decimal number or more than a thousand
GROUPED = re.compile(r"[+-]?[0-9]+[.,][0-9]+([.,][0-9]+)+")  # 1.234,5 and 1,234.5 and 1,234,567

OPEN: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
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

    If the header has no comma, the columns may be separated by semicolons or tabs. Then, and in a .tsv file, numbers may have decimal commas; they are
    given with points.

    Args:
        path: the file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise ValueError(f"the file {self.path} does not exist.")
        self.encoding = self._marked()
        self.delimiter = "\t" if ".tsv" in endings(self.path) else ","
        header = next(self._records(), None)
        if header and len(header) == 1 and self.delimiter == ",":
            header = self._separated_otherwise() or header
        if not header or not any(header):
            raise ValueError(f"{self.path} cannot be read as a table (it has no header).")
        need_different(header, self.path)
        if any("\0" in name for name in header):
            raise ValueError(
                f"{self.path} cannot be read as a table (its header has the character NUL; it may be UTF-16 without its first mark); save it as CSV in UTF-8."
            )
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
            for column in self.commas:
                if column < len(row) and DECIMAL_COMMA.fullmatch(row[column].strip()):
                    row[column] = row[column].replace(",", ".")
            yield row[:width] + [""] * (width - len(row)), wrong

    def count(self) -> int:
        """The number of rows. All of them are read, so that a mistake in the file is found before the work starts."""
        self.commas  # noqa: B018  # raises an error for numbers that can be read in two ways
        return sum(1 for _ in self._records()) - 1

    @property
    def note(self) -> str:
        """How the file was read, if not as usual; empty otherwise. It is complete when all rows have been read."""
        parts = []
        if self.delimiter != "," and ".tsv" not in endings(self.path):
            parts.append(f"columns separated by {OTHERS[self.delimiter]}")
        if self.commas:
            parts.append(f"decimal commas in {', '.join(repr(self.columns[column]) for column in self.commas)}")
        if self.encoding != UTF8:
            parts.append(f"text in {ENCODINGS[self.encoding]}")
        return f"{self.path.name} was read with {', '.join(parts)}" if parts else ""

    @cached_property
    def commas(self) -> list[int]:
        """The columns whose numbers have decimal commas. If they could also be thousands, ``ValueError`` is raised."""
        if self.delimiter == "," or not any(
            DECIMAL_COMMA.fullmatch(cell.strip()) for row in self._records() for cell in row if "," in cell
        ):
            return []
        kinds = {"whole": WHOLE, "either": THOUSANDS, "comma": DECIMAL_COMMA, "point": DECIMAL_POINT, "grouped": GROUPED}
        found: list[dict[str, str]] = [{} for _ in self.columns]  # an example of each kind of number
        numbers = [0] * len(self.columns)  # numbers in a column, less other texts in it
        for row in islice(self._records(), 1, None):
            for column, cell in enumerate(map(str.strip, row[: len(numbers)])):
                kind = next((kind for kind, pattern in kinds.items() if pattern.fullmatch(cell)), None)
                if kind is not None:
                    found[column].setdefault(kind, cell)
                numbers[column] += 0 if not cell else -1 if kind is None else 1
        here = {column: found[column] for column, balance in enumerate(numbers) if balance > 0}
        commas = [column for column, kinds in here.items() if "comma" in kinds or "either" in kinds]
        if commas:
            first = here[commas[0]]
            shown = f"'{self.columns[commas[0]]}' has numbers such as {first.get('comma') or first['either']}"
            other = next((column for column, kinds in here.items() if "point" in kinds or "grouped" in kinds), None)
            if other is not None:
                shown += f", and '{self.columns[other]}' such as {here[other].get('point') or here[other]['grouped']}"
            if other is not None or all("comma" not in kinds for kinds in here.values()):
                raise ValueError(
                    f"{self.path} cannot be read as a table: {shown}, so it is not clear whether a comma is the decimal sign; write all numbers with "
                    "points, and without separators of thousands."
                )
        return commas

    @property
    def compressed(self) -> bool:
        """Whether the file is compressed."""
        return self.path.suffix.lower() in (".zip", *OPEN)

    def _marked(self) -> str:
        """The encoding by the first bytes of the file."""
        with self._readable(), _opened(self.path) as file:
            head = file.read(4)
        if head == codecs.BOM_UTF32_LE:
            raise ValueError(f"{self.path} cannot be read as a table (it is UTF-32 text); save it as CSV in UTF-8.")
        return MARKS.get(head[:2], UTF8)

    def _separated_otherwise(self) -> list[str] | None:
        """The header with semicolons or tabs between columns, which are used from then on; None if it is one column with these, too."""
        found = {}
        for self.delimiter in OTHERS:
            header = next(self._records(), [])
            if len(header) > 1:
                found[self.delimiter] = header
        if len(found) > 1:
            raise ValueError(
                f"{self.path} has semicolons and tabs in its header, expected only one of them between columns, or commas."
            )
        self.delimiter = next(iter(found), ",")
        return found.get(self.delimiter)

    def _records(self) -> Iterator[list[str]]:
        done = 0
        with self._readable():
            while True:
                encoding = self.encoding  # another pass over the file may change it meanwhile
                try:
                    with _opened(self.path) as file, io.TextIOWrapper(file, encoding, newline="") as text:
                        for record in islice(_records(iter(partial(_line, text), ""), self.delimiter), done, None):
                            done += 1
                            yield record
                        return
                except UnicodeDecodeError as error:
                    byte = error.object[error.start]
                    if encoding != UTF8 or not self._is_western():
                        raise ValueError(
                            f"{self.path} cannot be read as a table (byte {byte:#04x} is not {ENCODINGS[encoding]} text); save it as CSV in UTF-8."
                        ) from None
                    self.encoding = "cp1252"  # the rows until here are the same, because they are ASCII

    def _is_western(self) -> bool:
        """Whether text that is not UTF-8 is clearly Windows-1252 (or Latin-1, which is a part of it): ASCII with a few Western letters and signs.

        Words of other alphabets have longer runs of such bytes, or bytes that are rare in Western text; a run that is UTF-8 could be either.
        """
        with _opened(self.path) as file:
            while line := file.readline(LONGEST):
                runs = re.findall(rb"[\x80-\xff]+", line)
                if b"\0" in line or any(len(run) > 2 or not WESTERN.issuperset(run) or _is_utf8(run) for run in runs):
                    return False
        return True

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Turn an error of a damaged file into a ``ValueError`` that names the file."""
        try:
            yield
        except BROKEN as error:
            raise ValueError(f"{self.path} cannot be read as a table ({first_line(error)}).") from None
        except _OpenQuote as error:
            raise ValueError(
                f"{self.path} cannot be read as a table: the quote that opens in line {error.line} {error}, so rows would be lost. Close the quote "
                "where its field ends, or double it if it is part of the text; if the field is meant to span lines, put it on one line."
            ) from None


def need_different(columns: Sequence[str], path: str | Path) -> None:
    """Raise ``ValueError`` if two columns of a table have the same name."""
    if twice := [name for name, times in Counter(columns).items() if times > 1]:
        raise ValueError(f"{path} has {columns.count(twice[0])} columns named '{twice[0]}'; rename them.")


def need_columns(known: Iterable[str], columns: Sequence[str], path: str | Path) -> None:
    """Raise ``ValueError`` for a column that does not exist, with a similar name that does."""
    known = list(map(str, known))
    names, times = set(known), Counter(columns)
    for column in columns:
        if column not in names:
            hint = " Name the column of SMILES with -s (smiles_columns)." if column == "smiles" else ""
            hint += " Columns must be separated by commas, or all by semicolons." if any(";" in name for name in known) else ""
            raise ValueError(f"{path} has no column '{column}'{did_you_mean(column, known)} It has {', '.join(known)}.{hint}")
        if times[column] > 1:
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
def _opened(path: Path) -> Iterator[Any]:
    """The bytes of a file, decompressed."""
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if len(names) != 1:
                raise ValueError(f"{path} holds {len(names)} files, expected one table.")
            with archive.open(names[0]) as file:
                yield file
    else:
        with OPEN.get(path.suffix.lower(), open)(path, "rb") as file:
            yield file


def _is_utf8(run: bytes) -> bool:
    try:
        run.decode()
    except UnicodeDecodeError:
        return False
    return True


def _line(file: io.TextIOWrapper) -> str:
    line = file.readline(LONGEST + 1)
    if len(line) > LONGEST:
        raise csv.Error(f"a line has more than {LONGEST:,} characters")
    return line
