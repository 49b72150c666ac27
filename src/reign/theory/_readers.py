"""Read pairs of graphs from files: text files of graph6 lines, and ``.npy`` arrays of graph6 texts."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import numpy as np
from torch_geometric.data import Data

from reign.data import from_networkx


class Pair(NamedTuple):
    """Two graphs to tell apart."""

    name: str
    one: Data
    other: Data


def read_pairs(file: str | Path, all_pairs: bool = False) -> list[Pair]:
    """Read pairs from a file: a ``.npy`` array, or graph6 lines. See ``read_npy`` and ``read_graph6``."""
    return read_npy(file, all_pairs) if Path(file).suffix == ".npy" else read_graph6(file, all_pairs)


def read_graph6(file: str | Path, all_pairs: bool = False) -> list[Pair]:
    """Read pairs of consecutive graphs, or all pairs, from a graph6 file.

    A line with two graphs is a pair. A line that is not a graph raises a ``ValueError`` with its number.
    """
    lines = [(f"line {number}", line.split()) for number, line in enumerate(Path(file).read_bytes().splitlines(), 1)]
    return _pairs(file, [(place, words) for place, words in lines if words], all_pairs)


def read_npy(file: str | Path, all_pairs: bool = False) -> list[Pair]:
    """Read pairs from an array of graph6 texts: an array of two columns has a pair in each row, a flat array has consecutive pairs.

    Arrays of Python objects are refused, because loading them can run code.
    """
    try:
        array = np.load(file, allow_pickle=False)
    except ValueError as error:
        raise ValueError(
            f"{file} cannot be read ({error}); expected an array of texts. If you trust the file and it is an array of Python "
            "objects, convert it with np.save(file, array.astype(bytes))."
        ) from None
    if array.dtype.kind not in "SU" or array.ndim > 2:
        raise ValueError(f"{file} has dtype {array.dtype} and shape {array.shape}, expected graph6 texts in one or two columns.")
    table = array.reshape(array.shape[0] if array.ndim else 1, -1)
    encoded = [[word.encode() if isinstance(word, str) else word for word in row] for row in table.tolist()]
    return _pairs(file, [(f"row {number}", row) for number, row in enumerate(encoded)], all_pairs)


def pairs_of(graphs: Sequence[Data], all_pairs: bool, name: str) -> list[Pair]:
    """Make pairs of consecutive graphs, or all pairs."""
    if len(graphs) < 2:
        raise ValueError(f"{name} holds {len(graphs)} graphs, expected two or more.")
    if not all_pairs and len(graphs) % 2:
        raise ValueError(f"{name} holds {len(graphs)} graphs, expected an even number for consecutive pairs; use --all-pairs.")
    chosen = combinations(range(len(graphs)), 2) if all_pairs else [(g, g + 1) for g in range(0, len(graphs), 2)]
    return [Pair(f"{name} {a} / {b}", graphs[a], graphs[b]) for a, b in chosen]


def _pairs(file: str | Path, rows: Iterable[tuple[str, list[bytes]]], all_pairs: bool) -> list[Pair]:
    graphs, widths = [], set()
    for place, words in rows:
        graphs += [_graph(file, place, word) for word in words]
        widths.add(len(words))
    if widths - {1, 2} or len(widths) > 1:
        raise ValueError(f"{file} has rows with {sorted(widths)} graphs, expected one graph in each row, or two in each.")
    return pairs_of(graphs, all_pairs, Path(file).name)


def _graph(file: str | Path, place: str, word: bytes) -> Data:
    try:
        return from_networkx(nx.from_graph6_bytes(word.removeprefix(b">>graph6<<")))
    except Exception as error:
        raise ValueError(f"{file}, {place}: {word[:40]!r} is not a graph in graph6 format ({error}).") from None
