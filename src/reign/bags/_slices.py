"""A bag along its roots: the other roots stay fixed, so that a bag of tuples is many bags with one subgraph per node.

A subgraph k = (u, v) with two roots is one of n subgraphs (h, v) in which only the first root differs. These are a bag with one subgraph per
node, a *slice*: h is the root of (h, v). There is a slice for each v, and every term for bags with one subgraph per node is defined on it.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Int
from torch import Tensor

from reign.bags._graph import SharedGraph
from reign.bags._memory import check_fits
from reign.kernels import Sum, ragged

if TYPE_CHECKING:
    from reign.bags._bag import SubgraphBag

ALL = "*"  # along all roots


@dataclass(frozen=True, eq=False)
class Slices:
    """All slices of a bag along a root, as one node-based bag in which every slice is a graph of its own.

    Along all roots, each subgraph is in several slices. The subgraphs of sets of distinct nodes do not fill their slices: {u, v} is missing for
    u = v. A missing subgraph has the values zero, and only its root has a row.

    Args:
        bag: the slices.
        pairs: from pairs of the bag to those of its slices; its transpose adds the values of a pair in all of its slices.
        subs: the same for subgraphs.
        edge: the edge of the graph for each edge of the slices.
        complete: whether no subgraph is missing.
    """

    bag: "SubgraphBag"
    pairs: Sum
    subs: Sum
    edge: Int[Tensor, "edges"]
    complete: bool


def check_along(bag: "SubgraphBag", place: str, who: str) -> None:
    """Raise ``ValueError`` unless the subgraphs have this root: the first ("1"), the second ("2"), ..., or any ("*")."""
    roots, policy = bag.anchor.size(1), bag.policy
    if bag.has_some_roots or (policy.random and not bag.node_based):
        raise ValueError(f"{who} needs all subgraphs, but policy '{policy}' with {bag.num_subgraphs} subgraphs leaves some out.")
    if roots == 0 or (place != ALL and int(place) > roots):
        raise ValueError(
            f"{who} needs subgraphs with {'a root' if place == ALL else f'{place} roots'}, but those of policy '{policy}' have {roots}; "
            f"use {'2-nm' if place == ALL else f'{place}-nm'!r} or another policy of tuples."
        )
    if place != ALL and policy.unordered:
        raise ValueError(
            f"{who} needs roots in an order, but those of policy '{policy}' have none; use ':*', the sum over all roots."
        )


def slices(bag: "SubgraphBag", place: str) -> Slices:
    """The slices of a bag along a root."""
    graph, roots, subs = bag.graph, bag.anchor.size(1), bag.num_subgraphs
    chosen = range(roots) if place == ALL else [int(place) - 1]
    numbers = torch.arange(subs, device=bag.device)
    sub, root = numbers.repeat(len(chosen)), torch.cat([bag.anchor[:, r] for r in chosen])
    key = []
    for r in chosen:  # the graph of each slice, and its fixed roots; with an order, also which root is not fixed
        name = bag.sub_batch + (0 if bag.policy.unordered else r * bag.num_graphs)
        for other in bag.anchor.t()[[q for q in range(roots) if q != r]]:
            name = name * graph.num_nodes + other
        key.append(name)
    copies, copy = torch.cat(key).unique(return_inverse=True)
    of_copy = torch.zeros_like(copies).index_copy_(0, copy, bag.sub_batch[sub])

    # the graph of each slice
    size, first = graph.sizes[of_copy], graph.ptr[of_copy]
    ptr = ragged.offsets(size)
    nodes = int(ptr[-1])
    of_edge = graph.batch[graph.edge_index[0]]
    count = torch.bincount(of_edge, minlength=graph.num_graphs)
    via, edge = ragged.ranges(ragged.offsets(count)[:-1][of_copy], count[of_copy])
    edge = torch.argsort(of_edge, stable=True)[edge]
    shift = ptr[:-1] - first
    batch = torch.repeat_interleave(size)
    shared = SharedGraph(graph.x.new_empty(nodes, 0), graph.edge_index[:, edge] + shift[via], None, batch, ptr)

    # its subgraphs: that of each node, or one with a single row if it is missing
    at = root + shift[copy]
    complete = at.numel() == nodes
    rows = bag.row_ptr.diff()
    row_ptr = ragged.offsets(torch.ones_like(batch).index_copy_(0, at, rows[sub]))
    total = int(row_ptr[-1])
    check_fits(total, bag.device, f"a term along roots, with policy '{bag.policy}',", "Use smaller batches or graphs.")
    entry, source = ragged.ranges(bag.row_ptr[:-1][sub], rows[sub])
    target = source + (row_ptr[:-1][at] - bag.row_ptr[:-1][sub])[entry]
    owner = torch.repeat_interleave(row_ptr.diff())
    node = owner.index_copy(0, target, bag.node[source] + shift[copy][entry])
    member = torch.ones_like(owner, dtype=torch.bool).index_copy_(0, target, bag.member[source])
    cut = None
    if bag.cut is not None:
        ends = [bag.cut + torch.stack([part[bag.cut[:, 0]] for part in parts], dim=1) for parts in _moves(at, shift[copy], numbers)]
        cut = torch.cat(ends)
    made = replace(
        bag,
        graph=shared,
        domain=bag.domain if complete else "members",
        node_based=True,
        anchor=torch.arange(nodes, device=bag.device)[:, None],
        sub_batch=batch,
        row_ptr=row_ptr,
        sub=owner,
        node=node,
        member=member,
        mark=None,
        cut=cut,
        targets=None,
    )
    if not complete:  # rows of missing subgraphs do not count in means
        made._cache["real", "pair"] = torch.zeros_like(member).index_fill_(0, target, True)
    into_pairs = Sum.build(source, target, bag.num_pairs, total, ("pair", "pair along roots"))
    return Slices(made, into_pairs, Sum.build(sub, at, subs, nodes, ("sub", "sub along roots")), edge, complete)


def _moves(at: Tensor, shift: Tensor, numbers: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each root: how far the number of each subgraph moves, and those of its nodes."""
    size = max(numbers.numel(), 1)
    return [(a - numbers, s, s) for a, s in zip(at.split(size), shift.split(size), strict=True)]
