"""Pairs of graphs that are hard to tell apart: families by name, and pairs from files.

Files are text files of graph6 lines, or ``.npy`` arrays of graph6 texts.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import numpy as np
from torch_geometric.data import Data

from reign.data import exp_graphs, from_networkx, need_file
from reign.registry import Registry
from reign.theory._wl import wl_classes

# -- pairs from files ---------------------------------------------------------------------------------------------------------


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


def _pairs(file: str | Path, rows: Iterable[tuple[str, list[bytes]]], all_pairs: bool) -> list[Pair]:
    """Pairs of consecutive graphs, or all pairs."""
    graphs, widths = [], set()
    for place, words in rows:
        graphs += [_graph(file, place, word) for word in words]
        widths.add(len(words))
    if widths - {1, 2} or len(widths) > 1:
        raise ValueError(f"{file} has rows with {sorted(widths)} graphs, expected one graph in each row, or two in each.")
    name = Path(file).name
    if len(graphs) < 2:
        raise ValueError(f"{name} holds {len(graphs)} graphs, expected two or more.")
    if not all_pairs and len(graphs) % 2:
        raise ValueError(f"{name} holds {len(graphs)} graphs, expected an even number for consecutive pairs; use --all-pairs.")
    chosen = combinations(range(len(graphs)), 2) if all_pairs else [(g, g + 1) for g in range(0, len(graphs), 2)]
    return [Pair(f"{name} {a} / {b}", graphs[a], graphs[b]) for a, b in chosen]


def _graph(file: str | Path, place: str, word: bytes) -> Data:
    try:
        return from_networkx(nx.from_graph6_bytes(word.removeprefix(b">>graph6<<")))
    except Exception as error:
        raise ValueError(f"{file}, {place}: {word[:40]!r} is not a graph in graph6 format ({error}).") from None


# -- single graphs ------------------------------------------------------------------------------------------------------------


def rook() -> nx.Graph:
    """The 4 x 4 rook's graph."""
    return nx.line_graph(nx.complete_bipartite_graph(4, 4))


def shrikhande() -> nx.Graph:
    """The Shrikhande graph: the Cayley graph of Z4 x Z4 with (1, 0), (0, 1), (1, 1)."""
    graph = nx.Graph()
    for a in range(4):
        for b in range(4):
            for da, db in ((1, 0), (0, 1), (1, 1)):
                graph.add_edge((a, b), ((a + da) % 4, (b + db) % 4))
    return graph


def cfi(base: nx.Graph, twisted: bool) -> nx.Graph:
    """The graph of Cai, Fuerer and Immerman over a connected base: its nodes are even subsets of the edges at a node of the base, and two
    subsets at the ends of an edge are joined if they agree on this edge.

    With a twist, subsets at the ends of one edge are joined if they disagree. The graphs with and without a twist are not isomorphic, and
    k-WL tells them apart if and only if the base has treewidth below k (for k >= 2, in the convention in which 3-WL is 2-FWL).
    """
    graph = nx.Graph()
    edges = [tuple(sorted(e)) for e in nx.convert_node_labels_to_integers(base).edges]
    sets = {}
    for v in range(base.number_of_nodes()):
        mine = [e for e in edges if v in e]
        sets[v] = [s for r in range(0, len(mine) + 1, 2) for s in combinations(mine, r)]
        graph.add_nodes_from((v, s) for s in sets[v])
    for index, (u, v) in enumerate(edges):
        for s in sets[u]:
            for t in sets[v]:
                agree = ((u, v) in s) == ((u, v) in t)
                if agree != (twisted and index == 0):
                    graph.add_edge((u, s), (v, t))
    return graph


def theta(*lengths: int) -> nx.Graph:
    """Two nodes joined by paths with the given numbers of inner nodes."""
    graph = nx.Graph()
    for p, length in enumerate(lengths):
        nx.add_path(graph, ["a", *((p, j) for j in range(length)), "b"])
    return graph


def star(cycle: int, edges: Sequence[int], lengths: Sequence[int]) -> nx.Graph:
    """A cycle with ladders attached to some of its edges, with the given numbers of squares. It has treewidth 2."""
    graph = nx.cycle_graph(cycle)
    for arm, (first, length) in enumerate(zip(edges, lengths, strict=True)):
        u: Hashable = first
        v: Hashable = (first + 1) % cycle
        for s in range(length):
            x, y = (arm, s, "x"), (arm, s, "y")
            graph.add_edges_from([(u, x), (x, y), (y, v)])
            u, v = x, y
    return graph


