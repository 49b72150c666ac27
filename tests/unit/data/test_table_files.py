"""Tables in chunks of rows, and SMILES that are read in blocks: what a chunk holds, and which rows are the same for a model."""

import gzip
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reign.data.molecules import Chunk, Descriptors, Graphs, Molecule, Reader, Rows, TableFile, read_table
from reign.data.molecules._csv_reader import CsvTable
from reign.data.molecules._reading import AHEAD, key_of, read_block

TEXT = 'smiles,note\nC,a\nCC,"b\nb"\n\nCCC,c,d\nCCCC,\n'


def rows_of(texts: list[str], **descriptors: list[str]) -> Rows:
    return Rows(texts, {}, [], Descriptors(**descriptors))


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


def test_a_molecule_has_one_key_however_it_is_written() -> None:
    found = read_block(rows_of(["OCC", "CCO", "C(O)C", "CCN", "F/C=C/F", "F/C=C\\F", "C(=C/F)\\F", "[O-]CC"]))
    first, *others = found.keys
    assert [key == first for key in others] == [True, True, False, False, False, False, False]
    assert found.keys[6] == found.keys[4]  # trans, written from the middle
    assert found.keys[5] != found.keys[4]
    assert len(found.found) == len(set(found.keys)) == 5
    assert found.errors == {}


def test_chirality_as_a_model_sees_it_is_part_of_the_key() -> None:
    """The feature depends on the order of the neighbours: the same molecule, written in another way, can be another graph for a model."""
    texts = ["N[C@@H](C)C(=O)O", "C[C@H](N)C(=O)O", "N[C@H](C)C(=O)O"]
    found = read_block(rows_of(texts))
    tags = [Molecule.read(text).graph().x[:, 1].sort().values.tolist() for text in texts]
    for i in range(3):
        for j in range(3):
            assert (found.keys[i] == found.keys[j]) == (tags[i] == tags[j])
    assert len(set(found.keys)) == 2


def test_keys_tell_graphs_apart() -> None:
    """A path and a star of the same atoms, and graphs that differ in one feature."""
    x, edges = np.zeros((4, 2), np.uint8), np.array([[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]])
    star, kinds = np.array([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]]), np.zeros((6, 1), np.uint8)
    key = key_of(x, edges, kinds, None)
    assert key != key_of(x, star, kinds, None)
    other, marked = x.copy(), kinds.copy()
    other[1, 1], marked[[0, 3]] = 1, 1
    assert key != key_of(other, edges, kinds, None)
    assert key != key_of(x, edges, marked, None)
    assert key == key_of(x[::-1], 3 - edges, kinds, np.array([3, 2, 1, 0]))


def test_rows_that_cannot_be_read_and_descriptors() -> None:
    rows = Rows(["CC", "xyz", "", "CC", "CC"], {3: "odd"}, [[1.0], [1.0], [1.0], [1.0], [2.0]], Descriptors(["pH"]))
    found = read_block(rows)
    assert [bool(key) for key in found.keys] == [True, False, False, False, True]
    assert found.keys[0] != found.keys[4]  # the same molecule with another descriptor
    assert list(found.errors) == [3, 1, 2]
    assert found.errors[3] == "odd"
    x, _, _ = found.found[found.keys[4]][1]
    assert x[:, -1].tolist() == [2.0, 2.0]


def test_rows_are_read_by_other_processes_but_not_far_ahead() -> None:
    taken = []

    def groups() -> Iterator[tuple[int, list[Rows]]]:
        for number in range(8):
            taken.append(number)
            yield number, [rows_of(["C" * (number + 1), "x"]), rows_of(["CO"])]

    def comparable(each: tuple[int, list[Graphs]]) -> object:
        return each[0], [(block.keys, block.errors) for block in each[1]]

    here = [comparable(each) for each in Reader[int](0).read(groups())]
    taken.clear()
    found = Reader[int](1).read(groups())
    first = comparable(next(found))
    assert taken == list(range(AHEAD + 1))
    assert [first, *(comparable(next(found)) for _ in range(3))] == here[:4]
    for process in multiprocessing.active_children():
        os.kill(process.pid or 0, signal.SIGKILL)
    with pytest.raises(OSError, match="a process that reads SMILES was killed"):
        list(found)


def test_a_chunk_as_text() -> None:
    chunk = Chunk(0, 3, {"a": [None, 1.5, "x"]})
    assert chunk.texts("a") == ["", "1.5", "x"]
    assert pd.DataFrame(chunk.columns).shape == (3, 1)
