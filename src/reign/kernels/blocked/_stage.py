"""The slots of a layer on pairs, with all that is added to them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reign.kernels._indices import KEPT, Picks
from reign.kernels._stages import PairPlan
from reign.kernels.blocked._norm import Affine, Norm
from reign.kernels.blocked._passing import collect
from reign.kernels.blocked._slots import WEIGHTS, Work, maps_of
from reign.kernels.blocked._slots_back import WorkBack
from reign.kernels.blocked._sums import Sums, SumsBack, plain_sums, segment_sum, sums_of
from reign.kernels.blocked._twice import differentiably


class PairStage(PairPlan):
    """The computation on pairs, in blocks of rows."""

    def __call__(
        self,
        h: Tensor,
        subs: Tensor | None,
        nodes: Tensor | None,
        roots: Tensor | None,
        others: Sequence[Tensor] = (),
        join: Callable[[], None] = lambda: None,
    ) -> Sums:
        """New values of the pairs, and of these readout, needle, roots and picked rows (see ``sums``).

        Args:
            h: the values of the pairs.
            subs, nodes, roots: what is added for each subgraph and each node, and what roots become.
            others: inputs of slots that look at other values.
            join: is called when ``subs``, ``nodes`` and ``roots`` are needed.
        """
        join()
        made: dict[int, Tensor] = {}
        for t, slot in enumerate(self.slots):
            if slot.messages is not None:
                made[t], h = collect(h, None, slot.messages)
        x = [made[t] if t in made else h if s.other is None else others[s.other] for t, s in enumerate(self.slots)]
        maps = [m for t, slot in enumerate(self.slots) for m in maps_of(slot.stack, [t])]
        inputs: list[Tensor] = []  # a tensor that several slots read is one input
        for place, m in enumerate(maps):
            value = x[m.reads]
            at = next((n for n, seen in enumerate(inputs) if seen is value), len(inputs))
            if at == len(inputs):
                inputs.append(value.contiguous())
                if inputs[at] is not value:
                    x = [inputs[at] if v is value else v for v in x]
            maps[place] = replace(m, reads=at)
        work = Work(maps, self.rows, self.training, self.act, self.masked, self.pairs)
        weights = [w for m in maps for w in m.weights()]
        return _Stage.apply(work, self.picks, self.wanted, len(inputs), *inputs, subs, nodes, roots, *weights)  # type: ignore[no-untyped-call]


class _Stage(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: Work, picks: Picks | None, wanted: frozenset[str], number: int, *tensors: Any) -> Sums:
        x, (subs, nodes, roots) = tensors[:number], tensors[number : number + 3]
        out, hidden, normed = work.forward(x, subs, nodes, roots)
        ctx.work, ctx.picks, ctx.wanted, ctx.number, ctx.inputs = work, picks, wanted, number, len(tensors)
        ctx.save_for_backward(*tensors, out, *hidden, *normed)
        return out, *sums_of(out, work.pairs, picks, wanted)

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Any, ...]:
        work, number, wants = ctx.work, ctx.number, ctx.needs_input_grad[4:]
        saved = ctx.saved_tensors
        tensors, (out, *kept) = saved[: ctx.inputs], saved[ctx.inputs :]
        if torch.is_grad_enabled():
            again = differentiably(lambda *values: _plain(work, ctx.picks, ctx.wanted, number, *values), tensors, given)
            return None, None, None, None, *again
        given = tuple(None if g is None else g.contiguous() for g in given)
        hidden, normed = kept[: len(work.maps)], kept[len(work.maps) :]
        way = WorkBack(work, tensors[:number], out, hidden, normed, wants[:number], wants[number + 3 :])
        subs, nodes, roots = tensors[number : number + 3]
        g, g_roots, gx = way(SumsBack(work.pairs, ctx.picks, given, work.size), roots is not None)
        g_subs = None if subs is None else segment_sum(g, work.pairs.to_sub)
        g_nodes = None if nodes is None else segment_sum(g, work.pairs.to_node)
        return None, None, None, None, *gx, g_subs, g_nodes, g_roots, *way.grads


def _plain(work: Work, picks: Picks | None, wanted: frozenset[str], number: int, *tensors: Any) -> Sums:
    """The same in operations that can be differentiated as often as one likes; statistics are those of the way forth."""
    x, (subs, nodes, roots), weights = tensors[:number], tensors[number : number + 3], tensors[number + 3 :]
    flags, found = work.rows.flags, []
    for t, m in enumerate(work.maps):
        w1, b1, w2, b2, *norms = weights[WEIGHTS * t : WEIGHTS * (t + 1)]
        value = F.linear(x[m.reads], w1, b1)
        if w2 is not None:
            value = _plain_norm(value, work.inner[t], m.inner, work.count_inner.flags, *norms[:2])
            value = F.linear(value.relu(), w2, b2)
        found.append(_plain_norm(value, work.outer[t], m.outer, work.count_outer.flags, *norms[2:]))
    out = torch.stack(found).sum(0)
    for table, index in ((subs, work.pairs.sub), (nodes, work.pairs.node)):
        out = out if table is None else out + table.index_select(0, index)
    if roots is not None and work.pairs.root is not None:
        out = out.index_copy(0, work.pairs.root.long(), roots)
    out = out.relu() if work.act else out
    out = out * ((flags & KEPT) != 0)[:, None] if work.masked else out
    return out, *plain_sums(out, work.pairs, picks, wanted)


def _plain_norm(
    y: Tensor, affine: Affine | None, norm: Norm | None, counted: Tensor | None, scale: Tensor | None, shift: Tensor | None
) -> Tensor:
    if affine is None or norm is None or scale is None or shift is None:
        return y
    if affine.number == 0:
        out = (y - affine.mean) * affine.inverse * scale + shift
    else:
        some = y if counted is None else y[counted]
        mean = some.mean(0)
        out = (y - mean) * ((some - mean).square().mean(0) + norm.eps).rsqrt() * scale + shift
    return out if counted is None else torch.where(counted[:, None], out, 0)
