"""The edges of all subgraphs: the edges of the shared graph between two members, without those that were cut."""

from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from reign.kernels import ragged

if TYPE_CHECKING:
    from reign.bags._bag import SubgraphBag


class PairEdges(NamedTuple):
    """The edges of all subgraphs, as pairs of rows: a message goes from ``source`` to ``target`` along ``edge``."""

    source: Int[Tensor, "pair_edges"]
    target: Int[Tensor, "pair_edges"]
    edge: Int[Tensor, "pair_edges"]


def pair_edges(bag: "SubgraphBag") -> PairEdges:
    """See ``SubgraphBag.pair_edges``."""
    target = bag.member.nonzero().squeeze(1)
    via, source_node, edge = bag.graph.in_edges.expand(bag.node[target])
    target = target[via]
    source = bag.row_within(bag.sub[target], source_node)
    keep = (source >= 0) & bag.member[source]
    if bag.cut is not None:
        n = bag.num_nodes
        ends = torch.stack([bag.node[target], source_node])
        key = (bag.sub[target] * n + ends.amin(0)) * n + ends.amax(0)
        gone = (bag.cut[:, 0] * n + bag.cut[:, 1:].amin(1)) * n + bag.cut[:, 1:].amax(1)
        keep &= ~ragged.find(gone.sort().values, key)[1]
    return PairEdges(source[keep], target[keep], edge[keep])
