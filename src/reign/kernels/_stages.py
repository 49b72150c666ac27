"""What a stage of a layer is told: linear maps or MLPs with their norms, messages, and which rows count. The same for all kernels."""

from dataclasses import dataclass, field

from torch import Tensor

from reign.kernels._indices import Edges, Pairs, Picks


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
class Rows:
    """How many rows there are, and which count for norms: bits of ``flags``, 0 where all do."""

    number: int
    flags: Tensor
    inner: int = 0
    outer: int = 0


@dataclass(frozen=True, eq=False)
class Messages:
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

    def fits(self, other: "Messages") -> bool:
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
    messages: Messages | None = None
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
    messages: Messages | None = None
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
    rows: Rows
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

    pairs: Pairs
    slots: list[PairSlot]
    inner: int
    outer: int
    act: bool
    masked: bool
    training: bool
    picks: Picks | None = None
    wanted: frozenset[str] = frozenset(("readout", "needle", "root"))

    @property
    def rows(self) -> Rows:
        """The rows that norms take their statistics over."""
        return Rows(self.pairs.number, self.pairs.flags, self.inner, self.outer)
