"""Tables in chunks of rows: what a chunk holds."""

import gzip
from pathlib import Path

import pandas as pd
import pytest

from reign.data.molecules import Chunk, TableFile, need_columns, read_table
from reign.data.molecules._csv_reader import CsvTable

TEXT = 'smiles,note\nC,a\nCC,"b\nb"\n\nCCC,c,d\nCCCC,\n'


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_chunks_are_the_table(tmp_path: Path, name: str, size: int) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(TEXT.encode()) if name.endswith("gz") else TEXT.encode())
    table = TableFile(file)
    assert (table.columns, table.count()) == (["smiles", "note"], 5)
    chunks = list(table.chunks(size))
    assert [chunk.start for chunk in chunks] == list(range(0, 5, size))
    assert [chunk.size for chunk in chunks] == [min(size, 5 - at) for at in range(0, 5, size)]
    assert [cell for chunk in chunks for cell in chunk.columns["smiles"]] == ["C", "CC", "", "CCC", "CCCC"]
    assert [cell for chunk in chunks for cell in chunk.columns["note"]] == ["a", "b\nb", "", "c", ""]
    odd = {chunk.start + row: reason for chunk in chunks for row, reason in chunk.odd.items()}
    assert odd == {3: "the row has 3 fields, expected 2"}
    whole, wrong = read_table(file)
    assert (whole["note"].tolist(), wrong) == (["a", "b\nb", "", "c", ""], odd)
    for skip in range(6):
        rest = list(table.chunks(size, skip))
        assert [cell for chunk in rest for cell in chunk.columns["smiles"]] == ["C", "CC", "", "CCC", "CCCC"][skip:]
        assert [chunk.start for chunk in rest] == list(range(skip, 5, size))


def test_many_columns(tmp_path: Path) -> None:
    """If each name was compared with all others, this would take an hour."""
    file, names = tmp_path / "t.csv", [f"c{i}" for i in range(300_000)]
    file.write_text(",".join(names) + "\n" + "C" + "," * (len(names) - 1) + "\n")
    table = TableFile(file)
    assert table.columns == names
    table.need_text(names)
    for chosen, message in (([*names, "c7"], "column 'c7' was given twice"), ([*names, "d"], "has no column 'd'")):
        with pytest.raises(ValueError, match=message):
            need_columns(names, chosen, file)
    file.write_text(",".join([*names, "c7", "c5", "c5"]))
    with pytest.raises(ValueError, match="has 3 columns named 'c5'; rename them"):
        TableFile(file)


def test_a_mistake_in_the_last_line_is_found_by_counting(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("smiles,note\n" + "C,a\n" * 50 + 'CC,"open\n')
    with pytest.raises(ValueError, match="the quote that opens in line 52 is not closed"):
        TableFile(file).count()


def test_a_long_line_is_refused_before_it_fills_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reign.data.molecules._csv_reader.LONGEST", 1_000)
    file = tmp_path / "t.csv"
    file.write_text("smiles\nC\n" + "C" * 1_001 + "\n")
    with pytest.raises(ValueError, match="a line has more than 1,000 characters"):
        CsvTable(file).count()


def test_parquet_is_read_in_chunks(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    made = pa.table({"smiles": ["C", None, "CCC", "CO", "CN"], "n": pa.array([1, 2, 3, 4, 5], pa.int16())})
    pq.write_table(made, tmp_path / "t.parquet", row_group_size=2)
    table = TableFile(tmp_path / "t.parquet")
    assert (table.columns, table.count()) == (["smiles", "n"], 5)
    for size in (1, 2, 3, 9):
        for skip in range(6):
            chunks = list(table.chunks(size, skip))
            assert [cell for chunk in chunks for cell in chunk.columns["n"]] == [1, 2, 3, 4, 5][skip:]
            assert all(chunk.size <= size for chunk in chunks)
            assert sum(chunk.size for chunk in chunks) == 5 - skip
    assert next(table.chunks(5)).texts("smiles") == ["C", "", "CCC", "CO", "CN"]
    assert next(table.chunks(5)).arrow.schema == made.schema
    assert read_table(tmp_path / "t.parquet")[0]["n"].tolist() == ["1", "2", "3", "4", "5"]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1" + bytes(50))
    with pytest.raises(ValueError, match="cannot be read as a Parquet file"):
        TableFile(tmp_path / "bad.parquet")


def test_a_chunk_as_text() -> None:
    chunk = Chunk(0, 3, {"a": [None, 1.5, "x"]})
    assert chunk.texts("a") == ["", "1.5", "x"]
    assert pd.DataFrame(chunk.columns).shape == (3, 1)
