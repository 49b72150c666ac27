"""The sum of some slots, linear maps or MLPs with norms, in blocks that are read from memory once for all operations on them.

    first:    hidden = x W1 + b1, and its moments, for the norm inside of an MLP
    second:   y = relu(norm(hidden)) W2 + b2, and its moments, for the norm after it
    combine:  the sum of all normalised y; what is added for subgraphs and nodes; roots; activation; the shortcut

Of an MLP only ``hidden`` is kept, and y where a norm comes after it; the way back computes the rest again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from reign.kernels._plan import KEPT, CountedRows, PairIndex, Stack
from reign.kernels.blocked._kept import kept
from reign.kernels.blocked._norm import Affine, Moments, Norm
from reign.kernels.blocked._sums import roots_of
from reign.kernels.blocked._threads import block_rows, both, each


@dataclass(frozen=True, eq=False)
class Map:
    """One slot: a linear map (no ``w2``), or an MLP; it reads one of the inputs of its stage."""

    reads: int
    w1: Tensor
    b1: Tensor
    w2: Tensor | None = None
    b2: Tensor | None = None
    inner: Norm | None = None
    outer: Norm | None = None

    def weights(self) -> list[Tensor | None]:
        """All that may have a gradient; ``with_`` takes the same."""
        norms = [v for n in (self.inner, self.outer) for v in ((None, None) if n is None else (n.scale, n.shift))]
        return [self.w1, self.b1, self.w2, self.b2, *norms]

    @property
    def last(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the last map."""
        return (self.w1, self.b1) if self.w2 is None or self.b2 is None else (self.w2, self.b2)


WEIGHTS = 8  # of a map


@dataclass(frozen=True, eq=False)
class Shortcut:
    """What is added after the activation: one of the inputs, or a linear map of it."""

    reads: int
    weight: Tensor | None = None
    bias: Tensor | None = None

    def add(self, value: Tensor, x: Tensor, out: Tensor) -> None:
        """Write the sum of a block and its shortcut."""
        if self.weight is None:
            torch.add(value, x, out=out)
        else:
            torch.addmm(value, x, self.weight.t(), out=out)
        if self.bias is not None:
            out.add_(self.bias)


def maps_of(stack: Stack, reads: Sequence[int]) -> list[Map]:
    """The slots of a stack, and which input each reads."""

    def norm(name: str, t: int) -> Norm | None:
        n = getattr(stack, name)
        return None if n is None or n.scale[t] is None else Norm(n.scale[t], n.shift[t], n.mean[t], n.var[t], n.momentum, n.eps)

    w2, b2 = (stack.w2, stack.b2) if stack.w2 else ([None] * stack.slots, [None] * stack.slots)
    return [Map(reads[t], stack.w1[t], stack.b1[t], w2[t], b2[t], norm("inner", t), norm("outer", t)) for t in range(stack.slots)]


