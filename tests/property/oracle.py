"""Every policy once more, as plain as can be: networkx, one subgraph at a time."""

from itertools import product

import networkx as nx
from torch_geometric.data import Data


def to_networkx(data: Data) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(data.num_nodes))
    graph.add_edges_from(data.edge_index.t().tolist())
    return graph


def ball(graph: nx.Graph, root: int, hops: int) -> set[int]:
    return set(nx.single_source_shortest_path_length(graph, root, cutoff=hops))


def without(graph: nx.Graph, *nodes: int) -> nx.Graph:
    return graph.subgraph(set(graph) - set(nodes))


def bag(name: str, data: Data) -> list[tuple[tuple[int, ...], nx.Graph]]:
    """What each subgraph is tied to, and the subgraph."""
    graph = to_networkx(data)
    nodes = sorted(graph)
    base, _, depth = name.partition(":")
    hops = int(depth or 0)
    if base in ("null", "nm", "nm+distance"):
        return [((v,), graph) for v in nodes]
    if base == "nd":
        return [((v,), without(graph, v)) for v in nodes]
    if base in ("ego", "ego+", "ego+distance"):
        return [((v,), graph.subgraph(ball(graph, v, hops))) for v in nodes]
    if base == "ed":
        edges = sorted(tuple(sorted(edge)) for edge in graph.edges if edge[0] != edge[1])
        return [(edge, nx.restricted_view(graph, [], [edge])) for edge in edges]
    tuples = list(product(nodes, nodes))
    if base == "2-nd":
        return [(t, without(graph, *t)) for t in tuples]
    if base in ("2-null", "2-nm"):
        return [(t, graph) for t in tuples]
    if base in ("2-ego", "2-ego+"):
        return [(t, graph.subgraph(ball(graph, t[0], hops) | ball(graph, t[1], hops))) for t in tuples]
    raise AssertionError(name)


def marks(name: str, data: Data, anchor: tuple[int, ...], node: int, member: bool) -> list[int]:
    """The channels in front of a node's features."""
    base, _, depth = name.partition(":")
    if base.endswith("distance"):
        cap = int(depth) if depth else 5
        lengths = nx.single_source_shortest_path_length(to_networkx(data), anchor[0])
        channel = min(lengths[node], cap) if member and node in lengths else cap + 1
        return [int(c == channel) for c in range(cap + 2)]
    if base in ("nm", "ego+", "2-nm", "2-ego+"):
        here = [int(v == node) for v in anchor]
        return [*here, int(not any(here))]
    return []
