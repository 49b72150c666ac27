"""Graphs that are hard to tell apart: circular skip links, strongly regular graphs, Cai-Fuerer-Immerman graphs."""

from collections.abc import Hashable, Sequence
from itertools import combinations, pairwise

import networkx as nx


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
