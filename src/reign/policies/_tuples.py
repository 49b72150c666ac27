"""k-tuple policies: one subgraph per tuple of k nodes, or per set of k distinct nodes (the paper's appendix on higher-order node policies)."""

from dataclasses import dataclass
from math import comb, factorial
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from reign.bags import SharedGraph, check_fits
from reign.kernels import ragged
from reign.policies._base import POLICIES, Policy, Wrapper

MOST = 9  # largest number of nodes of a tuple, so that the place of each is a digit


@POLICIES.register("2-")
@dataclass(frozen=True)
class Tuples(Wrapper):
    """A node-based policy extended to all n^k ordered k-tuples of nodes, or to all sets of k distinct nodes, in lexicographic order.

    Node deletion deletes all nodes of the tuple; with sets this is (n - k)-reconstruction. Ego nets keep the union of the balls. A bag of
    tuples has n^(k + 1) pairs. The nodes of a tuple are its roots: there is a mark for each of them, as in [is u, is v, is neither]. For the
    tuple (v, v), v is deleted once, the ego net is a single ball, and v has the mark [1, 1, 0]. The nodes of a set have one mark.

    Args:
        policy: the node-based policy: ``Null()``, ``NodeDeletion()``, ``NodeMarking()`` or ``EgoNets(...)``.
        size: the number k of nodes; one subgraph per node is the node-based policy itself.
        ordered: whether there is a subgraph for each ordered tuple, such as (u, v), (v, u) and (v, v), or one for each set {u, v}.
    """

    meaning: ClassVar[str] = "two nodes lose their edges, once per ordered pair of nodes"
    example: ClassVar[str] = "2-nd"
    variants: ClassVar[dict[str, str]] = {
        "2-nm": "a mark on each of two nodes",
        "2-ego:2": "the nodes within 2 hops of either of two nodes",
        "2-set-nd": "two nodes lose their edges, once per set of two nodes",
        "3-nm": "a mark on each of three nodes",
    }

    policy: Policy
    size: int = 2
    ordered: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.policy.node_based or isinstance(self.policy, Wrapper):
            raise ValueError(f"Tuples needs a node-based policy, got '{self.policy}'; use 'nd', 'nm', 'ego:h' or 'ego+:h'.")
        if type(self.size) is not int or not 2 <= self.size <= MOST:
            raise ValueError(
                f"size is {self.size!r}, expected 2 to {MOST} nodes for each subgraph; with one node it is '{self.policy}' itself."
            )

    @property
    def node_based(self) -> bool:
        """False: there are more tuples than nodes."""
        return False

    @property
    def num_anchors(self) -> int:
        """The number of nodes of a tuple."""
        return self.size

    @property
    def unordered(self) -> bool:
        """Whether the nodes form a set."""
        return not self.ordered

    def anchors(self, graph: SharedGraph) -> tuple[Int[Tensor, "subgraphs anchors"], Int[Tensor, "subgraphs"]]:
        """Every tuple, or every set in ascending order."""
        pairs, k = sum(self._count(n) * n for n in graph.sizes.tolist()), self.size
        way_out = f"Use smaller batches or graphs: {k} of n nodes make about n^{k + 1}{'' if self.ordered else f' / {factorial(k)}'} pairs."
        check_fits(pairs, graph.batch.device, f"policy '{self}' on {graph.num_nodes:,} nodes", way_out)
        anchor, batch = super(Wrapper, self).anchors(graph)
        for _ in range(k - 1):
            first = graph.ptr[batch] if self.ordered else anchor[:, -1] + 1
            row, last = ragged.ranges(first, graph.ptr[batch + 1] - first)
            anchor, batch = torch.cat([anchor[row], last[:, None]], dim=1), batch[row]
        return anchor, batch

    def num_subgraphs(self, graph: SharedGraph) -> Int[Tensor, "graphs"]:
        """One for each tuple or set. Numbers that no memory holds are capped, so that they can be added."""
        return graph.sizes.new_tensor([min(self._count(n), 2**50 // max(n, 1)) for n in graph.sizes.tolist()])

    def _count(self, nodes: int) -> int:
        return nodes**self.size if self.ordered else comb(nodes, self.size)

    def __str__(self) -> str:
        return f"{self.size}-{'' if self.ordered else 'set-'}{self.policy}"
