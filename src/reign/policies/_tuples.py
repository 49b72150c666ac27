"""2-tuple policies: one subgraph per ordered pair of nodes (the paper's appendix on higher-order node policies)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from reign.bags import SharedGraph, check_fits
from reign.kernels import ragged
from reign.policies._base import POLICIES, Policy, Wrapper


@POLICIES.register("2-")
@dataclass(frozen=True)
class Tuples(Wrapper):
    """A node-based policy extended to all n^2 ordered pairs of nodes (u, v), in lexicographic order. The bag has n^3 pairs.

    Node deletion deletes u and v. Ego nets keep the union of the two balls. There is a mark for each position, in the channels
    [is u, is v, is neither]. For the tuple (v, v), v is deleted once, the ego net is a single ball, and v has the mark [1, 1, 0].

    Args:
        policy: the node-based policy: ``Null()``, ``NodeDeletion()``, ``NodeMarking()`` or ``EgoNets(...)``.
    """

    meaning: ClassVar[str] = "two nodes lose their edges, once per ordered pair of nodes"
    example: ClassVar[str] = "2-nd"
    variants: ClassVar[dict[str, str]] = {
        "2-nm": "a mark on each of two nodes",
        "2-ego:2": "the nodes within 2 hops of either of two nodes",
    }

    policy: Policy

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.policy.node_based or isinstance(self.policy, Wrapper):
            raise ValueError(f"Tuples needs a node-based policy, got '{self.policy}'; use 'nd', 'nm', 'ego:h' or 'ego+:h'.")

    @property
    def node_based(self) -> bool:
        """False: there are more tuples than nodes."""
        return False

    @property
    def num_anchors(self) -> int:
        """Two: the nodes of the tuple."""
        return 2

    def anchors(self, graph: SharedGraph) -> tuple[Int[Tensor, "subgraphs 2"], Int[Tensor, "subgraphs"]]:
        """Every ordered pair of nodes."""
        way_out = "Use smaller batches or graphs: tuples of n nodes have n^3 pairs."
        check_fits(int((graph.sizes**3).sum()), graph.batch.device, f"policy '{self}' on {graph.num_nodes:,} nodes", way_out)
        first, second = ragged.ranges(graph.ptr[graph.batch], graph.sizes[graph.batch])
        return torch.stack([first, second], dim=1), graph.batch[first]

    def num_subgraphs(self, graph: SharedGraph) -> Int[Tensor, "graphs"]:
        """One for each ordered pair of nodes."""
        return graph.sizes**2

    def __str__(self) -> str:
        return f"2-{self.policy}"
