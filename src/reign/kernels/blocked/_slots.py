"""The sum of some slots, linear maps or MLPs with norms, in blocks that are read from memory once for all operations on them.

The forward pass goes over all blocks three times:

    first:    hidden = x W1 + b1, and its moments, for the norm inside of an MLP
    second:   y = relu(norm(hidden)) W2 + b2, and its moments, for the norm after it
    combine:  the sum of all normalised y; what is added for subgraphs and nodes; roots; activation; the shortcut

Of an MLP only ``hidden`` is kept, and y where a norm comes after it; the backward pass computes the rest again, in the same blocks:

    begin:    the gradients of the shortcut and of the sum, and the sums of the latter for the norms after slots
    second:   through those norms, the second maps and the ReLU to hidden values, and the sums for the norms inside
    first:    through these norms and the first maps to the inputs
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from reign.kernels._plan import KEPT, CountedRows, PairIndex, Stack
from reign.kernels.blocked._blocks import block_rows, both, cached, each, multiply, products_of_rows
from reign.kernels.blocked._norm import Affine, Back, Moments, Norm, Slopes, Vector, back, bias_back, tensor
from reign.kernels.blocked._passing import relu_back, roots_of


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
            multiply(x, self.weight.t(), out, value)
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
    """A stage at work: what it is made of, and what the backward pass needs.

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
        return cached(self.pairs, ("counting", bit, self.size), lambda: Counting(self.rows, bit, self.size))

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
                    multiply(xs[m.reads][b], m.w1.t(), h[b], m.b1)
                    if m.inner is not None and self.training:
                        inner[t].add(b, h[b], self.count_inner.counted[b])

        def second(b: int) -> None:
            begun = False
            for t, m in enumerate(self.maps):
                h, y, (weight, own_bias) = hs[t], ys[t], m.last
                value = xs[m.reads][b] if h is None else self.activated(t, h[b])
                if y is not None:
                    multiply(value, weight.t(), y[b], own_bias)
                    if self.training:
                        outer[t].add(b, y[b], self.count_outer.counted[b])
                elif begun:
                    multiply(value, weight.t(), os[b], more=True)
                else:
                    begun = True
                    multiply(value, weight.t(), os[b], bias)

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


Flow = Callable[[int, Tensor], None]
Beside = Callable[[Tensor, Tensor | None], Sequence[Callable[[], None]]]


