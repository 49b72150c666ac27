"""SMILES that are read in blocks: which rows are the same graph for a model, and the processes that read them."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from reign.smiles import Graphs, Molecule, Reader, Rows
from reign.smiles import _processes as processes
from reign.smiles._processes import AHEAD, Process, receive_graphs, receive_rows, send_graphs, send_rows
from reign.smiles._reading import BlockReader, key_of


def read(*texts: str) -> Graphs:
    return BlockReader().read(Rows(texts))


def test_a_molecule_has_one_key_however_it_is_written() -> None:
    found = read("OCC", "CCO", "C(O)C", "CCN", "F/C=C/F", "F/C=C\\F", "C(=C/F)\\F", "[O-]CC")
    first, *others = found.keys
    assert [key == first for key in others] == [True, True, False, False, False, False, False]
    assert found.keys[6] == found.keys[4]  # trans, written from the middle
    assert found.keys[5] != found.keys[4]
    assert list(found.found) == [0, 3, 4, 5, 7]  # the first row of each graph
    assert found.errors == {}


def test_chirality_as_a_model_sees_it_is_part_of_the_key() -> None:
    """OGB's feature depends on the order of the neighbours: the same molecule, written in another way, can be another graph for a model."""
    texts = ["N[C@@H](C)C(=O)O", "C[C@H](N)C(=O)O", "N[C@H](C)C(=O)O", "OC(=O)[C@H](C)N"]
    found = BlockReader().read(Rows(texts, stereo="ogb"))
    molecules = [Molecule.read(text, stereo="ogb") for text in texts]
    tags = [sorted(molecule.arrays()[0][:, 1].tolist()) for molecule in molecules]
    for i, one in enumerate(molecules):
        for j, other in enumerate(molecules):
            same = one.canonical() == other.canonical() and tags[i] == tags[j]
            assert (found.keys[i] == found.keys[j]) == same
    assert len(set(found.keys)) == 3
    assert len(set(read(*texts).keys)) == 2  # L- and D-alanine


def test_graphs_with_the_same_key_have_the_same_features() -> None:
    """For random writings of molecules with several chiral centres, salts, charges and stereo bonds."""
    from rdkit import Chem

    rng = np.random.default_rng(0)
    texts = []
    for text in (
        r"C[C@H](O)[C@@H](N)C/C=C/C(=O)[O-].[Na+]",
        r"C[C@@H](O)[C@@H](N)C/C=C\C(=O)[O-].[Na+]",
        "C1C[C@H]2CC[C@@H]1[C@H]2O",
    ):
        mol = Chem.MolFromSmiles(text)
        for _ in range(25):
            order = rng.permutation(mol.GetNumAtoms()).tolist()
            texts.append(Chem.MolToSmiles(Chem.RenumberAtoms(mol, order), canonical=False))
    for stereo, least, most in (("ogb", 4, 24), ("parity", 3, 3), ("none", 2, 2)):
        keys = BlockReader().read(Rows(texts, stereo=stereo)).keys  # type: ignore[arg-type]
        numbers = [[1.0]] * len(texts)  # with descriptors, all features are hashed
        plain = BlockReader().read(Rows(texts, numbers=numbers, stereo=stereo)).keys  # type: ignore[arg-type]
        assert len(set(zip(keys, plain, strict=True))) == len(set(keys))
        assert least <= len(set(keys)) <= most


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


def test_a_molecule_that_was_read_before_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = BlockReader()
    first, again = reader.read(Rows(["CCO", "CC"])), reader.read(Rows(["OCC", "CCO", "CN"]))
    assert again.keys[0] == again.keys[1] == first.keys[0]
    assert list(again.found) == [2]
    monkeypatch.setattr("reign.smiles._reading.SEEN", 2)
    reader.read(Rows(["CS"]))
    assert list(reader.read(Rows(["CS", "CCO"])).found) == [1]  # the oldest are forgotten


