"""The positions of nodes in a picture."""

from collections.abc import Iterable

import networkx as nx
import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


def place(num_nodes: int, edges: Iterable[tuple[int, int]]) -> Points:
    """Positions of the nodes, one row each. Distances follow hop distances, components are side by side, and the nearest two nodes are at
    distance 1.

    >>> place(2, [(0, 1)]).round(6).tolist() in ([[0, 0], [1, 0]], [[1, 0], [0, 0]])
    True
    """
    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from((i, j) for i, j in edges if i != j)
    at = np.zeros((num_nodes, 2))
    left = 0.0
    for nodes in sorted(nx.connected_components(graph), key=lambda nodes: (-len(nodes), min(nodes))):
        order = sorted(nodes)
        part = _spread(_component(graph.subgraph(order), order))
        part -= part.min(0)
        at[order] = part + np.array([left, 0.0])
        left += part[:, 0].max() + 1.5
    return at


def _component(graph: nx.Graph, order: list[int]) -> Points:
    if len(order) == 1:
        return np.zeros((1, 2))
    start = nx.circular_layout(order)
    found = nx.kamada_kawai_layout(graph, pos=start) if len(order) <= 300 else nx.spring_layout(graph, pos=start, seed=0)
    points = np.array([found[i] for i in order])
    centred = points - points.mean(0)
    turned = centred @ np.linalg.svd(centred, full_matrices=False)[2].T  # the long side is horizontal
    return np.column_stack([turned, np.zeros((len(order), 2 - turned.shape[1]))])[:, :2]


def _spread(points: Points) -> Points:
    """Scale so that the nearest two nodes are at distance 1. Nodes that almost coincide are moved apart first."""
    if len(points) < 2:
        return points
    points = points / max(float(np.abs(points).max()), 1e-9)
    apart = 0.25 / np.sqrt(len(points))
    for _ in range(60):
        gap = points[:, None] - points[None]
        distance = np.linalg.norm(gap, axis=2) + np.eye(len(points))
        if distance.min() >= apart:
            break
        push = np.clip(apart - distance, 0, None) / 2 * (1 - np.eye(len(points)))
        side = np.where(distance[:, :, None] > 1e-6, gap / distance[:, :, None], [1.0, 0.0])
        points = points + (push[:, :, None] * side).sum(1)
    gap = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e9 * np.eye(len(points))
    return points / max(float(gap.min()), apart)
