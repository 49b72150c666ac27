"""Draw a graph and its subgraphs side by side."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from reign.draw._picture import (  # isort: skip
    BLUE, ORANGE, RED, Axes, Line2D, LineCollection, Picture, Theme, finish, new_figure, style_legend, theme,
)  # fmt: skip

# -- the positions of nodes ----------------------------------------------------------------------------------------------------

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


# -- the picture ---------------------------------------------------------------------------------------------------------------

Edges = Sequence[tuple[int, int]]
NODE, DOT, ROOT = 15.0, 5.0, 11.0  # diameters in points: nodes with numbers, nodes without, and roots
LARGEST, GAP, TOP, BOTTOM = (
    9.0,
    0.22,
    0.55,
    0.7,
)  # inches: largest size of the graph, gap between subgraphs, margins above and below


@dataclass(frozen=True)
class Subgraph:
    """The parts of a subgraph that are drawn.

    Args:
        title: its title.
        members: the nodes that are in it.
        roots: its root, or its anchors.
        edges: its directed edges; an undirected edge is given in both directions.
        cut: edges that are deleted although both of their nodes are members.
    """

    title: str
    members: Sequence[int]
    roots: Sequence[int]
    edges: Edges
    cut: Edges = field(default_factory=tuple)


def draw_bag(
    num_nodes: int,
    edges: Edges,
    subgraphs: Sequence[Subgraph],
    title: str,
    note: str = "",
    labels: Sequence[str] | None = None,
    dark: bool = False,
) -> Picture:
    """Draw a graph with numbered nodes on the left, and its subgraphs on the right.

    Args:
        num_nodes: number of nodes of the graph.
        edges: its directed edges; an undirected edge is given in both directions.
        subgraphs: its subgraphs.
        title: the title of the picture.
        note: a line below it.
        labels: labels of the nodes; their numbers if not given.
        dark: whether to draw on a dark background.
    """
    look, at = theme(dark), place(num_nodes, edges)
    extent = at.max(0) - at.min(0) if num_nodes else at.sum(0)
    unit = max(1.25 * NODE / 72, min(0.6, 2.4 / max(float(extent.max()), 1e-9)))
    width, height = (min(LARGEST, max(1.0, unit * float(side))) for side in extent)
    ratio = min(1.5, max(0.5, (height + 0.6) / (width + 0.6)))
    side = 1.2 if num_nodes <= 40 else 1.6
    columns = max(1, min(len(subgraphs), math.ceil(math.sqrt(len(subgraphs) * 1.5 * ratio))))
    rows = math.ceil(len(subgraphs) / columns)
    total = max(4.2, width + 0.6 + columns * (side + GAP)), max(height + 0.6, rows * (side * ratio + GAP)) + TOP + BOTTOM
    figure = new_figure(*total, look, layout=None)
    ax: Axes = figure.add_axes((0, 0, 1, 1), xlim=(0, total[0]), ylim=(0, total[1]), aspect="equal")  # a unit is an inch
    ax.axis("off")
    ax.text(0.15, total[1] - 0.2, title, va="center", fontsize=11, color=look.ink)
    ax.text(0.15, total[1] - 0.42, note, va="center", fontsize=8, color=look.ink)
    middle = BOTTOM + (total[1] - TOP - BOTTOM) / 2
    _draw_whole(ax, _fit(at, (width, height), (0.3 + width / 2, middle)), edges, labels, look)
    start = (total[0] + width + 0.6 - columns * (side + GAP)) / 2 if rows else 0
    for k, subgraph in enumerate(subgraphs):
        row, column = divmod(k, columns)
        x = start + column * (side + GAP) + side / 2
        y = middle + (rows / 2 - row - 0.5) * (side * ratio + GAP)
        points = _fit(at, (side - 0.2, side * ratio - 0.2), (x, y - GAP / 2))
        ax.text(x, y + side * ratio / 2, subgraph.title, ha="center", va="center", fontsize=8, color=look.ink)
        _draw_subgraph(ax, points, edges, subgraph, k, look)
    handles = _legend(subgraphs, look)
    across = max(2, int(total[0] / 1.75))
    style_legend(figure.legend(handles=handles, loc="lower center", ncols=across, fontsize=8, frameon=False), look)
    return finish(figure, title, look)


def _fit(at: Points, size: tuple[float, float], centre: tuple[float, float]) -> Points:
    """Scale the nodes to a box around a centre, in inches."""
    if not len(at):
        return at
    extent = at.max(0) - at.min(0)
    scale = min((room / float(side) for room, side in zip(size, extent, strict=True) if side > 1e-9), default=0.0)
    return (at - at.min(0) - extent / 2) * min(scale, 0.6) + centre


def _draw_whole(ax: Axes, at: Points, edges: Edges, labels: Sequence[str] | None, look: Theme) -> None:
    texts = [str(i) for i in range(len(at))] if labels is None else labels
    _lines(ax, at, edges, "graph-edges", color=look.ink, linewidth=1.0)
    ax.scatter(at[:, 0], at[:, 1], s=NODE**2, c=look.paper, edgecolors=look.ink, linewidths=1.0, zorder=2, gid="graph-nodes")
    small = 7 if max(map(len, texts), default=0) <= 2 else 5.5
    for (x, y), text in zip(at, texts, strict=True):
        ax.text(x, y, text, ha="center", va="center_baseline", fontsize=small, color=look.ink, zorder=3)


def _draw_subgraph(ax: Axes, at: Points, edges: Edges, subgraph: Subgraph, k: int, look: Theme) -> None:
    roots, members, cut = set(subgraph.roots), set(subgraph.members), set(subgraph.cut)
    inside = set(subgraph.edges)
    out = [edge for edge in edges if edge not in inside and edge not in cut]
    _lines(ax, at, out, f"subgraph-{k}-left-out", color=look.faint, linewidth=0.7, linestyle=":")
    _lines(ax, at, subgraph.cut, f"subgraph-{k}-cut", color=RED, linewidth=1.2, linestyle="--")
    _lines(ax, at, subgraph.edges, f"subgraph-{k}-edges", color=look.ink, linewidth=1.1)
    small = max(2.5, DOT - len(at) / 40)
    kinds: list[tuple[str, list[int], dict[str, Any]]] = [
        ("outside", [i for i in range(len(at)) if i not in members and i not in roots],
         {"s": small**2, "c": look.paper, "edgecolors": look.faint}),
        ("members", sorted(members - roots), {"s": small**2, "c": BLUE, "edgecolors": look.ink}),
        ("roots", sorted(roots & members), {"s": ROOT**2, "c": ORANGE, "edgecolors": look.ink, "marker": "*"}),
        ("roots-outside", sorted(roots - members), {"s": ROOT**2, "c": look.paper, "edgecolors": ORANGE, "marker": "*"}),
    ]  # fmt: skip
    for name, nodes, how in kinds:
        if nodes:
            ax.scatter(at[nodes, 0], at[nodes, 1], zorder=2, linewidths=0.7, gid=f"subgraph-{k}-{name}", **how)


def _lines(ax: Axes, at: Points, edges: Edges, name: str, **how: Any) -> None:
    """Draw undirected edges as lines, directed edges as arrows, and loops."""
    there = set(edges)
    both = [(i, j) for i, j in there if i < j and (j, i) in there]
    if both:
        lines = LineCollection([at[[i, j]] for i, j in sorted(both)], zorder=1, gid=name, **how)
        ax.add_collection(lines)
    rest = [(i, j) for i, j in there if i == j or (j, i) not in there]
    if rest:
        style = {"edge_color": how["color"], "width": how["linewidth"], "style": how.get("linestyle", "-")}
        nx.draw_networkx_edges(
            nx.DiGraph(rest), dict(enumerate(at)), ax=ax, arrowsize=6, node_size=30, hide_ticks=False, **style
        )  # fmt: skip


def _legend(subgraphs: Sequence[Subgraph], look: Theme) -> list[Line2D]:
    """The meaning of the marks that occur."""

    def mark(label: str, **how: Any) -> Line2D:
        return Line2D([], [], label=label, **{"linestyle": "", "markeredgecolor": look.ink, **how})

    found = []
    if any(set(s.roots) & set(s.members) for s in subgraphs):
        found.append(mark("root", marker="*", markersize=ROOT, markerfacecolor=ORANGE))
    if any(set(s.roots) - set(s.members) for s in subgraphs):
        found.append(
            mark("root, not a member", marker="*", markersize=ROOT, markerfacecolor=look.paper, markeredgecolor=ORANGE)
        )  # fmt: skip
    if subgraphs:
        found.append(mark("member", marker="o", markersize=DOT + 1, markerfacecolor=BLUE))
        found.append(mark("not a member", marker="o", markersize=DOT + 1, markerfacecolor=look.paper, markeredgecolor=look.faint))
        found.append(mark("edge of the subgraph", linestyle="-", color=look.ink))
        found.append(mark("edge left out", linestyle=":", color=look.faint))
    if any(s.cut for s in subgraphs):
        found.append(mark("deleted edge", linestyle="--", color=RED))
    return found
