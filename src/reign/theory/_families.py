"""Pairs of graphs that are hard to tell apart, generated or read."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import networkx as nx
from torch_geometric.data import Data

from reign.data import exp_graphs, from_networkx, need_file


class Pair(NamedTuple):
    """Two graphs to tell apart."""

    name: str
    one: Data
    other: Data


def _triangles() -> list[Pair]:
    two = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    return [Pair("C6 / 2xC3", from_networkx(nx.cycle_graph(6)), from_networkx(two))]


def _decalin() -> list[Pair]:
    decalin = nx.cycle_graph(10)
    decalin.add_edge(0, 5)
    bicyclopentyl = nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5))
    bicyclopentyl.add_edge(0, 5)
    return [Pair("decalin / bicyclopentyl", from_networkx(decalin), from_networkx(bicyclopentyl))]


def _csl() -> list[Pair]:
    """Circular skip links: a cycle of 41 nodes and chords of one length; ten classes."""
    skips = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
    graphs = {s: from_networkx(nx.circulant_graph(41, [1, s])) for s in skips}
    return [Pair(f"CSL {a} / {b}", graphs[a], graphs[b]) for a, b in combinations(skips, 2)]


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


def _rook() -> list[Pair]:
    return [Pair("rook / Shrikhande", from_networkx(rook()), from_networkx(shrikhande()))]


def cfi(base: nx.Graph, twisted: bool) -> nx.Graph:
    """The graph of Cai, Fuerer and Immerman over a connected base: even subsets of a node's edges, joined where they agree.

    With a twist one edge of the base joins where they disagree. Each node is coloured by its base node through its degree only;
    the pair is isomorphic if and only if both are twisted or both are not.
    """
    graph = nx.Graph()
    edges = [tuple(sorted(e)) for e in base.edges]
    sets = {}
    for v in base:
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


def _cfi() -> list[Pair]:
    bases = {
        "C3": nx.cycle_graph(3),
        "C5": nx.cycle_graph(5),
        "K4": nx.complete_graph(4),
        "K3,3": nx.complete_bipartite_graph(3, 3),
    }
    return [Pair(f"CFI({name})", from_networkx(cfi(b, False)), from_networkx(cfi(b, True))) for name, b in bases.items()]


def _regular() -> list[Pair]:
    """Random regular graphs of one size and degree, not isomorphic: 1-WL sees no difference."""
    pairs = []
    for degree, n in ((3, 8), (3, 10), (4, 9), (4, 10), (3, 12), (5, 12)):
        seed, first = 0, nx.random_regular_graph(degree, n, seed=1)
        while True:
            second = nx.random_regular_graph(degree, n, seed=2 + seed)
            if not nx.is_isomorphic(first, second):
                break
            seed += 1
        pairs.append(Pair(f"{degree}-regular, {n} nodes", from_networkx(first), from_networkx(second)))
    return pairs


def _exp(name: str) -> list[Pair]:
    """Consecutive graphs of EXP or CEXP."""

    graphs = exp_graphs(name)
    return [Pair(f"{name} {p}", graphs[2 * p], graphs[2 * p + 1]) for p in range(len(graphs) // 2)]


def _sr() -> list[Pair]:

    return read_graph6(need_file("sr251256.g6", "SR"), all_pairs=True)


def read_graph6(file: str | Path, all_pairs: bool = False) -> list[Pair]:
    """Pairs of the graphs of a graph6 file: consecutive ones, or all.

    A line that is no graph raises a ``ValueError`` with its number.
    """
    graphs = []
    for number, line in enumerate(Path(file).read_bytes().splitlines(), 1):
        line = line.strip()
        if not line:
            continue
        try:
            graphs.append(from_networkx(nx.from_graph6_bytes(line)))
        except Exception as error:
            raise ValueError(f"{file}, line {number}: {line[:40]!r} is no graph in graph6 format ({error}).") from None
    return pairs_of(graphs, all_pairs, Path(file).name)


def pairs_of(graphs: Sequence[Data], all_pairs: bool, name: str) -> list[Pair]:
    """Graphs as pairs: consecutive ones, or all."""
    if len(graphs) < 2:
        raise ValueError(f"{name} holds {len(graphs)} graphs, expected two or more.")
    if not all_pairs and len(graphs) % 2:
        raise ValueError(
            f"{name} holds {len(graphs)} graphs, expected an even number of them for consecutive pairs; use --all-pairs."
        )
    chosen = combinations(range(len(graphs)), 2) if all_pairs else [(g, g + 1) for g in range(0, len(graphs), 2)]
    return [Pair(f"{name} {a} / {b}", graphs[a], graphs[b]) for a, b in chosen]


FAMILIES: dict[str, tuple[str, Callable[[], list[Pair]]]] = {
    "triangles": ("a 6-cycle and two triangles", _triangles),
    "decalin": ("decalin and bicyclopentyl, two molecules that 1-WL confuses", _decalin),
    "csl": ("circular skip links of 41 nodes, 45 pairs of ten classes", _csl),
    "rook": ("the 4x4 rook's graph and the Shrikhande graph, equal under 3-WL", _rook),
    "cfi": ("Cai-Fuerer-Immerman pairs over C3, C5, K4 and K3,3", _cfi),
    "regular": ("random regular graphs of one size and degree", _regular),
    "exp": ("EXP, 600 pairs that 1-WL confuses (from REIGN_DATA)", lambda: _exp("EXP")),
    "cexp": ("CEXP, 600 pairs, half of which 1-WL confuses (from REIGN_DATA)", lambda: _exp("CEXP")),
    "sr": ("the 15 strongly regular graphs (25, 12, 5, 6), 105 pairs (from REIGN_DATA)", _sr),
}
GENERATED = ["triangles", "decalin", "csl", "rook", "cfi", "regular"]


def family(name: str, all_pairs: bool = False) -> list[Pair]:
    """The pairs of a family by name, or of a graph6 file.

    >>> [pair.name for pair in family("triangles")]
    ['C6 / 2xC3']
    """
    if name in FAMILIES:
        return FAMILIES[name][1]()
    if name.endswith((".g6", ".graph6")) or Path(name).is_file():
        if not Path(name).is_file():
            raise ValueError(f"there is no file {name}; expected a graph6 file or a family: {', '.join(FAMILIES)}.")
        return read_graph6(name, all_pairs)
    near = get_close_matches(name, FAMILIES, n=2)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    raise ValueError(f"unknown family '{name}'{hint} Known: {', '.join(FAMILIES)}, or a graph6 file (.g6).")
