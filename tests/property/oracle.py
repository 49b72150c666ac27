"""Every policy once more, as plain as can be: networkx, one subgraph at a time."""

from itertools import combinations, product

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
    base, _, depth = name.replace("+single", "").partition(":")
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
    if base == "central":  # features differ and grow with the number of the node, so they break ties
        value = nx.subgraph_centrality_exp(nx.Graph((u, v) for u, v in graph.edges if u != v) if graph.edges else graph)
        order = sorted(nodes, key=lambda v: (-round(value.get(v, 1.0), 7), v))
        return [((v,), graph) for v in sorted(order[: int(depth)])]
    size, rest = int(base[0]), base[2:]
    tuples = list(combinations(nodes, size) if rest.startswith("set-") else product(nodes, repeat=size))
    rest = rest.removeprefix("set-")
    if rest == "nd":
        return [(t, without(graph, *t)) for t in tuples]
    if rest in ("null", "nm", "nm+distance"):
        return [(t, graph) for t in tuples]
    if rest in ("ego", "ego+", "ego+distance"):
        return [(t, graph.subgraph(set().union(*(ball(graph, v, hops) for v in t)))) for t in tuples]
    raise AssertionError(name)


def marks(name: str, data: Data, anchor: tuple[int, ...], node: int, member: bool) -> list[int]:
    """The channels in front of a node's features."""
    base, _, depth = name.partition(":")
    if base.endswith("distance"):
        cap = int(depth) if depth else 5
        graph, channels = to_networkx(data), list[int]()
        for v in anchor:
            lengths = nx.single_source_shortest_path_length(graph, v, cutoff=cap if "ego" in base else None)
            channels.append(min(lengths[node], cap) if member and node in lengths else cap + 1)
        if "set-" in base:
            return [int(c in channels) for c in range(cap + 2)]
        return [int(c == channel) for channel in channels for c in range(cap + 2)]
    single, base = base.endswith("+single"), base.replace("+single", "+" if "ego" in base else "")
    if base.endswith(("nm", "ego+")) or base == "central":
        here = [int(node in anchor)] if "set-" in base else [int(v == node) for v in anchor]
        if single:
            return here
        return [*here, int(not any(here))]
    return []
