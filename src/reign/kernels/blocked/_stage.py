"""The slots of a layer on pairs, with all that is added to them; slots on nodes are computed at the same time."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reign.kernels._plan import KEPT, PairPlan, Picks
from reign.kernels.blocked._node_stage import Later, Nodes
from reign.kernels.blocked._norm import plain_norm
from reign.kernels.blocked._passing import collect
from reign.kernels.blocked._slots import WEIGHTS, Shortcut, Work, maps_of
from reign.kernels.blocked._slots_back import WorkBack
from reign.kernels.blocked._sums import Sums, SumsBack, plain_sums, segment_sums, sums_of
from reign.kernels.blocked._twice import differentiably


class PairStage(PairPlan):
    """The computation on pairs, in blocks of rows."""

    def __call__(
        self,
        h: Tensor,
        subs: Later | Tensor | None,
        nodes: Later | Tensor | None,
        roots: Later | Tensor | None,
        others: Sequence[Tensor] = (),
        join: Callable[[], None] = lambda: None,
        shortcut: nn.Module | None = None,
    ) -> Sums:
        """New values of the pairs, and of these readout, needle, roots and picked rows (see ``sums``).

        Args:
            h: the values of the pairs.
            subs, nodes, roots: what is added for each subgraph and each node, and what roots become.
            others: inputs of slots that look at other values.
            join: is called when ``subs``, ``nodes`` and ``roots`` are needed.
            shortcut: a linear map, or the identity, of the values of the pairs, which is added to their new values.
        """
        join()
        made: dict[int, Tensor] = {}
        for t, slot in enumerate(self.slots):
            if slot.messages is not None:
                made[t], h = collect(h, None, slot.messages)
        x = [made[t] if t in made else h if s.other is None else others[s.other] for t, s in enumerate(self.slots)]
        maps = [m for t, slot in enumerate(self.slots) for m in maps_of(slot.stack, [t])]
        inputs: dict[int, Tensor] = {}  # a tensor that several slots read is one input

        def place(value: Tensor) -> int:
            inputs.setdefault(id(value), value.contiguous())
            return list(inputs).index(id(value))

        maps = [replace(m, reads=place(x[m.reads])) for m in maps]
        straight = None
        if shortcut is not None:
            straight = Shortcut(place(h), getattr(shortcut, "weight", None), getattr(shortcut, "bias", None))
        work = Work(maps, self.rows, self.training, self.act, self.masked, self.pairs, straight)
        added = [value if isinstance(value, Later) else Later([], value) for value in (subs, nodes, roots)]
        layer = _Layer(work, self.picks, self.wanted, len(inputs), added)
        weights = [w for m in maps for w in m.weights()]
        weights += [None, None] if straight is None else [straight.weight, straight.bias]
        more = [v for nodes in layer.nodes for v in nodes.inputs]
        return _Stage.apply(layer, *inputs.values(), *(one.tensor for one in added), *weights, *more)  # type: ignore[no-untyped-call]


class _Layer:
    """What there is to compute: the slots on pairs, and those on nodes whose sums are added for subgraphs and nodes and put in as roots.

    All tensors are the inputs of the slots on pairs, the three tensors that are added, the weights of these slots and of the shortcut, and the inputs
    of the slots on nodes.
    """

    def __init__(self, work: Work, picks: Picks | None, wanted: frozenset[str], number: int, added: Sequence[Later]) -> None:
        self.work, self.picks, self.wanted, self.number, self.added = work, picks, wanted, number, added
        self.nodes = list(dict.fromkeys(nodes for one in added for nodes, _ in one.parts))
        self.has = [one.tensor is not None or bool(one.parts) for one in added]

    def split(self, tensors: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any], list[Sequence[Any]]]:
        """The four kinds of tensors."""
        ends = [self.number, self.number + 3, self.number + 3 + WEIGHTS * len(self.work.maps) + 2]
        for nodes in self.nodes:
            ends.append(ends[-1] + len(nodes.inputs))
        x, added, weights, *more = (tensors[a:b] for a, b in pairwise([0, *ends]))
        return x, added, weights, more

    def total(self, tensors: Sequence[Tensor | None], sums: Sequence[Sequence[Tensor]]) -> list[Tensor | None]:
        """What is added for subgraphs and nodes and put in as roots, given the sums of all groups of slots on nodes."""
        found = []
        for one, tensor in zip(self.added, tensors, strict=True):
            values = [sums[self.nodes.index(nodes)][group] for nodes, group in one.parts]
            values += [] if tensor is None else [tensor]
            found.append(sum(values[1:], values[0]) if values else None)
        return found

    def flows(self, g: Sequence[Tensor | None], nodes: Nodes) -> list[Tensor]:
        """The gradients of the groups of some slots, given those of what is added."""
        found = {
            group: value
            for one, value in zip(self.added, g, strict=True)
            for own, group in one.parts
            if own is nodes and value is not None
        }
        return [found[group] for group in sorted(found)]


class _Stage(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layer: _Layer, *tensors: Any) -> Sums:
        work = layer.work
        x, tables, _, more = layer.split(tensors)
        kept: list[Tensor | None] = []
        for nodes, own in zip(layer.nodes, more, strict=True):
            nodes.begin(own)

        def added() -> Sequence[Tensor | None]:
            sums = []
            for nodes in layer.nodes:
                found, keep = nodes.finish()
                sums.append(found)
                kept.extend(keep)
            return layer.total(tables, sums)

        beside = [partial(nodes.forward, n) for nodes in layer.nodes for n in range(len(nodes.tasks))]
        out, before, hidden, normed = work.forward(x, beside, added)
        ctx.layer, ctx.inputs = layer, len(tensors)
        ctx.save_for_backward(*tensors, before, *hidden, *normed, *kept)
        return out, *sums_of(out, work.pairs, layer.picks, layer.wanted)

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Any, ...]:
        layer, work, wants, saved = ctx.layer, ctx.layer.work, ctx.needs_input_grad[1:], ctx.saved_tensors
        tensors, (out, *kept) = saved[: ctx.inputs], saved[ctx.inputs :]
        if torch.is_grad_enabled():
            return None, *differentiably(lambda *values: _plain(layer, *values), tensors, given)
        given = tuple(None if g is None else g.contiguous() for g in given)
        slots = len(work.maps)
        hidden, normed, kept = kept[:slots], kept[slots : 2 * slots], kept[2 * slots :]
        x, _, _, more = layer.split(tensors)
        wants_x, wants_added, wants_weights, wants_more = layer.split(wants)
        g_added: list[Tensor | None] = []

        def beside(g: Tensor, g_roots: Tensor | None) -> list[Callable[[], None]]:
            start = 0
            places = work.pairs.to_sub, work.pairs.to_node
            g_added.extend(segment_sums(g, [where if has else None for where, has in zip(places, layer.has, strict=False)]))
            g_added.append(g_roots)
            for nodes, own, wanted in zip(layer.nodes, more, wants_more, strict=True):
                nodes.begin_back(layer.flows(g_added, nodes), own, kept[start : start + nodes.keeps], wanted)
                start += nodes.keeps
            return [partial(nodes.backward, n) for nodes in layer.nodes for n in range(len(nodes.tasks))]

        way = WorkBack(work, x, out, hidden, normed, wants_x, wants_weights)
        gx = way(SumsBack(work.pairs, layer.picks, given, work.size), layer.has[2], beside)
        g_tables = [g if wanted else None for g, wanted in zip(g_added, wants_added, strict=True)]
        return None, *gx, *g_tables, *way.grads, *(g for nodes in layer.nodes for g in nodes.finish_back())


def _plain(layer: _Layer, *tensors: Any) -> Sums:
    """The same in operations that can be differentiated as often as one likes; statistics are those of the way forth."""
    work = layer.work
    x, tables, weights, more = layer.split(tensors)
    subs, nodes, roots = layer.total(tables, [own.plain(values) for own, values in zip(layer.nodes, more, strict=True)])
    flags, found = work.rows.flags, []
    for t, m in enumerate(work.maps):
        w1, b1, w2, b2, *norms = weights[WEIGHTS * t : WEIGHTS * (t + 1)]
        value = F.linear(x[m.reads], w1, b1)
        if w2 is not None:
            value = plain_norm(value, work.inner[t], m.inner, work.count_inner.flags, *norms[:2])
            value = F.linear(value.relu(), w2, b2)
        found.append(plain_norm(value, work.outer[t], m.outer, work.count_outer.flags, *norms[2:]))
    out = torch.stack(found).sum(0)
    for table, index in ((subs, work.pairs.sub), (nodes, work.pairs.node)):
        out = out if table is None else out + table.index_select(0, index)
    if roots is not None and work.pairs.root is not None:
        out = out.index_copy(0, work.pairs.root.long(), roots)
    out = out.relu() if work.act else out
    if work.shortcut is not None:
        own, weight = x[work.shortcut.reads], weights[-2]
        out = out + (own if weight is None else F.linear(own, weight, weights[-1]))
    out = out * ((flags & KEPT) != 0)[:, None] if work.masked else out
    return out, *plain_sums(out, work.pairs, layer.picks, layer.wanted)
