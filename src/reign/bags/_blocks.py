"""Values that are computed from whole adjacency matrices. Graphs of similar size share one tensor, padded with zeros."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reign.bags._graph import SharedGraph

if TYPE_CHECKING:
    from reign.bags._bag import SubgraphBag

ENTRIES = 2**24  # largest number of entries of one tensor
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
    bag: "SubgraphBag", channels: int, compute: Callable[[Matrices], Float[Tensor, "graphs n channels"]], both_ways: bool = False
) -> Float[Tensor, "nodes channels"]:
    """A value for each node of a bag's graph; see ``pair_values``."""
    graph = bag.graph
    out = torch.zeros(graph.num_nodes, channels, dtype=torch.float64, device=bag.device)
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
        while last < len(sizes) and (last + 1 - first) * sizes[last] ** 2 * max(channels, 4) <= ENTRIES:
            last += 1
        slot = torch.full_like(graph.sizes, -1)
        slot[order[first:last]] = torch.arange(last - first, device=slot.device)
        width = sizes[last - 1]
        matrices = torch.zeros(last - first, width, width, dtype=torch.float64, device=slot.device)
        mine = (slot[home] >= 0).nonzero().squeeze(1)
        here, shift = slot[home[mine]], graph.ptr[home[mine]]
        ones = torch.ones(mine.numel(), dtype=torch.float64, device=slot.device)
        matrices.index_put_((here, start[mine] - shift, end[mine] - shift), ones, accumulate=True)
        if width:
            yield slot, matrices
        first = last