def test_rows_that_cannot_be_read_and_descriptors() -> None:
    rows = Rows(["CC", "xyz", "", "CC", "CC"], {3: "odd"}, [[1.0], [1.0], [1.0], [1.0], [2.0]])
    found = BlockReader().read(rows)
    assert [bool(key) for key in found.keys] == [True, False, False, False, True]
    assert found.keys[0] != found.keys[4]  # the same molecule with another descriptor
    assert list(found.errors) == [3, 1, 2]
    assert found.errors[3] == "odd"
    assert found.found[4][0][:, -1].tolist() == [2.0, 2.0]
    counted = BlockReader().read(Rows(["CC"], featurizers=["morgan_count"]))
    assert counted.found[0][0].shape == (2, 9 + 2_048)


@pytest.mark.parametrize(
    "rows",
    [Rows(["CC", "xyz", "C[C@H](N)O"], {0: "odd é"}), Rows(["x"], stereo="none"), Rows(["CC", "CC"], {}, [[1.5], [float("nan")]])],
)
def test_messages(rows: Rows, tmp_path: Path) -> None:
    """Rows and graphs arrive as they were sent, and a message that is cut off is none."""
    file = tmp_path / "message"
    with file.open("wb") as pipe:
        send_rows(pipe, rows)
    with file.open("rb") as pipe:
        arrived = receive_rows(pipe)
        assert arrived is not None
        assert (arrived.texts, arrived.wrong, str(arrived.numbers)) == (rows.texts, rows.wrong, str(list(rows.numbers)))
        assert arrived.stereo == rows.stereo
        assert receive_rows(pipe) is None
    graphs = BlockReader().read(rows)
    with file.open("wb") as pipe:
        send_graphs(pipe, graphs)
    with file.open("rb") as pipe:
        same = receive_graphs(pipe)
    assert same is not None
    assert (same.keys, same.errors, list(same.found)) == (graphs.keys, graphs.errors, list(graphs.found))
    for row, arrays in graphs.found.items():
        for one, other in zip(arrays, same.found[row], strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    whole = file.read_bytes()
    for size in (3, 20, len(whole) - 1):
        file.write_bytes(whole[:size])
        with file.open("rb") as pipe:
            assert receive_graphs(pipe) is None


def test_rows_are_read_by_other_processes_but_not_far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, started = [], []

    class Watched(Process):
        def __init__(self) -> None:
            super().__init__()
            started.append(self.process)

    monkeypatch.setattr(processes, "Process", Watched)

    def groups() -> Iterator[tuple[int, list[Rows]]]:
        for number in range(8):
            taken.append(number)
            yield number, [Rows(["C" * (number + 1), "x"]), Rows(["CO"])]

    def comparable(each: tuple[int, list[Graphs]]) -> object:
        return each[0], [(block.keys, block.errors) for block in each[1]]

    here = [comparable(each) for each in Reader[int](0).read(groups())]
    taken.clear()
    found = Reader[int](2).read(groups())
    first = comparable(next(found))
    assert taken == list(range(AHEAD + 1))
    assert [first, *(comparable(next(found)) for _ in range(3))] == here[:4]
    for process in started:
        process.kill()
    with pytest.raises(OSError, match="a process that reads SMILES was killed"):
        list(found)
    found = Reader[int](1).read(groups())
    next(found)
    found.close()  # as if the command were stopped
    assert [process.poll() is not None for process in started] == [True] * 3


@pytest.mark.skipif(sys.platform == "win32", reason="has no groups of processes")
def test_ctrl_c_leaves_a_process_alone() -> None:
    process = Process()
    try:
        assert os.getpgid(process.process.pid) == process.process.pid  # a terminal interrupts the group of the first process
    finally:
        process.end()


def test_a_process_ends_with_the_first_one() -> None:
    """Without the first process, its input ends; Ctrl-C is left to the first process."""
    process = Process()
    assert process.read(Rows(["CC"])).errors == {}
    if sys.platform != "win32":  # which has no such signal for one process
        process.process.send_signal(signal.SIGINT)
    assert process.read(Rows(["CC"])).found == {}
    assert process.process.stdin is not None
    process.process.stdin.close()
    assert process.process.wait(10) == 0
    process.process.stdin = None
    process.end()
