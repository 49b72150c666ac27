"""The way back through the sum of some slots, in the same blocks.

begin:    the gradients of the shortcut and of the sum, and the sums of the latter for the norms after slots
second:   through those norms, the second maps and the ReLU to hidden values, and the sums for the norms inside
first:    through these norms and the first maps to the inputs
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from reign.kernels.blocked._norm import Back, Slopes, Vector, back, bias_back, tensor
from reign.kernels.blocked._passing import relu_back
from reign.kernels.blocked._slots import WEIGHTS, Work
from reign.kernels.blocked._sums import roots_of
from reign.kernels.blocked._threads import both, each

Flow = Callable[[int, Tensor], None]
Beside = Callable[[Tensor, Tensor | None], Sequence[Callable[[], None]]]


class WorkBack:
    """The gradients of all inputs and weights of a stage.

    Args:
        work: what was done on the way forth.
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
            beside: from the gradients of the sum and of the roots, work that is done at the same time as the rest of the way.
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
                    torch.mm(gy.t(), value, out=part[b])
                relu_back(torch.mm(gy, m.w2, out=gh[b]), value)
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
                    torch.mm(here.t(), self.xs[m.reads][b], out=part[b])
                if (into := gxs[m.reads]) is None:
                    continue
                if m.reads in written:
                    into[b].addmm_(here, m.w1)
                else:
                    torch.mm(here, m.w1, out=into[b])
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
    """The way back through the shortcut: the gradients of its input, its weight and its bias."""

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
                torch.mm(g, self.weight, out=self.gxs[b])
        if self.weights is not None:
            torch.mm(g.t(), self.xs[b], out=self.weights[b])
        if self.wants_bias:
            self.biases.add(b, g)

    def finish(self) -> list[Tensor | None]:
        """The gradients of weight and bias, when all blocks are done."""
        weight = None if self.weights is None else self.weights.sum(0)
        return [weight, tensor(self.biases.finish()[0], self.xs[0].dtype) if self.wants_bias else None]
