"""What kernels compute with: index maps of a bag, and the stages of a layer, which are the same for all kernels.

Index maps have 32 bits, and are grouped in every way that the kernels need. Their ``spaces`` return for each field the space of its rows, the
space that its values point into, and whether they are bounds, so that the maps of a batch can be assembled from those of its graphs.
A stage has linear maps or MLPs with their norms, messages, and rows that count.
"""

from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor

Spaces = dict[str, tuple[str, str | None, bool]]
INNER, OUTER, ROOT, KEPT = 1, 2, 4, 8
"""The bits of a pair: it counts for norms inside slots; counts for norms after slots; is a root; is not set to zero."""


@dataclass(frozen=True, eq=False)
class Segments:
    """The rows that are summed into each segment s: ``index[ptr[s]:ptr[s + 1]]``, or without an index the rows ``ptr[s]:ptr[s + 1]``."""

    ptr: Tensor
    index: Tensor | None = None


@dataclass(frozen=True, eq=False)
class PairIndex:
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


@dataclass(frozen=True, eq=False)
class Edges:
    """Messages, grouped in three ways.

    Args:
        ptr, source, edge: grouped by target: the source rows of messages, and their edges.
        ptr_t, target, edge_t: grouped by source: the target rows, and the edges.
        ptr_e, source_e, target_e: grouped by edge.
        sources, targets: the spaces of these rows ("pair", "node", ...).
        kind: the type of each edge if the table of edge features has one row per type; None if it has one row per edge.
        over: the space of edges. In products of matrices, each summand is such a message, and its edge is the pair of the second factor.
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
    over: str = "edge"

    def spaces(self, name: str) -> Spaces:
        """What the fields belong to and point into."""
        return {
            "ptr": (self.targets, f"{name}>", True),
            "source": (f"{name}>", self.sources, False),
            "edge": (f"{name}>", self.over, False),
            "ptr_t": (self.sources, f"{name}<", True),
            "target": (f"{name}<", self.targets, False),
            "edge_t": (f"{name}<", self.over, False),
            "ptr_e": (self.over, f"{name}-", True),
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


@dataclass(frozen=True, eq=False)
class Norms:
    """The batch norms of some slots; ``None`` where a slot has none."""

    scale: list[Tensor | None]
    shift: list[Tensor | None]
    mean: list[Tensor | None]
    var: list[Tensor | None]
    momentum: float = 0.1
    eps: float = 1e-5

    @property
    def mask(self) -> int:
        """A bit for each slot that has a norm."""
        return sum(1 << t for t, scale in enumerate(self.scale) if scale is not None)


def _joined(first: Norms | None, slots: int, second: Norms | None, more: int) -> Norms | None:
    """The norms of some slots and of more, some of which may have none."""
    some = first or second
    if some is None:
        return None

    def both(name: str) -> list[Tensor | None]:
        a = [None] * slots if first is None else getattr(first, name)
        b = [None] * more if second is None else getattr(second, name)
        return [*a, *b]

    return Norms(both("scale"), both("shift"), both("mean"), both("var"), some.momentum, some.eps)


@dataclass(frozen=True, eq=False)
class Stack:
    """Linear maps (``w2`` empty), or MLPs: linear, norm, ReLU, linear. The norms ``outer`` come after the last map.

    Args:
        w1, b1: weights and biases of the first maps, a tensor each slot.
        inner: norms after the first map of MLPs.
        w2, b2: weights and biases of the second maps.
        outer: norms after the last map.
    """

    w1: list[Tensor]
    b1: list[Tensor]
    inner: Norms | None = None
    w2: list[Tensor] = field(default_factory=list)
    b2: list[Tensor] = field(default_factory=list)
    outer: Norms | None = None

    @property
    def slots(self) -> int:
        """Number of slots."""
        return len(self.w1)

    @property
    def out_channels(self) -> int:
        """Channels of the results."""
        return (self.w2 or self.w1)[0].size(0)

    def parameters(self) -> list[Tensor]:
        """All weights, in the order in which ``backward`` gives their gradients."""
        norms = [n for norms in (self.inner, self.outer) if norms is not None for n in (*norms.scale, *norms.shift)]
        return [*self.w1, *self.b1, *self.w2, *self.b2, *(n for n in norms if n is not None)]

    def fits(self, other: "Stack") -> bool:
        """Whether the slots of both can be evaluated together: maps of the same shapes, norms in the same places with the same settings."""
        settings = {(n.momentum, n.eps) for n in (self.inner, other.inner, self.outer, other.outer) if n is not None}
        return (
            self.w1[0].shape == other.w1[0].shape
            and [w.shape for w in self.w2[:1]] == [w.shape for w in other.w2[:1]]
            and (self.inner is None) == (other.inner is None)
            and len(settings) <= 1
        )

    def with_(self, other: "Stack") -> "Stack":
        """The slots of both, one after the other."""
        return Stack(
            self.w1 + other.w1,
            self.b1 + other.b1,
            _joined(self.inner, self.slots, other.inner, other.slots),
            self.w2 + other.w2,
            self.b2 + other.b2,
            _joined(self.outer, self.slots, other.outer, other.slots),
        )


@dataclass(frozen=True, eq=False)
class CountedRows:
    """How many rows there are, and which count for norms: bits of ``flags``, 0 where all do."""

    number: int
    flags: Tensor
    inner: int = 0
    outer: int = 0


@dataclass(frozen=True, eq=False)
class PassedMessages:
    """What is added to values: ``eps`` times themselves, and ``relu(source[s] + table[e])`` of all messages; without a table, ``source[s]``.

    Args:
        edges: the messages.
        table: edge features, a row for each type or for each edge; None if there are none.
        eps: one number.
    """

    edges: Edges
    table: Tensor | None
    eps: Tensor

    def parameters(self) -> list[Tensor]:
        """The weights."""
        return [self.eps] if self.table is None else [self.table, self.eps]

    def fits(self, other: "PassedMessages") -> bool:
        """Whether both can be passed together: along the same edges, with tables of one shape."""
        same = self.edges.ptr is other.edges.ptr and self.edges.kind is other.edges.kind
        return (
            same
            and (self.table is None) == (other.table is None)
            and getattr(self.table, "shape", 0) == getattr(other.table, "shape", 0)
        )


@dataclass(frozen=True, eq=False)
class PairSlot:
    """One slot on pairs: its maps (a stack of one), perhaps with messages in front, or of other values than those of the pairs.

    Args:
        stack: the maps.
        messages: what is added to the values before the maps.
        other: the place of its input among the ``others`` of the stage.
    """

    stack: Stack
    messages: PassedMessages | None = None
    other: int | None = None

    def reads_as(self, slot: "PairSlot") -> bool:
        """Whether the maps of both read the same values."""
        return self.messages is None and slot.messages is None and self.other == slot.other

    def parameters(self) -> list[Tensor]:
        """Its weights: of the messages, then of the maps."""
        return ([] if self.messages is None else self.messages.parameters()) + self.stack.parameters()


@dataclass(frozen=True, eq=False)
class NodeInput:
    """What a slot reads: values, perhaps with messages from the values ``source`` (from themselves, if not given)."""

    own: Tensor
    messages: PassedMessages | None = None
    source: Tensor | None = None

    def tensors(self) -> list[Tensor | None]:
        """All that has a gradient: values, sources, edge features, eps."""
        return [self.own, self.source, *((None, None) if self.messages is None else (self.messages.table, self.messages.eps))]


@dataclass(frozen=True, eq=False)
class NodePlan:
    """Slots on nodes and subgraphs: one stack, whose results are added in groups.

    Args:
        stack: the slots.
        groups: the group of each slot.
        rows: the number of rows, and which of them count for norms.
        training: whether norms use the statistics of these rows.
    """

    stack: Stack
    groups: tuple[int, ...]
    rows: CountedRows
    training: bool


@dataclass(frozen=True, eq=False)
class PairPlan:
    """The computation on pairs: the slots, the rows that norms skip, and the requested sums of the result.

    Args:
        pairs: the pairs.
        slots: the slots, whose results are added.
        inner, outer: the bits of the rows that count for the norms inside of MLPs and after the last map; 0 where all do.
        act: whether a ReLU follows the sum.
        masked: whether pairs without the flag ``KEPT`` are set to zero.
        training: whether norms use the statistics of these rows.
        picks: the pairs that are also returned apart.
        wanted: the sums that are computed.
    """

    pairs: PairIndex
    slots: list[PairSlot]
    inner: int
    outer: int
    act: bool
    masked: bool
    training: bool
    picks: Picks | None = None
    wanted: frozenset[str] = frozenset(("readout", "needle", "root"))

    @property
    def rows(self) -> CountedRows:
        """The rows that norms take their statistics over."""
        return CountedRows(self.pairs.number, self.pairs.flags, self.inner, self.outer)


@dataclass(frozen=True)
class Limits:
    """Which layers and bags the stages of some kernels take; plain operations take all others.

    Args:
        name: where layers run, for descriptions.
        channels: the largest number of channels; None for any.
        numbers: the number of values of a layer's output from which the stages take less time than plain operations.
        padding: whether bags may be padded.
        hooks: whether a layer with hooks runs plainly, so that they are called.
        shortcut: whether a stage adds a residual connection.
        few_kinds: the number of different rows of edge features, in several columns of types, that are encoded once for all edges; 0 where they
            are not looked for, because their number would have to be read back from the device.
    """

    name: str
    channels: int | None
    numbers: int = 0
    padding: bool = True
    hooks: bool = False
    shortcut: bool = False
    few_kinds: int = 0


FUSED = Limits("fused on a GPU", 128)
BLOCKED = Limits("in blocks on a CPU", None, numbers=2**18, padding=False, hooks=True, shortcut=True, few_kinds=32)
BACKENDS = (FUSED, BLOCKED)
