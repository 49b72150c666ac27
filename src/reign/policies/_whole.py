"""The graph itself as a bag of one: what a plain message-passing network sees."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reign.bags import SharedGraph
from reign.policies._base import Pairs, Policy


@dataclass(frozen=True)
class Whole(Policy):
    """One subgraph per graph, tied to nothing: the graph itself."""

    meaning: ClassVar[str] = "the graph itself, once: for plain message passing"
    example: ClassVar[str] = "whole"

    @property
    def node_based(self) -> bool:
        """No: there is one subgraph."""
        return False

    @property
    def num_anchors(self) -> int:
        """None."""
        return 0

    def anchors(self, graph: SharedGraph) -> tuple[Int[Tensor, "subgraphs 0"], Int[Tensor, "subgraphs"]]:
        """Each graph once."""
        graphs = torch.arange(graph.num_graphs, device=graph.batch.device)
        return graphs.new_empty(graph.num_graphs, 0), graphs

    def keep(self, pairs: Pairs) -> Bool[Tensor, "pairs"]:
        """All nodes."""
        return pairs.node >= 0

    def __str__(self) -> str:
        return "whole"
