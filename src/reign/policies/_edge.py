"""Edge deletion: one subgraph per undirected edge, without that edge (Bevilacqua et al. 2022). It is not node-based."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from reign.bags import SharedGraph
from reign.policies._base import POLICIES, KeepsAll


@POLICIES.register("ed")
@dataclass(frozen=True)
class EdgeDeletion(KeepsAll):
    """ED: each subgraph is the graph without one undirected edge (both directions, and all parallel copies).

    Subgraphs are in the order of their edges (u, v), u < v. Self-loops are kept. A graph without edges has no subgraphs.
    """

    meaning: ClassVar[str] = "without one edge, once per edge"
    example: ClassVar[str] = "ed"

    node_based = False  # subgraphs belong to edges, not to nodes
    num_anchors = 2  # the ends of the edge
    unordered = True  # the ends of an edge have no order

    def anchors(self, graph: SharedGraph) -> tuple[Int[Tensor, "subgraphs 2"], Int[Tensor, "subgraphs"]]:
        """The two ends of each edge."""
        n = max(graph.num_nodes, 1)
        key = graph.neighbours.edge
        ends = torch.stack([key // n, key % n], dim=1)
        ends = ends[ends[:, 0] < ends[:, 1]]
        return ends, graph.batch[ends[:, 0]]

    def cut(self, graph: SharedGraph, anchor: Tensor) -> Int[Tensor, "cuts 3"]:
        """Each subgraph loses the edge between its anchors."""
        return torch.cat([torch.arange(anchor.size(0), device=anchor.device)[:, None], anchor], dim=1)
