"""Pairs of graphs from files, and families by name."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from reign.theory import FAMILIES, Pair, add_family, family, list_families, read_graph6, read_npy, small_graphs

CYCLES = [nx.to_graph6_bytes(nx.cycle_graph(n), header=False).strip() for n in (5, 6, 7)]


def test_graph6_lines(tmp_path: Path) -> None:
    file = tmp_path / "three.g6"
    file.write_bytes(b"\n".join(CYCLES) + b"\n\n")
    assert [p.name for p in read_graph6(file, all_pairs=True)] == ["three.g6 0 / 1", "three.g6 0 / 2", "three.g6 1 / 2"]
    with pytest.raises(ValueError, match="three.g6 holds 3 graphs, expected an even number"):
        read_graph6(file)
    file.write_bytes(b"Es\n")
    with pytest.raises(ValueError, match="line 1: b'Es' is not a graph in graph6 format"):
        read_graph6(file)


def test_pairs_of_lines(tmp_path: Path) -> None:
    file = tmp_path / "pairs.txt"
    file.write_bytes(b">>graph6<<" + CYCLES[0] + b" " + CYCLES[1] + b"\n" + CYCLES[1] + b"\t" + CYCLES[2] + b"\n")
    pairs = family(str(file))
    assert [(p.one.num_nodes, p.other.num_nodes) for p in pairs] == [(5, 6), (6, 7)]
    file.write_bytes(CYCLES[0] + b"\n" + CYCLES[1] + b" " + CYCLES[2] + b"\n")
    with pytest.raises(ValueError, match=r"has rows with \[1, 2\] graphs, expected one graph in each row, or two in each"):
        read_graph6(file)


@pytest.mark.parametrize("kind", [bytes, str])
def test_arrays(kind: type, tmp_path: Path) -> None:
    words = [word if kind is bytes else word.decode() for word in CYCLES]
    np.save(tmp_path / "table.npy", np.array([[words[0], words[1]], [words[1], words[2]]]))
    assert [(p.one.num_nodes, p.other.num_nodes) for p in family(str(tmp_path / "table.npy"))] == [(5, 6), (6, 7)]
    np.save(tmp_path / "flat.npy", np.array(words))
    assert len(read_npy(tmp_path / "flat.npy", all_pairs=True)) == 3


def test_arrays_that_hold_code_or_numbers_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([CYCLES[0], None], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="expected an array of texts"):
        read_npy(tmp_path / "objects.npy")
    np.save(tmp_path / "numbers.npy", np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"has dtype float64 and shape \(2, 2\)"):
        read_npy(tmp_path / "numbers.npy")
    np.save(tmp_path / "bad.npy", np.array([b"Es", b"Es"]))
    with pytest.raises(ValueError, match="row 0: b'Es' is not a graph"):
        read_npy(tmp_path / "bad.npy")


def test_names() -> None:
    with pytest.raises(ValueError, match="the file nowhere.g6 does not exist; expected a file of pairs, or a family"):
        family("nowhere.g6")
    with pytest.raises(ValueError, match="unknown family 'rok'; did you mean 'rook'"):
        family("rok")
    assert {"exp", "cexp", "sr"} == set(list_families()) - set(list_families(generated=True))


def test_a_family_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("_entries", "_aliases"):  # what is registered here is forgotten afterwards
        monkeypatch.setattr(FAMILIES, part, dict(getattr(FAMILIES, part)))

    @add_family("rings", "rings of 5 and 6 nodes")
    def _rings() -> list[Pair]:
        return [Pair("rings", *family("triangles")[0][1:])]

    assert family("rings")[0].name == "rings"
    assert FAMILIES["rings"].meaning == "rings of 5 and 6 nodes"


def test_small_graphs_are_all() -> None:
    """The numbers of graphs of 1 to 7 nodes, sequence A000088."""
    sizes = [graph.num_nodes for graph in small_graphs()]
    assert [sizes.count(n) for n in range(1, 8)] == [1, 2, 4, 11, 34, 156, 1044]


def test_cfi_pairs() -> None:
    pairs = family("cfi")
    assert len(pairs) == 32
    assert (min(p.one.num_nodes for p in pairs), max(p.one.num_nodes for p in pairs)) == (6, 100)
    for pair in pairs:
        assert pair.one.num_nodes == pair.other.num_nodes
        assert pair.one.num_edges == pair.other.num_edges
