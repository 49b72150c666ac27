"""Node-based policies: one subgraph per node, which is its root. The null policy and the class Pi of the paper (Definition 1).

The rules are written for any number of anchors, so that ``Tuples`` can also use them.
"""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Bool
from torch import Tensor

from reign.bags import FAR
from reign.policies._base import POLICIES, KeepsAll, Mark, Pairs, Policy, check_mark


@POLICIES.register("null")
@dataclass(frozen=True)
class Null(KeepsAll):
    """Every subgraph is the graph itself: n copies, which differ only in their roots."""

    meaning: ClassVar[str] = "the graph itself, once per node"
    example: ClassVar[str] = "null"
    in_paper_class: ClassVar[bool] = True


@POLICIES.register("nd")
@dataclass(frozen=True)
class NodeDeletion(Policy):
    """ND: the root loses its edges. With ``domain="all"`` its row and features are kept; with ``domain="members"`` it has no row."""

    meaning: ClassVar[str] = "the root loses its edges"
    example: ClassVar[str] = "nd"
    in_paper_class: ClassVar[bool] = True

    def keep(self, pairs: Pairs) -> Bool[Tensor, "pairs"]:
        """Every subgraph keeps all nodes except its root."""
        return ~pairs.is_anchor.any(dim=1)


@POLICIES.register("nm")
@dataclass(frozen=True)
class NodeMarking(KeepsAll):
    """NM: the whole graph with a mark on the root, or with every node's hop distance from it.

    Args:
        mark: True for the root, "single" for the root in one channel (True has a second one for all other nodes), "distance" for the
            one-hot hop distance of every node.
        max_distance: hop distances of at least this number share a channel.
    """

    meaning: ClassVar[str] = "a mark on the root"
    example: ClassVar[str] = "nm"
    variants: ClassVar[dict[str, str]] = {"nm+distance": "the hop distance from the root as marks"}
    in_paper_class: ClassVar[bool] = True

    mark: Mark = True
    max_distance: int = 5

    def __post_init__(self) -> None:
        check_mark(self.mark, self.max_distance)
        if self.mark is False:
            raise ValueError("mark is False, expected True, 'single' or 'distance'; node marking without marks is Null(), 'null'.")


@POLICIES.register("ego")
@dataclass(frozen=True)
class EgoNets(Policy):
    """EGO(h) and EGO+(h): the subgraph induced by the nodes within h hops of the root. EGO+ also marks the root.

    Args:
        num_hops: the depth h.
        mark: True for the root, "single" for the root in one channel, "distance" for the one-hot hop distance of every node, False for none.
    """

    meaning: ClassVar[str] = "the nodes within 3 hops of the root"
    example: ClassVar[str] = "ego:3"
    variants: ClassVar[dict[str, str]] = {
        "ego+:3": "the same, with a mark on the root",
        "ego+distance:3": "the same, with the hop distance from the root as marks",
    }
    in_paper_class: ClassVar[bool] = True

    num_hops: int
    mark: Mark = False

    def __post_init__(self) -> None:
        if type(self.num_hops) is not int or not 1 <= self.num_hops < FAR:
            raise ValueError(
                f"num_hops is {self.num_hops!r}, expected a whole number of at least 1 and below {FAR}, as in 'ego:3' or "
                "EgoNets(num_hops=3); for the whole graph in every subgraph use 'null' or 'nm'."
            )
        check_mark(self.mark, self.max_distance)

    @property
    def radius(self) -> int:
        """The depth of the ego nets."""
        return self.num_hops

    @property
    def max_distance(self) -> int:  # type: ignore[override]
        """The depth, which is the largest distance within an ego net."""
        return self.num_hops

    def keep(self, pairs: Pairs) -> Bool[Tensor, "pairs"]:
        """Every subgraph keeps the nodes within ``num_hops`` of its root."""
        return (pairs.hops(self.num_hops) <= self.num_hops).any(dim=1)
