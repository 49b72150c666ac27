"""Families of pairs of graphs, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations, groupby
from pathlib import Path

import networkx as nx
from torch_geometric.data import Data

from reign.data import exp_graphs, from_networkx, need_file
from reign.registry import Registry
from reign.theory._hard_graphs import cfi, cfi_bases, rook, shrikhande
from reign.theory._readers import Pair, read_graph6, read_pairs
from reign.theory._wl import wl_classes


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
