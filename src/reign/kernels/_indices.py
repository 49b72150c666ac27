"""The index maps that fused kernels read: 32 bits, and grouped in every way in which they are needed.

``spaces`` says of each field what its rows belong to, what its values point into, and whether these are bounds, so that the maps
of a batch can be put together from those of its graphs.
"""

from dataclasses import dataclass

from torch import Tensor

Spaces = dict[str, tuple[str, str | None, bool]]


@dataclass(frozen=True, eq=False)
class Segments:
    """Rows that are summed into one: ``index[ptr[s]:ptr[s + 1]]``, or just the rows ``ptr[s]:ptr[s + 1]``."""

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
        root: the pair of each root; None where roots have none.
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

    @property
    def to_sub(self) -> Segments:
        """The pairs of each subgraph."""
        return Segments(self.sub_ptr)

    @property
    def to_node(self) -> Segments:
        """The pairs of each node."""
        return Segments(self.node_ptr, self.node_index)


INNER, OUTER, ROOT, KEPT = 1, 2, 4, 8  # a pair counts for norms inside of slots, and after them; is a root; is not set to zero


@dataclass(frozen=True, eq=False)
class Edges:
    """Messages, grouped in three ways.

    Args:
        ptr, source, edge: by target: the rows messages come from, and the edges they go along.
        ptr_t, target, edge_t: by source: the rows they go to.
        ptr_e, source_e, target_e: by edge.
        sources, targets: what these rows belong to ("pair", "node", ...).
        kind: the type of each edge, if the table of edge features has a row for each type; otherwise it has one for each edge.
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
    """Pairs that are wanted by themselves (``rows``), and for each pair the places at which it was picked."""

    rows: Tensor
    ptr: Tensor
    index: Tensor
    own: str

    def spaces(self, name: str) -> Spaces:
        """What the fields belong to and point into."""
        return {"rows": (self.own, "pair", False), "ptr": ("pair", f"{name}>", True), "index": (f"{name}>", self.own, False)}