def chain(triangles: int) -> nx.Graph:
    """A triangulated strip: a row of triangles, each of which shares an edge with the next."""
    graph = nx.path_graph(triangles + 2)
    graph.add_edges_from((i, i + 2) for i in range(triangles))
    return graph


def join(*parts: nx.Graph) -> nx.Graph:
    """Graphs in a row: the second node of each is joined to the first of the next by an edge."""
    graph = nx.disjoint_union_all(parts)
    starts = [sum(part.number_of_nodes() for part in parts[:p]) for p in range(len(parts))]
    graph.add_edges_from((a + 1, b) for a, b in pairwise(starts))
    return graph


def cfi_bases() -> dict[str, nx.Graph]:
    """Bases of treewidths 2 to 6 whose CFI graphs have at most 100 nodes."""
    return {
        "C3": nx.cycle_graph(3),
        "C5": nx.cycle_graph(5),
        "C10": nx.cycle_graph(10),
        "C24": nx.cycle_graph(24),
        "theta 1,2,3": theta(1, 2, 3),
        "theta 3,3,3,3": theta(3, 3, 3, 3),
        "theta 8,8,8": theta(8, 8, 8),
        "strip 3": chain(3),
        "strip 4": chain(4),
        "strip 6": chain(6),
        "C3-C3": join(nx.cycle_graph(3), nx.cycle_graph(3)),
        "C3-C3-C3": join(*[nx.cycle_graph(3)] * 3),
        "strip 2-C3": join(nx.cycle_graph(3), chain(2)),
        "ladder 4-C3": join(nx.cycle_graph(3), nx.ladder_graph(4)),
        "ladder 3": nx.ladder_graph(3),
        "ladder 4": nx.ladder_graph(4),
        "ladder 8": nx.ladder_graph(8),
        "ladder 12": nx.ladder_graph(12),
        "star 3: 1,1,1": star(3, (0, 1, 2), (1, 1, 1)),
        "star 6: 1,1,1": star(6, (0, 2, 4), (1, 1, 1)),
        "star 6: 2,1,1": star(6, (0, 2, 4), (2, 1, 1)),
        "star 6: 4,4,3": star(6, (0, 2, 4), (4, 4, 3)),
        "K4": nx.complete_graph(4),
        "K3,3": nx.complete_bipartite_graph(3, 3),
        "prism": nx.circular_ladder_graph(3),
        "cube": nx.hypercube_graph(3),
        "wheel 5": nx.wheel_graph(6),
        "grid 3x3": nx.grid_2d_graph(3, 3),
        "K5": nx.complete_graph(5),
        "octahedron": nx.octahedral_graph(),
        "Petersen": nx.petersen_graph(),
        "dodecahedron": nx.dodecahedral_graph(),
    }