class WorkBack:
    """The gradients of all inputs and weights of a stage.

    Args:
        work: what was done in the forward pass.
        x: the inputs.
        out: the results before the shortcut.
        hidden, normed: what was kept.
        wants: of each input whether its gradient is wanted.
        wants_weights: the same for each weight of the slots, and for weight and bias of the shortcut.
    """

    def __init__(
        self,
        work: Work,
        x: Sequence[Tensor],
        out: Tensor,
        hidden: Sequence[Tensor | None],
        normed: Sequence[Tensor | None],
        wants: Sequence[bool],
        wants_weights: Sequence[bool],
    ) -> None:
        self.work, self.x, self.out, self.size, self.blocks = work, x, out, work.size, work.blocks
        self.xs, self.os = [v.split(self.size) for v in x], out.split(self.size)
        self.hidden, self.normed = ([None if v is None else v.split(self.size) for v in kept] for kept in (hidden, normed))
        self.wants, self.wants_weights = wants, wants_weights
        self.grads: list[Tensor | None] = [None] * len(wants_weights)
        self.straight = None if work.shortcut is None else _Straight(work, x, wants, wants_weights)

    def __call__(self, flow: Flow, has_roots: bool, beside: Beside) -> list[Tensor | None]:
        """The gradients of the inputs.

        Args:
            flow: writes the gradient of a block of results.
            has_roots: whether roots were put in.
            beside: from the gradients of the sum and of the roots, work that is done at the same time as the rest.
        """
        g, g_roots = self._begin(flow, has_roots)
        g_hidden, through = self._second(g, beside(g, g_roots))
        return self._first(g, g_hidden, through)

    # -- the three passes ------------------------------------------------------------------------------------------

    def _begin(self, flow: Flow, has_roots: bool) -> tuple[Tensor, Tensor | None]:
        work = self.work
        g = torch.empty_like(self.out)
        gs = g.split(self.size)
        places = roots_of(work.pairs, work.size) if has_roots else None
        g_roots = g.new_empty(len(places) and places[-1][0].stop, g.size(1)) if places is not None else None
        slopes = [Slopes(self.blocks, g) for _ in work.maps]
        every = Slopes(self.blocks, g)

        def block(b: int) -> None:
            here = gs[b]
            flow(b, here)
            if (dropped := work.dropped[b]) is not None and (not work.act or work.shortcut is not None):
                here.index_fill_(0, dropped, 0)
            if self.straight is not None:
                self.straight.block(b, here)
            if work.act:
                relu_back(here, self.os[b])
            if places is not None and g_roots is not None:
                mine, at = places[b]
                g_roots[mine] = here.index_select(0, at)
                here.index_fill_(0, at, 0)
            if any(affine is None for affine in work.outer):
                every.add(b, here)
            for t, affine in enumerate(work.outer):
                if affine is not None and (y := self.normed[t]) is not None:
                    slopes[t].add(b, here, y[b], affine)

        each(self.blocks, block)
        total = every.finish()[0]
        self.through: list[Back | None] = []
        for t, (m, affine) in enumerate(zip(work.maps, work.outer, strict=True)):
            found = None if affine is None else slopes[t].finish()
            self.through.append(None if affine is None or found is None else back(affine, found))
            bias = total
            if affine is not None and found is not None:
                self._keep(t, 6, found[1])
                self._keep(t, 7, found[0])
                bias = bias_back(affine, found[0])
            self._keep(t, 1 if m.w2 is None else 3, bias)
        return g, g_roots

    def _second(self, g: Tensor, beside: Sequence[Callable[[], None]]) -> tuple[list[Tensor | None], list[Back | None]]:
        work, gs = self.work, g.split(self.size)
        g_hidden = work.hidden(g)
        ghs = [None if v is None else v.split(self.size) for v in g_hidden]
        slopes = [Slopes(self.blocks, m.w1.t()) for m in work.maps]
        parts = [
            None if m.w2 is None or not self._wanted(t, 2) else g.new_empty(self.blocks, *m.w2.shape)
            for t, m in enumerate(work.maps)
        ]

        def block(b: int) -> None:
            for t, m in enumerate(work.maps):
                gh, h = ghs[t], self.hidden[t]
                if m.w2 is None or gh is None or h is None:
                    continue
                gy = self._before(t, b, gs[b])
                value = work.activated(t, h[b])
                if (part := parts[t]) is not None:
                    products_of_rows(gy, value, part[b])
                relu_back(multiply(gy, m.w2, gh[b]), value)
                if (skipped := work.count_inner.skipped[b]) is not None and work.inner[t] is not None:
                    gh[b].index_fill_(0, skipped, 0)
                slopes[t].add(b, gh[b], h[b], work.inner[t])

        both(self.blocks if any(v is not None for v in g_hidden) else 0, block, beside)
        through: list[Back | None] = []
        for t, (m, affine) in enumerate(zip(work.maps, work.inner, strict=True)):
            through.append(None)
            if m.w2 is None:
                continue
            if (part := parts[t]) is not None:
                self.grads[WEIGHTS * t + 2] = part.sum(0)
            one, two = slopes[t].finish()
            bias = one
            if affine is not None:
                self._keep(t, 4, two)
                self._keep(t, 5, one)
                through[t] = back(affine, (one, two))
                bias = bias_back(affine, one)
            self._keep(t, 1, bias)
        return g_hidden, through

    def _first(self, g: Tensor, g_hidden: Sequence[Tensor | None], through: Sequence[Back | None]) -> list[Tensor | None]:
        work, gs = self.work, g.split(self.size)
        ghs = [None if v is None else v.split(self.size) for v in g_hidden]
        begun = {} if self.straight is None else {self.straight.reads: self.straight.gx}
        gx = [
            begun[place] if place in begun else self._room(place, g_hidden, through) if wanted else None
            for place, wanted in enumerate(self.wants)
        ]
        if self.straight is not None:
            self.grads[-2:] = self.straight.finish()
        gxs = [None if v is None else v.split(self.size) for v in gx]
        parts = [g.new_empty(self.blocks, *m.w1.shape) if self._wanted(t, 0) else None for t, m in enumerate(work.maps)]

        def block(b: int) -> None:
            written = set(begun)
            for t, m in enumerate(work.maps):
                gh, h, norm = ghs[t], self.hidden[t], through[t]
                if gh is None or h is None:
                    here = self._before(t, b, gs[b])
                else:
                    here = gh[b] if norm is None else norm(gh[b], h[b], work.count_inner.skipped[b])
                if (part := parts[t]) is not None:
                    products_of_rows(here, self.xs[m.reads][b], part[b])
                if (into := gxs[m.reads]) is None:
                    continue
                if m.reads in written:
                    multiply(here, m.w1, into[b], more=True)
                else:
                    multiply(here, m.w1, into[b])
                    written.add(m.reads)

        each(self.blocks, block)
        for t, part in enumerate(parts):
            if part is not None:
                self.grads[WEIGHTS * t] = part.sum(0)
        return gx

    # -- parts -----------------------------------------------------------------------------------------------------

    def _room(self, place: int, g_hidden: Sequence[Tensor | None], through: Sequence[Back | None]) -> Tensor:
        """Room for the gradient of an input: that of the hidden values of the first slot that reads it, if that slot reads them no more by then."""
        for t, m in enumerate(self.work.maps):
            if m.reads == place:
                gh = g_hidden[t]
                if gh is not None and through[t] is not None and gh.shape == self.x[place].shape:
                    return gh
                break
        return torch.empty_like(self.x[place])

    def _before(self, t: int, b: int, g: Tensor) -> Tensor:
        """The gradient of what a slot gives before the norm after it."""
        norm, y = self.through[t], self.normed[t]
        return g if norm is None or y is None else norm(g, y[b], self.work.count_outer.skipped[b])

    def _wanted(self, t: int, place: int) -> bool:
        return self.wants_weights[WEIGHTS * t + place]

    def _keep(self, t: int, place: int, value: Vector) -> None:
        if self._wanted(t, place):
            self.grads[WEIGHTS * t + place] = tensor(value, self.out.dtype)


