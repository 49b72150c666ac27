"""Random graphs of ten families, in the shares of PNA's generator (Corso et al. 2020)."""

from collections.abc import Callable

import networkx as nx
import numpy as np


def random_graph(n: int, rng: np.random.Generator) -> nx.Graph:
    """A graph of n nodes from one of ten families, in the shares of PNA, with its nodes in random order."""
    names, shares = zip(*((name, share) for name, (share, _) in FAMILIES.items()), strict=True)
    graph = FAMILIES[names[int(rng.choice(len(names), p=np.array(shares)))]][1](n, rng)
    graph = nx.convert_node_labels_to_integers(graph)
    order = rng.permutation(n)
    out = nx.empty_graph(n)
    out.add_edges_from(sorted(tuple(sorted((int(order[u]), int(order[v])))) for u, v in graph.edges if u != v))
    return out


def _erdos_renyi(n: int, rng: np.random.Generator) -> nx.Graph:
    return nx.gnp_random_graph(n, float(rng.random()), seed=int(rng.integers(2**31)))


def _barabasi_albert(n: int, rng: np.random.Generator) -> nx.Graph:
    return nx.barabasi_albert_graph(n, int(rng.integers(1, n)), seed=int(rng.integers(2**31)))


def _grid(n: int, rng: np.random.Generator) -> nx.Graph:
    """A grid that is as square as possible for n nodes; a line if n is prime."""
    width = max(w for w in range(1, int(n**0.5) + 1) if n % w == 0)
    return nx.grid_2d_graph(width, n // width)


def _caveman(n: int, rng: np.random.Generator) -> nx.Graph:
    """A ring of cliques, whose number and size are as equal as possible for n nodes; one clique if n is prime."""
    number = max(w for w in range(1, int(n**0.5) + 1) if n % w == 0)
    return nx.connected_caveman_graph(number, n // number) if number > 1 else nx.complete_graph(n)


def _tree(n: int, rng: np.random.Generator) -> nx.Graph:
    return nx.from_prufer_sequence([int(v) for v in rng.integers(0, n, n - 2)])


def _ladder(n: int, rng: np.random.Generator) -> nx.Graph:
    """Two rails of n // 2 nodes each; if n is odd, one more node is attached to an end."""
    graph = nx.ladder_graph(n // 2)
    if n % 2:
        graph.add_edge(0, n - 1)
    return graph


def _line(n: int, rng: np.random.Generator) -> nx.Graph:
    return nx.path_graph(n)


def _star(n: int, rng: np.random.Generator) -> nx.Graph:
    return nx.star_graph(n - 1)


def _caterpillar(n: int, rng: np.random.Generator) -> nx.Graph:
    """A path of random length, with all other nodes attached to it."""
    length = int(rng.integers(1, n + 1))
    graph = nx.path_graph(length)
    graph.add_edges_from((v, int(rng.integers(length))) for v in range(length, n))
    return graph


def _lobster(n: int, rng: np.random.Generator) -> nx.Graph:
    """A path, nodes attached to it, and nodes attached to those."""
    length = int(rng.integers(1, n + 1))
    legs = int(rng.integers(length, n + 1))
    graph = nx.path_graph(length)
    graph.add_edges_from((v, int(rng.integers(length))) for v in range(length, legs))
    graph.add_edges_from(
        (v, int(rng.integers(length, legs)) if legs > length else int(rng.integers(length))) for v in range(legs, n)
    )
    return graph


FAMILIES: dict[str, tuple[float, Callable[[int, np.random.Generator], nx.Graph]]] = {
    "Erdos-Renyi": (0.2, _erdos_renyi),
    "Barabasi-Albert": (0.2, _barabasi_albert),
    "grid": (0.05, _grid),
    "caveman": (0.05, _caveman),
    "tree": (0.15, _tree),
    "ladder": (0.05, _ladder),
    "line": (0.05, _line),
    "star": (0.05, _star),
    "caterpillar": (0.1, _caterpillar),
    "lobster": (0.1, _lobster),
}
