"""Triples (k, i, j): the pair (k, i) that a local term updates, and the neighbours j over which it sums."""

from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from reign.bags._wiring import Wiring

Where = Literal["off", "on"]  # update all pairs (roots are overwritten later), or only the roots
Neighbours = Literal["Ak", "A", "nodes", "agg", "swap"]
Sources = Literal["all", "roots", "others"]  # who sends messages: all pairs, the roots alone, or all but the roots


class Triples(NamedTuple):
    """Subgraph k, node i, neighbour j, the row ``target`` (out of ``size``) that the value is added to, and the edge."""

    k: Tensor
    i: Tensor
    j: Tensor
    target: Tensor
    edge: Tensor
    size: int


def find_triples(wiring: "Wiring", neighbours: Neighbours, where: Where) -> Triples:
    """See ``Wiring.triples``."""
    bag = wiring.bag
    graph = bag.graph
    if neighbours == "nodes":
        source, target = graph.edge_index
        return Triples(target, target, source, target, torch.arange(source.numel(), device=bag.device), bag.num_nodes)
    if neighbours == "agg":
        inside = wiring.triples("Ak")
        return inside._replace(target=inside.i, size=bag.num_nodes)
    if where == "on":
        k, rows = torch.arange(bag.num_subgraphs, device=bag.device), wiring.root_row
    else:
        k, rows = bag.sub, torch.arange(bag.num_pairs, device=bag.device)
    if neighbours == "Ak":
        source, target, edge = bag.pair_edges
        if where == "on":
            keep = (target == wiring.root_row[bag.sub[target]]).nonzero().squeeze(1)
            source, target, edge = source[keep], target[keep], edge[keep]
        k, i, j = bag.sub[target], bag.node[target], bag.node[source]
        return Triples(k, i, j, k if where == "on" else target, edge, rows.numel())
    i = bag.node[rows]
    via, j, edge = graph.in_edges.expand(k if neighbours == "swap" else i)
    return Triples(k[via], i[via], j, via, edge, rows.numel())