# -- families -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """A family of pairs of graphs.

    Args:
        meaning: a one-line description.
        pairs: function that makes the pairs.
        generated: whether the pairs are generated and need no data file.
    """

    meaning: str
    pairs: Callable[[], list[Pair]]
    generated: bool = True


FAMILIES: Registry[Family] = Registry("family", hint=", or a file of graph6 lines (.g6, .txt), or an array of graph6 texts (.npy)")


def add_family(
    name: str, meaning: str, *, generated: bool = True
) -> Callable[[Callable[[], list[Pair]]], Callable[[], list[Pair]]]:
    """A decorator that registers a function that makes pairs of graphs as a family."""

    def add(pairs: Callable[[], list[Pair]]) -> Callable[[], list[Pair]]:
        FAMILIES.register(name)(Family(meaning, pairs, generated))
        return pairs

    return add


def list_families(generated: bool = False) -> list[str]:
    """The names of all families, or of those that need no data file.

    >>> list_families(generated=True)
    ['triangles', 'decalin', 'csl', 'rook', 'cfi', 'regular', 'small']
    """
    return [name for name, family in FAMILIES.items() if family.generated or not generated]


def family(name: str, all_pairs: bool = False) -> list[Pair]:
    """The pairs of a family, given by its name, or of a file.

    >>> [pair.name for pair in family("triangles")]
    ['C6 / 2xC3']
    """
    if name not in FAMILIES and (Path(name).is_file() or Path(name).suffix in (".g6", ".graph6", ".txt", ".npy")):
        if not Path(name).is_file():
            raise ValueError(f"the file {name} does not exist; expected a file of pairs, or a family: {', '.join(FAMILIES)}.")
        return read_pairs(name, all_pairs)
    return FAMILIES[name].pairs()


@cache
def small_graphs(nodes: int = 7) -> tuple[Data, ...]:
    """All graphs with at most ``nodes`` nodes (up to 7), one of each isomorphism class: 1,252 for 7 nodes."""
    return tuple(from_networkx(g) for g in nx.graph_atlas_g() if 1 <= len(g) <= nodes)


@add_family("triangles", "a 6-cycle and two triangles")
def _triangles() -> list[Pair]:
    two = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    return [Pair("C6 / 2xC3", from_networkx(nx.cycle_graph(6)), from_networkx(two))]


@add_family("decalin", "decalin and bicyclopentyl, two molecules that 1-WL confuses")
def _decalin() -> list[Pair]:
    decalin = nx.cycle_graph(10)
    decalin.add_edge(0, 5)
    bicyclopentyl = nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5))
    bicyclopentyl.add_edge(0, 5)
    return [Pair("decalin / bicyclopentyl", from_networkx(decalin), from_networkx(bicyclopentyl))]


@add_family("csl", "circular skip links: cycles of 41 nodes with chords of one length; 45 pairs from ten classes")
def _csl() -> list[Pair]:
    skips = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
    graphs = {s: from_networkx(nx.circulant_graph(41, [1, s])) for s in skips}
    return [Pair(f"CSL {a} / {b}", graphs[a], graphs[b]) for a, b in combinations(skips, 2)]


@add_family("rook", "the 4x4 rook's graph and the Shrikhande graph, equal under 3-WL")
def _rook() -> list[Pair]:
    return [Pair("rook / Shrikhande", from_networkx(rook()), from_networkx(shrikhande()))]


@add_family("cfi", "Cai-Fuerer-Immerman pairs of 6 to 100 nodes, over 32 bases of treewidths 2 to 6")
def _cfi() -> list[Pair]:
    return [Pair(f"CFI({name})", *(from_networkx(cfi(b, twist)) for twist in (False, True))) for name, b in cfi_bases().items()]


@add_family("regular", "random regular graphs with the same size and degree")
def _regular() -> list[Pair]:
    pairs = []
    for degree, n in ((3, 8), (3, 10), (4, 9), (4, 10), (3, 12), (5, 12)):
        first = nx.random_regular_graph(degree, n, seed=1)
        seed = 2
        while nx.is_isomorphic(first, second := nx.random_regular_graph(degree, n, seed=seed)):
            seed += 1
        pairs.append(Pair(f"{degree}-regular, {n} nodes", from_networkx(first), from_networkx(second)))
    return pairs


@add_family("small", "all pairs of graphs of equal size, up to 7 nodes, that 1-WL confuses")
def _small() -> list[Pair]:
    graphs = small_graphs()
    classes = wl_classes(graphs)
    pairs = []
    for _, same in groupby(sorted(range(len(graphs)), key=lambda g: (classes[g], g)), key=lambda g: classes[g]):
        pairs += [Pair(f"small {a} / {b}", graphs[a], graphs[b]) for a, b in combinations(same, 2)]
    return pairs


def _exp(name: str) -> list[Pair]:
    """Consecutive graphs of EXP or CEXP."""
    graphs = exp_graphs(name)
    return [Pair(f"{name} {p}", graphs[2 * p], graphs[2 * p + 1]) for p in range(len(graphs) // 2)]


add_family("exp", "EXP, 600 pairs that 1-WL confuses (from REIGN_DATA)", generated=False)(lambda: _exp("EXP"))
add_family("cexp", "CEXP, 600 pairs, half of which 1-WL confuses (from REIGN_DATA)", generated=False)(lambda: _exp("CEXP"))


@add_family("sr", "the 15 strongly regular graphs (25, 12, 5, 6), 105 pairs (from REIGN_DATA)", generated=False)
def _sr() -> list[Pair]:
    return read_graph6(need_file("sr251256.g6", "SR"), all_pairs=True)
