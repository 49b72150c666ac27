"""The graph itself as a bag with one subgraph, for plain message passing."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from reign.bags import SharedGraph, SubgraphBag
from reign.policies._base import POLICIES, KeepsAll


@POLICIES.register("whole")
@dataclass(frozen=True)
class Whole(KeepsAll):
    """One subgraph per graph, without anchors: the graph itself."""

    meaning: ClassVar[str] = "the graph itself, once (for plain message passing)"
    example: ClassVar[str] = "whole"

    node_based = False  # there is one subgraph per graph
    num_anchors = 0

    def anchors(self, graph: SharedGraph) -> tuple[Int[Tensor, "subgraphs 0"], Int[Tensor, "subgraphs"]]:
        """No anchors, and one subgraph for each graph."""
        graphs = torch.arange(graph.num_graphs, device=graph.batch.device)
        return graphs.new_empty(graph.num_graphs, 0), graphs


def whole(bag: SubgraphBag) -> SubgraphBag:
    """The graphs of a bag as a bag with one subgraph per graph, the graph itself, for plain message passing."""

    def make() -> SubgraphBag:
        graph = bag.graph
        one = Whole()(graph.x, graph.edge_index, graph.edge_attr, graph.batch, batch_size=graph.num_graphs)
        if bag.has_some_roots:  # the other nodes have no values yet, and must not count in norms
            one._cache["real", "pair"] = torch.zeros_like(graph.batch, dtype=torch.bool).index_fill_(0, bag.root, True)
        return one

    shared = bag.plain.cache("whole", make)
    return shared if bag.edge_weight is None else shared.weighted(bag.edge_weight)
