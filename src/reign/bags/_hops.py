"""Hop distances from many sources at once, by a single breadth-first search with one step per hop.

Distances ignore the direction of edges. ``FAR`` stands for a node in another component, or beyond the largest requested distance.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from jaxtyping import Int
from torch import Tensor

from reign.bags._graph import SharedGraph
from reign.kernels import ragged

if TYPE_CHECKING:
    from reign.bags._bag import SubgraphBag

FAR = torch.iinfo(torch.int16).max
CHUNK = 2**24  # number of neighbours processed at a time


@dataclass(frozen=True, eq=False)
class HopTable:
    """Distances from node u to node i: row ``shift[u] + i`` of a full table, or the row at which the sorted ``key`` is u * n + i."""

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
    unseen = size - 1  # number of nodes that each source has not reached
    while owner.numel() and (max_hops is None or hop < max_hops):
        hop += 1
        if hop == FAR:
            raise ValueError(
                f"the graph has a shortest path of at least {FAR} hops, expected fewer; use a policy with a depth (ego nets), or split the graph."
            )
        reached = []
        for part in _chunks(graph, node):
            via, near, _ = graph.neighbours.expand(node[part])
            at = owner[part][via]
            row = shift[at] + near
            fresh = (distance[row] == FAR).nonzero().squeeze(1)
            row = row[fresh]
            distance[row] = hop
            if hop != max_hops:  # several neighbours may reach a node in the same hop; only one of them continues the search
                claim = torch.arange(row.numel(), dtype=torch.int32, device=row.device)
                slot[row] = claim
                fresh = fresh[slot[row] == claim]
                reached.append((at[fresh], near[fresh]))
        owner, node = (torch.cat(parts) for parts in zip(*reached, strict=True)) if reached else (owner[:0], node[:0])
        unseen -= torch.bincount(owner, minlength=unseen.numel())
        searching = unseen[owner] > 0  # in a dense graph, all other neighbours were seen before
        owner, node = owner[searching], node[searching]
    return HopTable(graph.num_nodes, distance, shift=torch.zeros_like(graph.batch).index_copy_(0, source, shift))


def near_table(graph: SharedGraph, source: Int[Tensor, "sources"], max_hops: int) -> HopTable:
    """Distances from distinct sources to the nodes within ``max_hops``. The memory is proportional to the number of these nodes."""
    n = graph.num_nodes
    before, frontier = source[:0], source.sort().values * (n + 1)
    unseen = graph.sizes[graph.batch] - 1  # number of nodes that each source has not reached
    rings = [frontier]
    for _ in range(max_hops):
        if not frontier.numel():
            break
        reached = [
            ((frontier[part] // n)[via] * n + node).unique()
            for part in _chunks(graph, frontier % n)
            for via, node, _ in [graph.neighbours.expand(frontier[part] % n)]
        ]
        key = torch.cat(reached).unique()
        # distances of neighbours differ by at most one, so only the last two rings can have been reached before
        known = ragged.find(frontier, key)[1] | ragged.find(before, key)[1]
        before, frontier = frontier, key[~known]
        rings.append(frontier)
        unseen -= torch.bincount(frontier // n, minlength=n)
        frontier = frontier[unseen[frontier // n] > 0]  # in a dense graph, all other neighbours were seen before
    distance = torch.repeat_interleave(torch.tensor([ring.numel() for ring in rings], device=source.device)).to(torch.int16)
    key, order = torch.cat(rings).sort()
    return HopTable(n, distance[order], key=key)


def _chunks(graph: SharedGraph, node: Tensor) -> list[slice]:
    """Split the nodes of a frontier into parts with a bounded number of neighbours, so that dense graphs need little extra memory."""
    degree = graph.neighbours.ptr[node + 1] - graph.neighbours.ptr[node]
    total = degree.cumsum(0)
    if not node.numel() or int(total[-1]) <= CHUNK:
        return [slice(0, node.numel())]
    levels = torch.arange(CHUNK, int(total[-1]) + CHUNK, CHUNK, device=node.device)
    ends = torch.searchsorted(total, levels, right=True).clamp(max=node.numel()).unique().tolist()
    return [slice(a, b) for a, b in pairwise([0, *ends, node.numel()]) if a < b]


def stored_table(graph: SharedGraph, hop_distance: Int[Tensor, "rows"]) -> HopTable:
    """The full table with every node as a source, from stored distances (``transforms.AddHopDistance``)."""
    size = graph.sizes[graph.batch]
    return HopTable(graph.num_nodes, hop_distance, shift=size.cumsum(0) - size - graph.ptr[graph.batch])


def root_hops(bag: "SubgraphBag", max_distance: int) -> Int[Tensor, "pairs"]:
    """See ``SubgraphBag.hops``."""
    radius = bag.policy.radius
    near = bag.domain == "members" and radius is not None and radius <= max_distance
    table = near_table(bag.graph, bag.root.unique(), max_distance) if near else hop_table(bag.graph, bag.root)
    hops = table.at(bag.root[bag.sub], bag.node)
    return hops.long().clamp(max=max_distance).masked_fill((hops == FAR) | ~bag.member, max_distance + 1)
