"""The position of a node in a subgraph beyond its hop distance: whether several shortest paths lead to it, and its resistance distance."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from reign.bags._hops import FAR, hop_table, near_table

if TYPE_CHECKING:
    from reign.bags._bag import SubgraphBag

ENTRIES = 2**22  # number of entries of the matrices that are inverted at a time


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
        part = order[start : start + min(1024, max(ENTRIES // width**2, 1))]
        start += part.numel()
        width = int(size[part].max())
        slot = torch.full_like(size, -1)
        slot[part] = torch.arange(part.numel(), device=bag.device)
        mine = slot[owner] >= 0
        matrix = out.new_zeros(part.numel(), width, width)
        matrix[slot[owner[mine]], one[mine], other[mine]] = -1
        matrix.diagonal(dim1=1, dim2=2).copy_(-matrix.sum(2))
        inverse = torch.linalg.pinv(matrix, hermitian=True) if width else matrix
        here = slot[sub] >= 0
        k, i = slot[sub[here]], place[rows[here]]
        root = place[root_row[sub[here]]]
        out[rows[here]] = inverse[k, root, root] + inverse[k, i, i] - 2 * inverse[k, root, i]
    return out
