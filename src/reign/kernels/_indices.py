"""The index maps of the fused kernels: 32-bit indices, grouped in every way that the kernels need.

``spaces`` returns for each field the space of its rows, the space that its values point into, and whether they are bounds, so that the
maps of a batch can be assembled from those of its graphs.
"""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

Spaces = dict[str, tuple[str, str | None, bool]]


@dataclass(frozen=True, eq=False)
class Segments:
    """The rows that are summed into each segment s: ``index[ptr[s]:ptr[s + 1]]``, or without an index the rows ``ptr[s]:ptr[s + 1]``."""

    ptr: Tensor
    index: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of a bag.

    Args:
        sub, node: the subgraph and the node of each pair.
        flags: the bits of each pair (``INNER``, ``OUTER``, ``ROOT``, ``KEPT``).
        sub_ptr: the first pair of each subgraph.
        node_ptr, node_index: the pairs of each node.
        root: the pair of each root; None if roots have no pairs.
    """

    sub: Tensor
    node: Tensor
    flags: Tensor
    sub_ptr: Tensor
    node_ptr: Tensor
    node_index: Tensor
    root: Tensor | None

    def spaces(self, name: str) -> Spaces:
        """What the fields belong to and point into."""
        return {
            "sub": ("pair", "sub", False),
            "node": ("pair", "node", False),
            "flags": ("pair", None, False),
            "sub_ptr": ("sub", "pair", True),
            "node_ptr": ("node", f"{name}>", True),
            "node_index": (f"{name}>", "pair", False),
            "root": ("sub", "pair", False),
        }

    @property
    def number(self) -> int:
        """The number of pairs."""
        return self.sub.numel()

    @cached_property
    def to_sub(self) -> Segments:
        """The pairs of each subgraph."""
        return Segments(self.sub_ptr)

    @cached_property
    def to_node(self) -> Segments:
        """The pairs of each node."""
        return Segments(self.node_ptr, self.node_index)


INNER, OUTER, ROOT, KEPT = (
    1,
    2,
    4,
    8,
)  # a pair counts for norms inside slots; counts for norms after slots; is a root; is not set to zero


@dataclass(frozen=True, eq=False)
class Edges:
    """Messages, grouped in three ways.

    Args:
        ptr, source, edge: grouped by target: the source rows of messages, and their edges.
        ptr_t, target, edge_t: grouped by source: the target rows, and the edges.
        ptr_e, source_e, target_e: grouped by edge.
        sources, targets: the spaces of these rows ("pair", "node", ...).
        kind: the type of each edge if the table of edge features has one row per type; None if it has one row per edge.
    """

    ptr: Tensor
    source: Tensor
    edge: Tensor
    ptr_t: Tensor
    target: Tensor
    edge_t: Tensor
    ptr_e: Tensor
    source_e: Tensor
    target_e: Tensor
    sources: str = ""
    targets: str = ""
    kind: Tensor | None = None

    def spaces(self, name: str) -> Spaces:
        """What the fields belong to and point into."""
        return {
            "ptr": (self.targets, f"{name}>", True),
            "source": (f"{name}>", self.sources, False),
            "edge": (f"{name}>", "edge", False),
            "ptr_t": (self.sources, f"{name}<", True),
            "target": (f"{name}<", self.targets, False),
            "edge_t": (f"{name}<", "edge", False),
            "ptr_e": ("edge", f"{name}-", True),
            "source_e": (f"{name}-", self.sources, False),
            "target_e": (f"{name}-", self.targets, False),
        }


@dataclass(frozen=True, eq=False)
class Picks:
    """Selected pairs (``rows``), and for each pair the positions at which it was selected."""

    rows: Tensor
    ptr: Tensor
    index: Tensor
    own: str

    def spaces(self, name: str) -> Spaces:
        """What the fields belong to and point into."""
        return {"rows": (self.own, "pair", False), "ptr": ("pair", f"{name}>", True), "index": (f"{name}>", self.own, False)}
