"""Where nodes lie relative to the roots: hop distances, several shortest paths, resistance distances, and values of adjacency matrices.

Hop distances from many sources are found at once, by a single breadth-first search with one step per hop. They ignore the direction of
edges. ``FAR`` stands for a node in another component, or beyond the largest requested distance.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
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
        distance = self.distance[position] if self.key.numel() else torch.zeros_like(node, dtype=torch.int16)
        return torch.where(there, distance, FAR)


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


# -- paths and resistance -----------------------------------------------------------------------------------------------------

INVERTED = 2**22  # number of entries of the matrices that are inverted at a time


def on_several_paths(bag: "SubgraphBag") -> Bool[Tensor, "pairs"]:
    """See ``SubgraphBag.on_several_paths``."""
    radius = bag.policy.radius
    if bag.domain == "members" and radius is not None:
        table = near_table(bag.graph, bag.root.unique(), radius)
    else:
        table = hop_table(bag.graph, bag.root.unique())
    hops = table.at(bag.root[bag.sub], bag.node)
    via, near, _ = bag.graph.neighbours.expand(bag.node)
    nearer = table.at(bag.root[bag.sub[via]], near) == hops[via] - 1
    number = torch.bincount(via[nearer], minlength=bag.num_pairs)
    return (number >= 2) & (hops != FAR) & bag.member


def resistance(bag: "SubgraphBag") -> Float[Tensor, "pairs"]:
    r"""See ``SubgraphBag.resistance``: :math:`L^+_{kk} + L^+_{ii} - 2 L^+_{ki}` of the Laplacian L of subgraph k.

    Subgraphs of similar size are inverted together. Their matrices are padded with zeros, which do not change the result.
    """
    root_row = bag.wiring.root_row
    rows = bag.member.nonzero().squeeze(1)
    sub = bag.sub[rows]
    size = torch.bincount(sub, minlength=bag.num_subgraphs)
    place = torch.zeros_like(bag.sub)  # the position of a member among the members of its subgraph
    place[rows] = torch.arange(rows.numel(), device=bag.device) - (size.cumsum(0) - size)[sub]
    via, near, _ = bag.graph.neighbours.expand(bag.node[rows])
    other = bag.row_within(sub[via], near)
    inside = (other >= 0) & bag.member[other]
    one, other, owner = place[rows][via[inside]], place[other[inside]], sub[via[inside]]
    out = torch.zeros(bag.num_pairs, dtype=torch.float64, device=bag.device)
    order = size.argsort()
    start = 0
    while start < order.numel():
        width = max(int(size[order[min(start + 1023, order.numel() - 1)]]), 1)
        part = order[start : start + min(1024, max(INVERTED // width**2, 1))]
        start += part.numel()
        width = int(size[part].max())
        slot = torch.full_like(size, -1)
        slot[part] = torch.arange(part.numel(), device=bag.device)
        mine = slot[owner] >= 0
        matrix = out.new_zeros(part.numel(), width, width)
        matrix[slot[owner[mine]], one[mine], other[mine]] = -1
        matrix.diagonal(dim1=1, dim2=2).copy_(-matrix.sum(2))
        inverse = torch.linalg.pinv(matrix, hermitian=True) if width else matrix
        within = slot[sub] >= 0
        k, i = slot[sub[within]], place[rows[within]]
        root = place[root_row[sub[within]]]
        out[rows[within]] = inverse[k, root, root] + inverse[k, i, i] - 2 * inverse[k, root, i]
    return out


# -- values of whole adjacency matrices ---------------------------------------------------------------------------------------

PADDED = 2**24  # largest number of entries of one tensor of matrices; graphs of similar size share one, padded with zeros
Matrices = Float[Tensor, "graphs n n"]


def pair_values(
    bag: "SubgraphBag", channels: int, compute: Callable[[Matrices], Float[Tensor, "graphs n n channels"]], both_ways: bool = False
) -> Float[Tensor, "pairs channels"]:
    """A value for each pair (k, i) of a bag, which depends on the root of subgraph k and on node i in the graph.

    Args:
        bag: the bag; its subgraphs have one root each.
        channels: number of channels of the values.
        compute: function that computes the values of all pairs of nodes from A, where A[u, v] counts the edges from u to v. Its result
            for padding (rows and columns of zeros) is not used.
        both_ways: whether A is that of an undirected simple graph: 1 if two nodes are neighbours, regardless of the direction of the edge.
    """
    source, home = bag.root[bag.sub], bag.pair_batch
    out = torch.zeros(bag.num_pairs, channels, dtype=torch.float64, device=bag.device)
    for slot, matrices in _blocks(bag.graph, channels, both_ways):
        rows = (slot[home] >= 0).nonzero().squeeze(1)
        first = bag.graph.ptr[home[rows]]
        out[rows] = compute(matrices)[slot[home[rows]], source[rows] - first, bag.node[rows] - first]
    return out


def node_values(
    bag: "SubgraphBag | SharedGraph",
    channels: int,
    compute: Callable[[Matrices], Float[Tensor, "graphs n channels"]],
    both_ways: bool = False,
) -> Float[Tensor, "nodes channels"]:
    """A value for each node of a graph, or of a bag's graph; see ``pair_values``."""
    graph = bag if isinstance(bag, SharedGraph) else bag.graph
    out = torch.zeros(graph.num_nodes, channels, dtype=torch.float64, device=graph.batch.device)
    for slot, matrices in _blocks(graph, channels, both_ways):
        nodes = (slot[graph.batch] >= 0).nonzero().squeeze(1)
        home = graph.batch[nodes]
        out[nodes] = compute(matrices)[slot[home], nodes - graph.ptr[home]]
    return out


def _blocks(graph: SharedGraph, channels: int, both_ways: bool) -> Iterator[tuple[Int[Tensor, "all_graphs"], Matrices]]:
    """The adjacency matrices of graphs of similar size, and the position of each graph among them (-1 for all others)."""
    if both_ways:
        start = torch.repeat_interleave(graph.neighbours.ptr.diff())
        end = graph.neighbours.node
    else:
        start, end = graph.edge_index
    home = graph.batch[start]
    order = graph.sizes.argsort()
    sizes = graph.sizes[order].tolist()
    first = 0
    while first < len(sizes):
        last = first + 1
        while last < len(sizes) and (last + 1 - first) * sizes[last] ** 2 * max(channels, 4) <= PADDED:
            last += 1
        slot = torch.full_like(graph.sizes, -1)
        slot[order[first:last]] = torch.arange(last - first, device=slot.device)
        width = sizes[last - 1]
        matrices = torch.zeros(last - first, width, width, dtype=torch.float64, device=slot.device)
        mine = (slot[home] >= 0).nonzero().squeeze(1)
        block, shift = slot[home[mine]], graph.ptr[home[mine]]
        ones = torch.ones(mine.numel(), dtype=torch.float64, device=slot.device)
        matrices.index_put_((block, start[mine] - shift, end[mine] - shift), ones, accumulate=True)
        if width:
            yield slot, matrices
        first = last
