"""The formats of a table of predictions: CSV, which may be compressed, and Parquet."""

import bz2
import gzip
import io
import lzma
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reign.disk import csv_text, replaced
from reign.train.chunk_results import Computed

if TYPE_CHECKING:
    from reign.data.molecules import TableFile

PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": partial(gzip.compress, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
ENDINGS = (".csv", ".tsv", ".csv.gz", ".csv.bz2", ".csv.xz", ".tsv.gz", ".tsv.bz2", ".tsv.xz", ".parquet", ".pq")


class TableOutput:
    """A table to write. The format follows from the name: .parquet, .tsv, or CSV, with .gz, .bz2 or .xz compressed.

    Args:
        target: the file to write.
        table: the table whose columns are kept.
        new: the new columns with their types; ``error`` is added as the last one.
    """

    def __init__(self, target: Path, table: "TableFile", new: dict[str, type]) -> None:
        from reign.data.molecules import endings, import_parquet, is_parquet

        self.target, self.table, self.new = target, table, {**new, "error": str}
        if target.exists() and target.samefile(table.path):
            raise ValueError(f"{target} is the input and the output; choose another file for the output.")
        if target.suffix.lower() == ".zip":
            raise ValueError(f"{target} would be a zip archive, which cannot be written in steps; use .csv.gz.")
        if target.suffix and not target.name.lower().endswith(ENDINGS):
            raise ValueError(f"{target} ends in {target.suffix}, expected one of {', '.join(ENDINGS)}.")
        self.parquet = import_parquet() if is_parquet(target) else None
        self.delimiter = "\t" if ".tsv" in endings(target) else ","
        self.pack: Callable[[bytes], bytes] = PACK.get(target.suffix.lower(), lambda content: content)

    def part(self, each: Computed) -> bytes:
        """The rows of a chunk in the format of the output."""
        if self.parquet is not None:
            buffer = io.BytesIO()
            self.parquet.write_table(self._arrow(each), buffer)
            return buffer.getvalue()
        columns = [*(each.chunk.columns[name] for name in self.table.columns), *(each.columns[name] for name in self.new)]
        return self.pack(csv_text(zip(*columns, strict=True), self.delimiter).encode())

    def write(self, parts: Iterable[bytes]) -> None:
        """Write the whole table from its parts, in one step."""
        with replaced(self.target) as beside:
            if self.parquet is not None:
                with self.parquet.ParquetWriter(beside, self._schema()) as writer:
                    for part in parts:
                        writer.write_table(self.parquet.read_table(io.BytesIO(part)))
                return
            with beside.open("wb") as out:
                out.write(self.pack(csv_text([[*self.table.columns, *self.new]], self.delimiter).encode()))
                for part in parts:
                    out.write(part)

    def _schema(self) -> Any:
        import pyarrow as pa

        kept = self.table.schema() or [pa.field(name, pa.string()) for name in self.table.columns]
        kinds = {float: pa.float64(), str: pa.string()}
        return pa.schema([*kept, *(pa.field(name, kinds[kind]) for name, kind in self.new.items())])

    def _arrow(self, each: Computed) -> Any:
        import pyarrow as pa

        schema = self._schema()
        kept = each.chunk.arrow.columns if each.chunk.arrow is not None else each.chunk.columns.values()
        return pa.Table.from_arrays(
            [
                column if isinstance(column, pa.ChunkedArray) else pa.array(column, field.type)
                for column, field in zip([*kept, *(each.columns[name] for name in self.new)], schema, strict=True)
            ],
            schema=schema,
        )
