"""Files of tables in chunks of rows: CSV, which may be compressed, and Parquet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from reign.data.molecules._csv_reader import LARGEST, CsvTable, need_columns, need_different
from reign.disk import first_line

PARQUET = (".parquet", ".pq")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive rows of a table.

    Args:
        start: index of the first row.
        size: number of rows.
        columns: the cells by column; text, or the values of a Parquet file.
        odd: rows of the chunk, counted from 0, that must not be read, with the reasons.
        arrow: the rows as an Arrow table, if the file is a Parquet file.
    """

    start: int
    size: int
    columns: dict[str, list[Any]]
    odd: dict[int, str] = field(default_factory=dict)
    arrow: Any = None

    def texts(self, column: str) -> list[str]:
        """The cells of a column as text; a missing value is empty."""
        return ["" if cell is None else str(cell) for cell in self.columns[column]]


class TableFile:
    """A table on disk, of which only some rows are in memory at a time.

    Args:
        path: a CSV or .tsv file, which may be compressed, or a Parquet file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.source = ParquetTable(self.path) if is_parquet(self.path) else CsvTable(self.path)
        self.columns = self.source.columns

    def count(self) -> int:
        """The number of rows. A CSV is read once for this, so that mistakes in it are found before the work starts."""
        return self.source.count()

    def schema(self) -> Any:
        """The Arrow schema of a Parquet file; None for text."""
        return self.source.schema if isinstance(self.source, ParquetTable) else None

    @property
    def note(self) -> str:
        """How a CSV was read, if not as usual; see ``CsvTable.note``."""
        return self.source.note if isinstance(self.source, CsvTable) else ""

    def need_text(self, columns: Sequence[str]) -> None:
        """Raise ``ValueError`` for a column that does not exist, or that is not a column of text."""
        need_columns(self.columns, columns, self.path)
        if isinstance(self.source, ParquetTable):
            self.source.need_text(columns)

    def chunks(self, size: int, skip: int = 0) -> Iterator[Chunk]:
        """All rows in order, ``size`` at a time, without the first ``skip`` rows."""
        if isinstance(self.source, ParquetTable):
            yield from self.source.chunks(size, skip)
            return
        rows: list[list[str]] = []
        odd: dict[int, str] = {}
        start = skip
        for place, (row, wrong) in enumerate(self.source.rows()):
            if place < skip:
                continue
            if wrong is not None:
                odd[len(rows)] = wrong
            rows.append(row)
            if len(rows) == size:
                yield self._chunk(start, rows, odd)
                start, rows, odd = start + size, [], {}
        if rows:
            yield self._chunk(start, rows, odd)

    def _chunk(self, start: int, rows: list[list[str]], odd: dict[int, str]) -> Chunk:
        columns = dict(zip(self.columns, map(list, zip(*rows, strict=True)), strict=True))
        return Chunk(start, len(rows), columns, odd)


class ParquetTable:
    """A Parquet file, read in batches of rows.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise ValueError(f"the file {path} does not exist.")
        self.path, self._parquet = path, import_parquet()
        with self._opened() as file:
            self.schema = file.schema_arrow
        self.columns: list[str] = list(self.schema.names)
        if not self.columns:
            raise ValueError(f"{path} cannot be read as a table (it has no columns).")
        need_different(self.columns, path)

    def count(self) -> int:
        """The number of rows."""
        with self._opened() as file:
            return int(file.metadata.num_rows)

    def chunks(self, size: int, skip: int = 0) -> Iterator[Chunk]:
        """All rows in order, at most ``size`` at a time, without the first ``skip`` rows."""
        import pyarrow as pa

        start = 0
        with self._opened() as file:
            batches = file.iter_batches(batch_size=size)
            while True:
                try:
                    batch = next(batches, None)
                except (pa.ArrowException, OSError) as error:
                    raise ValueError(f"{self.path} cannot be read as a table ({first_line(error)}).") from None
                if batch is None:
                    return
                start += batch.num_rows
                if start > skip and batch.num_rows:
                    kept = batch.slice(max(0, batch.num_rows - (start - skip)))
                    found = pa.Table.from_batches([kept])
                    yield Chunk(start - kept.num_rows, kept.num_rows, found.to_pydict(), arrow=found)

    def need_text(self, columns: Sequence[str]) -> None:
        """Raise ``ValueError`` for a column that is not text. A column without any value is accepted."""
        from pyarrow import types

        for column in columns:
            kind = self.schema.field(column).type
            plain = kind.value_type if types.is_dictionary(kind) else kind
            if not (types.is_string(plain) or types.is_large_string(plain) or types.is_string_view(plain) or types.is_null(plain)):
                raise ValueError(f"column '{column}' of {self.path} holds values of type {kind}, expected text.")

    def _opened(self) -> Any:
        import pyarrow as pa

        try:
            return self._parquet.ParquetFile(self.path)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{self.path} cannot be read as a Parquet file ({first_line(error)}).") from None


def is_parquet(path: str | Path) -> bool:
    """Whether a name is that of a Parquet file."""
    return Path(path).suffix.lower() in PARQUET


def import_parquet() -> Any:
    """The module ``pyarrow.parquet``, or an error that says what to install."""
    try:
        import pyarrow.parquet as found
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError("Parquet files need pyarrow: pip install 'reign[parquet]'.", name=missing.name) from None
    return found


def read_table(path: str | Path) -> tuple[pd.DataFrame, dict[int, str]]:
    """Read a whole table as text. The second result explains what is wrong with rows of too many fields.

    ``attrs["note"]`` of the table says how it was read, if not as usual.
    """
    file = TableFile(path)
    rows: dict[str, list[str]] = {column: [] for column in file.columns}
    odd: dict[int, str] = {}
    size = 0
    for chunk in file.chunks(10_000):
        for column, cells in rows.items():
            cells += chunk.texts(column)
            size += sum(map(len, cells[-chunk.size :]))
        odd |= {chunk.start + row: reason for row, reason in chunk.odd.items()}
        if size > LARGEST and not (isinstance(file.source, CsvTable) and not file.source.compressed):
            raise ValueError(f"{path} holds more than {LARGEST / 1e9:.1f} GB; unpack it first.")
    table = pd.DataFrame(rows, columns=file.columns, dtype=str)
    table.attrs["note"] = file.note
    return table, odd