class _Straight:
    """The backward pass through the shortcut: the gradients of its input, its weight and its bias."""

    def __init__(self, work: Work, x: Sequence[Tensor], wants: Sequence[bool], wants_weights: Sequence[bool]) -> None:
        assert work.shortcut is not None
        self.reads, self.weight = work.shortcut.reads, work.shortcut.weight
        own = x[self.reads]
        self.xs, self.gx = own.split(work.size), torch.empty_like(own) if wants[self.reads] else None
        self.gxs = None if self.gx is None else self.gx.split(work.size)
        wants_weight, self.wants_bias = wants_weights[-2:]
        self.weights = own.new_empty(work.blocks, *self.weight.shape) if wants_weight and self.weight is not None else None
        self.biases = Slopes(work.blocks, own.new_empty(work.channels))

    def block(self, b: int, g: Tensor) -> None:
        """Look at the gradient of a block of results."""
        if self.gxs is not None:
            if self.weight is None:
                self.gxs[b].copy_(g)
            else:
                multiply(g, self.weight, self.gxs[b])
        if self.weights is not None:
            products_of_rows(g, self.xs[b], self.weights[b])
        if self.wants_bias:
            self.biases.add(b, g)

    def finish(self) -> list[Tensor | None]:
        """The gradients of weight and bias, when all blocks are done."""
        weight = None if self.weights is None else self.weights.sum(0)
        return [weight, tensor(self.biases.finish()[0], self.xs[0].dtype) if self.wants_bias else None]