class Counting:
    """The rows that count for a norm: those with a bit in their flags, in each block; all if the bit is 0.

    Args:
        rows: all rows.
        bit: the bit.
        size: number of rows of a block.
    """

    def __init__(self, rows: CountedRows, bit: int, size: int) -> None:
        flags = (rows.flags & bit) != 0 if bit else None
        self.flags = None if flags is None or bool(flags.all()) else flags
        blocks = -(-rows.number // size)
        self.counted: list[Tensor | None] = [None] * blocks
        self.skipped: list[Tensor | None] = [None] * blocks
        if self.flags is not None:
            for b, block in enumerate(self.flags.split(size)):
                self.counted[b], self.skipped[b] = block.nonzero().squeeze(1), (~block).nonzero().squeeze(1)


@dataclass(eq=False)
class Work:
    """A stage at work: what it is made of, and what the way back needs.

    Args:
        maps: the slots.
        rows: how many rows there are, and which count for norms.
        training: whether norms take the statistics of these rows.
        act: whether a ReLU follows the sum.
        masked: whether the rows without the flag ``KEPT`` are set to zero.
        pairs: what the rows are pairs of.
        shortcut: what is added in the end.
    """

    maps: list[Map]
    rows: CountedRows
    training: bool
    act: bool
    masked: bool
    pairs: PairIndex
    shortcut: Shortcut | None = None
    inner: list[Affine | None] = field(default_factory=list)
    outer: list[Affine | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.channels = self.maps[0].last[0].size(0)
        self.size = block_rows(self.rows.number, max(max(m.w1.shape) for m in self.maps))
        self.blocks = -(-self.rows.number // self.size)
        self.count_inner, self.count_outer = self._counting(self.rows.inner), self._counting(self.rows.outer)
        self.dropped = self._counting(KEPT if self.masked else 0).skipped

    def _counting(self, bit: int) -> Counting:
        return kept(self.pairs, ("counting", bit, self.size), lambda: Counting(self.rows, bit, self.size))

    def hidden(self, x: Tensor) -> list[Tensor | None]:
        """Room for the hidden values of each slot."""
        return [None if m.w2 is None else x.new_empty(self.rows.number, m.w1.size(0)) for m in self.maps]

    def activated(self, t: int, hidden: Tensor) -> Tensor:
        """What the second map of an MLP reads, in a block."""
        affine = self.inner[t]
        return hidden.relu() if affine is None else affine(hidden).relu_()

    def forward(
        self, x: Sequence[Tensor], beside: Sequence[Callable[[], None]], added: Callable[[], Sequence[Tensor | None]]
    ) -> tuple[Tensor, Tensor, list[Tensor | None], list[Tensor | None]]:
        """The new values, and what is kept: values before the shortcut, hidden values, and results that a norm follows.

        Args:
            x: the inputs.
            beside: work that is done at the same time.
            added: gives, after that work, what is added for each subgraph and each node, and what roots become.
        """
        hidden, out = self.hidden(x[0]), x[0].new_empty(self.rows.number, self.channels)
        result = out if self.shortcut is None or not self.act else torch.empty_like(out)
        normed = [None if m.outer is None else torch.empty_like(out) for m in self.maps]
        xs, os = [v.split(self.size) for v in x], out.split(self.size)
        hs = [None if v is None else v.split(self.size) for v in hidden]
        ys = [None if v is None else v.split(self.size) for v in normed]
        inner = [Moments(self.blocks, m.w1.t()) for m in self.maps]
        outer = [Moments(self.blocks, out) for _ in self.maps]
        plain = [m.last[1] for m in self.maps if m.outer is None]
        bias = torch.stack(plain).sum(0) if plain else None

        def first(b: int) -> None:
            for t, m in enumerate(self.maps):
                if (h := hs[t]) is not None:
                    torch.addmm(m.b1, xs[m.reads][b], m.w1.t(), out=h[b])
                    if m.inner is not None and self.training:
                        inner[t].add(b, h[b], self.count_inner.counted[b])

        def second(b: int) -> None:
            begun = False
            for t, m in enumerate(self.maps):
                h, y, (weight, own_bias) = hs[t], ys[t], m.last
                value = xs[m.reads][b] if h is None else self.activated(t, h[b])
                if y is not None:
                    torch.addmm(own_bias, value, weight.t(), out=y[b])
                    if self.training:
                        outer[t].add(b, y[b], self.count_outer.counted[b])
                elif begun:
                    os[b].addmm_(value, weight.t())
                else:
                    begun = True
                    torch.addmm(bias, value, weight.t(), out=os[b])  # type: ignore[arg-type]

        both(self.blocks, first, beside)
        self.inner = [None if m.inner is None else inner[t].finish(m.inner, self.training) for t, m in enumerate(self.maps)]
        each(self.blocks, second)
        self.outer = [None if m.outer is None else outer[t].finish(m.outer, self.training) for t, m in enumerate(self.maps)]
        self._combine(xs, os, result.split(self.size), ys, bias is not None, *added())
        return result, out, hidden, normed

    def _combine(
        self,
        x: Sequence[Sequence[Tensor]],
        out: Sequence[Tensor],
        result: Sequence[Tensor],
        normed: Sequence[Sequence[Tensor] | None],
        begun: bool,
        subs: Tensor | None,
        nodes: Tensor | None,
        roots: Tensor | None,
    ) -> None:
        """Add all up in place, and the shortcut to the results."""
        after = [(y, affine) for y, affine in zip(normed, self.outer, strict=True) if y is not None and affine is not None]
        index = (subs, self.pairs.sub), (nodes, self.pairs.node)
        added = [(table, where.split(self.size)) for table, where in index if table is not None]
        if after:
            shift = torch.stack([affine.beta for _, affine in after]).sum(0)
            if added:  # in the small table, and not in every row
                added[0] = added[0][0] + shift, added[0][1]
        places = None if roots is None else roots_of(self.pairs, self.size)

        def work(b: int) -> None:
            here, started = out[b], begun
            for y, affine in after:
                if started:
                    here.addcmul_(y[b], affine.alpha)
                else:
                    torch.mul(y[b], affine.alpha, out=here)
                    started = True
            if after and not added:
                here.add_(shift)
            for table, where in added:
                here.add_(table.index_select(0, where[b]))
            if places is not None and roots is not None:
                mine, at = places[b]
                here.index_copy_(0, at, roots[mine])
            if self.act:
                here.relu_()
            if self.shortcut is not None:
                self.shortcut.add(here, x[self.shortcut.reads][b], result[b])
            if (dropped := self.dropped[b]) is not None:
                result[b].index_fill_(0, dropped, 0)

        each(self.blocks, work)
