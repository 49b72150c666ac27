"""Hop distances from many sources at once: one breadth-first search over all of them, a step a hop.

Distances ignore the direction of edges. ``FAR`` stands for a node in another component, or farther than asked.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from reign import ragged
from reign.graph import SharedGraph

FAR = torch.iinfo(torch.int16).max


@dataclass(frozen=True, eq=False)
class HopTable:
    """Distances from node u to node i: row ``shift[u] + i`` of a full table, or where the sorted ``key`` is u * n + i."""

    num_nodes: int
    distance: Int[Tensor, "rows"]
    shift: Int[Tensor, "nodes"] | None = None
    key: Int[Tensor, "rows"] | None = None

    def at(self, source: Int[Tensor, "*any"], node: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """Distance from each source to a node of the same graph."""
        if self.shift is not None:
            return self.distance[self.shift[source] + node]
        assert self.key is not None
        position, there = ragged.find(self.key, source * self.num_nodes + node)
        found = self.distance[position] if self.key.numel() else torch.zeros_like(node, dtype=torch.int16)
        return torch.where(there, found, FAR)


def hop_table(graph: SharedGraph, source: Int[Tensor, "sources"], max_hops: int | None = None) -> HopTable:
    """Distances from every source to every node of its graph, ``FAR`` beyond ``max_hops``."""
    home = graph.batch[source]
    size = graph.sizes[home]
    first = size.cumsum(0) - size
    shift = first - graph.ptr[home]
    distance = torch.full((int(size.sum()),), FAR, dtype=torch.int16, device=source.device)
    slot = torch.empty_like(distance, dtype=torch.int32)

    owner, node, hop = torch.arange(source.numel(), device=source.device), source, 0
    distance[shift + node] = 0
    while owner.numel() and (max_hops is None or hop < max_hops):
        hop += 1
        via, node, _ = graph.neighbours.expand(node)
        owner = owner[via]
        row = shift[owner] + node
        fresh = (distance[row] == FAR).nonzero().squeeze(1)
        row = row[fresh]
        distance[row] = hop
        if hop != max_hops:  # several neighbours may reach a node in the same hop: one of them carries the search on
            claim = torch.arange(row.numel(), dtype=torch.int32, device=row.device)
            slot[row] = claim
            fresh = fresh[slot[row] == claim]
            owner, node = owner[fresh], node[fresh]
    return HopTable(graph.num_nodes, distance, shift=torch.zeros_like(graph.batch).index_copy_(0, source, shift))


def near_table(graph: SharedGraph, source: Int[Tensor, "sources"], max_hops: int) -> HopTable:
    """Distances from distinct sources to the nodes within ``max_hops`` alone, in memory proportional to their number."""
    n = graph.num_nodes
    key = source.sort().values * (n + 1)
    distance = torch.zeros_like(key, dtype=torch.int16)
    frontier = key
    for hop in range(1, max_hops + 1):
        via, node, _ = graph.neighbours.expand(frontier % max(n, 1))
        reached = ((frontier // max(n, 1))[via] * n + node).unique()
        frontier = reached[~ragged.find(key, reached)[1]]
        key, order = torch.cat([key, frontier]).sort()
        distance = torch.cat([distance, distance.new_full(frontier.shape, hop)])[order]
    return HopTable(n, distance, key=key)


def stored_table(graph: SharedGraph, hop_distance: Int[Tensor, "rows"]) -> HopTable:
    """The full table with every node as a source, from distances computed earlier (``transforms.AddHopDistance``)."""
    size = graph.sizes[graph.batch]
    return HopTable(graph.num_nodes, hop_distance, shift=size.cumsum(0) - size - graph.ptr[graph.batch])
