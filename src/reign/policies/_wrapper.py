"""Policies that modify other policies."""

from jaxtyping import Bool, Int
from torch import Tensor

from reign.bags import SharedGraph
from reign.policies._base import Policy
from reign.policies._marks import Mark
from reign.policies._pairs import Pairs


class Wrapper(Policy):
    """A policy that modifies another one: ``policy`` determines what subgraphs keep, the wrapper determines which subgraphs there are."""

    policy: Policy

    @property
    def mark(self) -> Mark:  # type: ignore[override]
        """As in ``policy``."""
        return self.policy.mark

    @property
    def max_distance(self) -> int:  # type: ignore[override]
        """As in ``policy``."""
        return self.policy.max_distance

    @property
    def num_anchors(self) -> int:
        """As in ``policy``."""
        return self.policy.num_anchors

    @property
    def unordered(self) -> bool:
        """As in ``policy``."""
        return self.policy.unordered

    @property
    def radius(self) -> int | None:
        """As in ``policy``."""
        return self.policy.radius

    def keep(self, pairs: Pairs) -> Bool[Tensor, "pairs"]:
        """As in ``policy``."""
        return self.policy.keep(pairs)

    def cut(self, graph: SharedGraph, anchor: Tensor) -> Int[Tensor, "cuts 3"] | None:
        """As in ``policy``."""
        return self.policy.cut(graph, anchor)
