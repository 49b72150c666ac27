"""The subgraphs of the most central nodes (Southern et al. 2025), and how ties between nodes are broken."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reign.bags import SharedGraph, node_values
from reign.policies._base import POLICIES, KeepsAll

# Square roots of centralities that differ by a smaller part, or by less than the rounding of eigenvectors, count as equal.
TIE, ROUNDING = 1e-9, 1e-13


@POLICIES.register("central")
@dataclass(frozen=True)
class Central(KeepsAll):
    r"""The graph with a mark on the root, for the nodes of largest subgraph centrality alone: few subgraphs, which are the same at every call.

    The subgraph centrality of node i is :math:`\exp(A)_{ii} = \sum_s (A^s)_{ii} / s!`, a sum over its closed walks, in the simple undirected graph.
    Values whose square roots differ by less than a part of 1e-9, or by 1e-13 of the square root of exp of the largest eigenvalue, count as equal.

    A tie at the last place is broken by structure, so that isomorphic graphs get isomorphic bags. One node is chosen after the other. Among the tied nodes
    it is one of the smallest colour of colour refinement, which starts from the features and from the nodes that are chosen already, and reads features of
    edges. If some of these nodes are not exchanged by any automorphism, colours after individualising further nodes decide. The node is then unique up to
    automorphisms of the graph with its features and its chosen nodes, and of nodes that such an automorphism exchanges, the one with the smallest number is taken.

    Args:
        number: the number of subgraphs of each graph; smaller graphs have one for each node.
    """

    meaning: ClassVar[str] = "a mark on the root, for the 2 nodes of largest subgraph centrality"
    example: ClassVar[str] = "central:2"
    mark = True

    number: int

    def __post_init__(self) -> None:
        if type(self.number) is not int or self.number < 1:
            raise ValueError(f"number is {self.number!r}, expected a whole number of at least 1, as in 'central:2' or Central(2).")

    @property
    def node_based(self) -> bool:
        """False: only some nodes have a subgraph."""
        return False

    def num_subgraphs(self, graph: SharedGraph) -> Int[Tensor, "graphs"]:
        """The number of nodes, or ``number`` if there are more."""
        return graph.sizes.clamp(max=self.number)

    def anchors(self, graph: SharedGraph) -> tuple[Int[Tensor, "subgraphs 1"], Int[Tensor, "subgraphs"]]:
        """The most central nodes of each graph, in the order of nodes."""
        centrality = subgraph_centrality(graph)
        order = torch.argsort(centrality, descending=True, stable=True)
        order = order[torch.argsort(graph.batch[order], stable=True)]  # by graph, then by centrality
        value, home = centrality[order].sqrt(), graph.batch[order]
        place = torch.arange(order.numel(), device=order.device) - graph.ptr[home]
        level = torch.nn.functional.pad((value[1:] < value[:-1] * (1 - TIE) - ROUNDING) | (home[1:] != home[:-1]), (1, 0)).cumsum(0)
        chosen = place < self.number
        last = (place == self.number) & (level == level.roll(1))  # equal to the last one that was chosen
        for p in last.nonzero().flatten().tolist():
            tied = (level == level[p]).nonzero().flatten()
            free = int((place[tied] < self.number).sum())
            first = int(graph.ptr[home[p]])
            sure = order[(home == home[p]) & (level < level[p])] - first
            picked = break_tie(graph, int(home[p]), (order[tied] - first).tolist(), sure.tolist(), free)
            chosen[tied] = torch.isin(order[tied] - first, torch.tensor(picked, device=order.device))
        root = order[chosen].sort().values
        return root[:, None], graph.batch[root]


def subgraph_centrality(graph: SharedGraph) -> Float[Tensor, "nodes"]:
    """exp(A)_ii of every node, divided by exp of the largest eigenvalue of its graph, so that dense graphs do not overflow."""

    def compute(A: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(A)
        return (vectors.square() @ (values - values[:, -1:]).exp()[:, :, None]).clamp(min=0)

    return node_values(graph, 1, compute, both_ways=True)[:, 0]


# -- ties ---------------------------------------------------------------------------------------------------------------------

Colours = list[int]


def break_tie(graph: SharedGraph, g: int, tied: Sequence[int], chosen: Sequence[int], number: int) -> list[int]:
    """Some of the tied nodes of graph g, unique up to automorphisms; see ``Central``. Nodes are counted from the first node of the graph."""
    parts, tied, chosen = _Ties(graph, g), sorted(tied), list(chosen)
    picked: list[int] = []
    for _ in range(number):
        colours = parts.refined([(x, v in chosen) for v, x in enumerate(parts.features)])
        left = [v for v in tied if v not in picked]
        smallest = min(colours[v] for v in left)
        picked.append(parts.pick(colours, [v for v in left if colours[v] == smallest]))
        chosen.append(picked[-1])
    return picked


class _Ties:
    """A graph with features as plain lists, and its colour refinement."""

    def __init__(self, graph: SharedGraph, g: int) -> None:
        first, end = graph.ptr[g : g + 2].tolist()
        edges = ((graph.edge_index[1] >= first) & (graph.edge_index[1] < end)).nonzero().flatten()
        self.features = _ranks(graph.x[first:end])
        kinds = [0] * edges.numel() if graph.edge_attr is None else _ranks(graph.edge_attr[edges])
        self.near: list[list[tuple[int, int, int]]] = [[] for _ in self.features]
        for (u, v), kind in zip((graph.edge_index[:, edges] - first).t().tolist(), kinds, strict=True):
            self.near[v].append((kind, 0, u))
            self.near[u].append((kind, 1, v))

    def refined(self, start: Sequence[Any]) -> Colours:
        """The stable colours of colour refinement: ranks, which depend on the structure alone and keep the order of the first colours."""
        colours, number = _by_rank(start), 0
        while len(set(colours)) > number:
            number = len(set(colours))
            colours = _by_rank(
                [(c, *sorted((kind, way, colours[u]) for kind, way, u in self.near[v])) for v, c in enumerate(colours)]
            )
        return colours

    def with_own_colour(self, colours: Colours, node: int) -> Colours:
        """The stable colours after a node has a colour of its own."""
        return self.refined([(c, v != node) for v, c in enumerate(colours)])

    def pick(self, colours: Colours, nodes: list[int]) -> int:
        """One of some nodes of equal colour, unique up to automorphisms that keep colours."""
        depth, seen = 0, [sorted(self.near[v]) for v in nodes]
        nodes = [
            v for v, near in zip(nodes, seen, strict=True) if nodes[seen.index(near)] == v
        ]  # nodes with equal neighbours are exchanged
        while not self._exchanged(colours, nodes):
            keys = {v: self._certificate(self.with_own_colour(colours, v), depth) for v in nodes}
            smallest, depth = min(keys.values()), depth + 1
            nodes = [v for v, key in keys.items() if key == smallest]
        return nodes[0]

    def _exchanged(self, colours: Colours, nodes: list[int]) -> bool:
        """Whether automorphisms that keep colours map the first of some nodes to each of the others."""
        orbit = list(range(len(colours)))  # a node is in the orbit of the node that is reached from it

        def of(v: int) -> int:
            while orbit[v] != v:
                v = orbit[v]
            return v

        ours = self.with_own_colour(colours, nodes[0])
        for v in nodes[1:]:
            if of(v) != of(nodes[0]):
                if (image := self._automorphism(ours, self.with_own_colour(colours, v))) is None:
                    return False
                for a, b in enumerate(image):
                    orbit[max(of(a), of(b))] = min(of(a), of(b))
        return True

    def _automorphism(self, ours: Colours, theirs: Colours) -> list[int] | None:
        """A permutation of nodes that keeps edges, features and colours; None if there is none."""
        if self._certificate(ours, 0) != self._certificate(theirs, 0):
            return None
        image = [0] * len(ours)
        for a, b in zip(
            sorted(range(len(ours)), key=ours.__getitem__), sorted(range(len(ours)), key=theirs.__getitem__), strict=True
        ):
            image[a] = b
        if all(
            Counter((kind, way, image[u]) for kind, way, u in self.near[v]) == Counter(self.near[image[v]])
            for v in range(len(ours))
        ):
            return image
        cell = _cell(ours)
        ours = self.with_own_colour(ours, next(v for v, c in enumerate(ours) if c == cell))
        tried = (self._automorphism(ours, self.with_own_colour(theirs, v)) for v, c in enumerate(theirs) if c == cell)
        return next((found for found in tried if found is not None), None)

    def _certificate(self, colours: Colours, depth: int) -> Any:
        """What isomorphic coloured graphs have in common: all that there is to know, if depth is large enough."""
        cell = _cell(colours)
        if depth == 0 or cell is None:
            return sorted(
                (c, self.features[v], sorted((k, w, colours[u]) for k, w, u in self.near[v])) for v, c in enumerate(colours)
            )
        inside = (v for v, c in enumerate(colours) if c == cell)
        return sorted(self._certificate(self.with_own_colour(colours, v), depth - 1) for v in inside)


def _by_rank(values: Sequence[Any]) -> Colours:
    rank = {value: r for r, value in enumerate(sorted(set(values)))}
    return [rank[value] for value in values]


def _ranks(rows: Tensor) -> list[int]:
    """The rank of each row among the different rows."""
    return (
        rows.detach().reshape(rows.size(0), -1).cpu().unique(dim=0, return_inverse=True)[1].tolist()
        if rows.numel()
        else [0] * rows.size(0)
    )


def _cell(colours: Colours) -> int | None:
    """The smallest colour of several nodes; None if all colours differ."""
    return min((c for c, number in Counter(colours).items() if number > 1), default=None)
