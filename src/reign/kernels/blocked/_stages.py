"""The stages of a layer: slots on nodes, subgraphs or roots, and the slots on pairs with all that is added to them.

On nodes there are many slots and few rows, so operations are done for several slots at once:

    x[t]      = values, perhaps with messages to them
    hidden[t] = x[t] W1[t] + b1[t]
    y[t]      = relu(norm(hidden[t])) W2[t] + b2[t]
    out[g]    = the sum of norm(y[t]) over the slots t of group g

Slots do not depend on each other, and the sums are only needed when those of the pairs are put together: so threads work on slots of nodes and on
blocks of pairs at the same time. Of an MLP only ``hidden`` is kept, and y if a norm comes after it; the backward pass computes the rest again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reign.kernels._plan import KEPT, NodeInput, NodePlan, PairPlan, Picks
from reign.kernels.blocked import _passing as passing
from reign.kernels.blocked._blocks import multiply, products_of_rows
from reign.kernels.blocked._norm import Affine, Norm, back, bias_back, plain_norm, tensor, vector
from reign.kernels.blocked._slots import WEIGHTS, Map, Shortcut, Work, WorkBack, maps_of

TOGETHER = 6  # slots of one task
INPUTS = 4  # of a slot: values, sources, edge features, eps


class NodeStage(NodePlan):
    """Slots on nodes and subgraphs, several at once."""

    def __call__(self, inputs: Sequence[NodeInput]) -> "list[Later]":
        """One sum of slots a group; they are computed along with the pairs they are added to."""
        nodes = Nodes(self, inputs)
        return [Later([(nodes, group)]) for group in range(max(self.groups) + 1)]


@dataclass(frozen=True, eq=False)
class Later:
    """A sum of groups of slots that are not computed yet, and of a tensor."""

    parts: "list[tuple[Nodes, int]]"
    tensor: Tensor | None = None

    def __add__(self, other: "Tensor | Later") -> "Later":
        more = other if isinstance(other, Later) else Later([], other)
        tensors = [t for t in (self.tensor, more.tensor) if t is not None]
        return Later(self.parts + more.parts, sum(tensors[1:], tensors[0]) if tensors else None)


class Nodes:
    """The slots of a stage at work, forward and backward, in tasks that do not depend on each other.

    Args:
        plan: the slots.
        inputs: what each of them reads.
    """

    def __init__(self, plan: NodePlan, inputs: Sequence[NodeInput]) -> None:
        maps = maps_of(plan.stack, range(plan.stack.slots))
        self.groups, self.slots = plan.groups, len(plan.groups)
        self.edges = [None if one.messages is None else one.messages.edges for one in inputs]
        self.tasks = tasks_of(maps, plan.training)
        self.inputs = [v for one in inputs for v in one.tensors()] + [w for m in maps for w in m.weights()]

    def begin(self, tensors: Sequence[Any]) -> None:
        """Prepare the forward pass; the tensors are ``inputs``."""
        self._tensors = tensors
        self._read: list[Tensor | None] = [None] * self.slots
        self._kept: list[Tensor | None] = [None] * (2 * len(self.tasks))
        self._found: list[Tensor | None] = [None] * self.slots

    def forward(self, n: int) -> None:
        """Do one task."""
        task, read = self.tasks[n], []
        for t in task.places:
            own, *others = self._of(t, self._tensors)
            edges = self.edges[t]
            read.append(own if edges is None else passing.passed(edges, own, *others))
            self._read[t] = None if edges is None else read[-1]
        self._kept[2 * n], self._kept[2 * n + 1], results = task.forward(read)
        for t, y in zip(task.places, results, strict=True):
            self._found[t] = y

    def finish(self) -> tuple[list[Tensor], list[Tensor | None]]:
        """When all tasks are done: the sum of each group, and what is kept for the backward pass."""
        groups = range(max(self.groups) + 1)
        sums = [_total([y for y, own in zip(self._found, self.groups, strict=True) if own == g]) for g in groups]
        kept = [*self._read, *self._kept]
        del self._tensors, self._read, self._kept, self._found
        return sums, kept

    @property
    def keeps(self) -> int:
        """The number of tensors that are kept."""
        return self.slots + 2 * len(self.tasks)

    def begin_back(self, g: Sequence[Tensor], tensors: Sequence[Any], kept: Sequence[Any], wants: Sequence[bool]) -> None:
        """Prepare the backward pass: the gradient of each group, and which gradients are wanted."""
        self._g, self._tensors, self._wants = g, tensors, wants
        self._read, self._kept = list(kept[: self.slots]), list(kept[self.slots :])
        self._grads: list[Tensor | None] = [None] * len(tensors)

    def backward(self, n: int) -> None:
        """Do one task."""
        task, grads = self.tasks[n], self._grads
        g = torch.stack([self._g[self.groups[t]] for t in task.places])
        read = [self._of(t, self._tensors)[0] if (x := self._read[t]) is None else x for t in task.places]
        wanted = [any(self._of(t, self._wants)) for t in task.places]
        found, weights = task.backward(g, read, wanted, *self._kept[2 * n : 2 * n + 2])
        for t, gx, own in zip(task.places, found, weights, strict=True):
            grads[self._weights(t)] = own
            if (edges := self.edges[t]) is None or gx is None:
                grads[INPUTS * t] = gx
            else:
                back = passing.passed_back(edges, self._of(t, self._tensors), gx, None, self._of(t, self._wants))
                grads[INPUTS * t : INPUTS * (t + 1)] = back

    def finish_back(self) -> list[Tensor | None]:
        """When all tasks are done: the gradients of ``inputs``."""
        grads = [value if wanted else None for value, wanted in zip(self._grads, self._wants, strict=True)]
        del self._g, self._tensors, self._wants, self._read, self._kept, self._grads
        return grads

    def plain(self, tensors: Sequence[Any]) -> list[Tensor]:
        """The sum of each group in operations that can be differentiated as often as one likes."""
        found: list[list[Tensor]] = [[] for _ in range(max(self.groups) + 1)]
        for task in self.tasks:
            for n, t in enumerate(task.places):
                own, *others = self._of(t, tensors)
                w1, b1, w2, b2, *norms = tensors[self._weights(t)]
                edges = self.edges[t]
                value = F.linear(own if edges is None else passing.plainly_passed(edges, own, *others), w1, b1)
                if w2 is not None:
                    value = F.linear(
                        plain_norm(value, task.inner and task.inner.of(n), task.maps[n].inner, None, *norms[:2]).relu(), w2, b2
                    )
                found[self.groups[t]].append(
                    plain_norm(value, task.outer and task.outer.of(n), task.maps[n].outer, None, *norms[2:])
                )
        return [torch.stack(values).sum(0) for values in found]

    def _of(self, t: int, tensors: Sequence[Any]) -> Sequence[Any]:
        """Values, sources, edge features and eps of a slot, out of all tensors."""
        return tensors[INPUTS * t : INPUTS * (t + 1)]

    def _weights(self, t: int) -> slice:
        """Where the weights of a slot are among all tensors."""
        start = INPUTS * self.slots + WEIGHTS * t
        return slice(start, start + WEIGHTS)


class Task:
    """Some slots with norms in the same places.

    Args:
        maps: the slots.
        places: their places in the stage.
        training: whether norms use the statistics of these rows.
    """

    def __init__(self, maps: Sequence[Map], places: Sequence[int], training: bool) -> None:
        self.maps, self.places, self.training = maps, list(places), training
        self.inner: Affine | None = None
        self.outer: Affine | None = None

    def forward(self, x: Sequence[Tensor]) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """What is kept, hidden values and results that a norm follows, and the results of the slots."""
        first = x[0].new_empty(len(self.maps), x[0].size(0), self.maps[0].w1.size(0))
        for value, m, into in zip(x, self.maps, first, strict=True):
            multiply(value, m.w1.t(), into, m.b1)
        hidden, y = None, first
        if self.maps[0].w2 is not None:
            self.inner = _affine(first, [m.inner for m in self.maps], self.training)
            hidden, y = first, first.new_empty(*first.shape[:2], self.maps[0].w2.size(0))
            for value, m, into in zip(self._activated(first), self.maps, y, strict=True):
                multiply(value, m.last[0].t(), into, m.b2)
        self.outer = _affine(y, [m.outer for m in self.maps], self.training)
        return hidden, None if self.outer is None else y, y if self.outer is None else self.outer(y)

    def _activated(self, hidden: Tensor) -> Tensor:
        return hidden.relu() if self.inner is None else self.inner(hidden).relu_()

    def backward(
        self, g: Tensor, x: Sequence[Tensor], wants: Sequence[bool], hidden: Tensor | None, y: Tensor | None
    ) -> tuple[list[Tensor | None], list[list[Tensor | None]]]:
        """The gradients of the inputs and of the weights of each slot, from those of the results."""
        g, b_last, outer = _through(g, self.outer, y)
        inner: Sequence[Sequence[Tensor | None]] = [(None, None)] * len(self.maps)
        w2: Sequence[Tensor | None] = [None] * len(self.maps)
        b2 = b1 = b_last
        if hidden is not None:
            value, before = self._activated(hidden), torch.empty_like(hidden)
            w2 = [products_of_rows(one, v, torch.empty_like(m.last[0])) for one, v, m in zip(g, value, self.maps, strict=True)]
            for one, m, into in zip(g, self.maps, before, strict=True):
                multiply(one, m.last[0], into)
            g, b1, inner = _through(passing.relu_back(before, value), self.inner, hidden)
        gx = [
            multiply(one, m.w1, torch.empty_like(value)) if wanted else None
            for one, m, value, wanted in zip(g, self.maps, x, wants, strict=True)
        ]
        w1 = [products_of_rows(one, value, torch.empty_like(m.w1)) for one, value, m in zip(g, x, self.maps, strict=True)]
        weights = [[w1[t], b1[t], w2[t], None if w2[t] is None else b2[t], *inner[t], *outer[t]] for t in range(len(self.maps))]
        return gx, weights


def tasks_of(maps: Sequence[Map], training: bool) -> list[Task]:
    """All slots, a few in each task."""
    alike: dict[tuple[bool, bool], list[int]] = {}
    for t, m in enumerate(maps):
        alike.setdefault((m.inner is None, m.outer is None), []).append(t)
    some = [places[n : n + TOGETHER] for places in alike.values() for n in range(0, len(places), TOGETHER)]
    return [Task([maps[t] for t in places], places, training) for places in some]


def _affine(y: Tensor, norms: Sequence[Norm | None], training: bool) -> Affine | None:
    """What norms do to the rows of their slots, shape (slots, 1, channels). In training their running statistics are updated."""
    own = [norm for norm in norms if norm is not None]
    if not own:
        return None
    rows = y.size(1)
    counted = rows if training and rows >= 2 else 0
    if counted:
        found = [torch.batch_norm_update_stats(one, None, None, 0.0) for one in y]
    else:
        found = [(norm.running_mean, norm.running_var) for norm in own]
    parts = zip(*((*one, norm.scale, norm.shift) for one, norm in zip(found, own, strict=True)), strict=True)
    mean, var, scale, shift = (vector(torch.stack(part)) for part in parts)
    if counted:
        for norm, m, v in zip(own, mean, var, strict=True):
            norm.update(m, v, rows)
    return Affine.make(mean[:, None], var[:, None], scale[:, None], shift[:, None], own[0].eps, y.dtype, counted)


def _through(g: Tensor, affine: Affine | None, y: Tensor | None) -> tuple[Tensor, Tensor, Sequence[Sequence[Tensor | None]]]:
    """The backward pass through norms: the gradients of their rows, of a bias before them, and of their scales and shifts."""
    total = g.sum(1, keepdim=True)
    if affine is None or y is None:
        return g, total[:, 0], [(None, None)] * g.size(0)
    scale = ((y - affine.mean) * affine.inverse).mul_(g).sum(1, keepdim=True)
    sums = vector(total), vector(scale)
    bias = tensor(bias_back(affine, sums[0]), g.dtype)
    return back(affine, sums)(g, y, None), bias[:, 0], list(zip(scale[:, 0], total[:, 0], strict=True))


def _total(values: Sequence[Tensor | None]) -> Tensor:
    first, *others = (value for value in values if value is not None)
    for value in others:
        first.add_(value)
    return first


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
    ) -> passing.Sums:
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
                made[t], h = passing.collect(h, None, slot.messages)
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
        for one, value in zip(self.added, tensors, strict=True):
            values = [sums[self.nodes.index(nodes)][group] for nodes, group in one.parts]
            values += [] if value is None else [value]
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
    def forward(ctx: Any, layer: _Layer, *tensors: Any) -> passing.Sums:
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
        return out, *passing.sums_of(out, work.pairs, layer.picks, layer.wanted)

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Any, ...]:
        layer, work, wants, saved = ctx.layer, ctx.layer.work, ctx.needs_input_grad[1:], ctx.saved_tensors
        tensors, (out, *kept) = saved[: ctx.inputs], saved[ctx.inputs :]
        if torch.is_grad_enabled():
            return None, *passing.differentiably(lambda *values: _plain(layer, *values), tensors, given)
        given = tuple(None if g is None else g.contiguous() for g in given)
        slots = len(work.maps)
        hidden, normed, kept = kept[:slots], kept[slots : 2 * slots], kept[2 * slots :]
        x, _, _, more = layer.split(tensors)
        wants_x, wants_added, wants_weights, wants_more = layer.split(wants)
        g_added: list[Tensor | None] = []

        def beside(g: Tensor, g_roots: Tensor | None) -> list[Callable[[], None]]:
            start = 0
            places = work.pairs.to_sub, work.pairs.to_node
            g_added.extend(passing.segment_sums(g, [where if has else None for where, has in zip(places, layer.has, strict=False)]))
            g_added.append(g_roots)
            for nodes, own, wanted in zip(layer.nodes, more, wants_more, strict=True):
                nodes.begin_back(layer.flows(g_added, nodes), own, kept[start : start + nodes.keeps], wanted)
                start += nodes.keeps
            return [partial(nodes.backward, n) for nodes in layer.nodes for n in range(len(nodes.tasks))]

        way = WorkBack(work, x, out, hidden, normed, wants_x, wants_weights)
        gx = way(passing.SumsBack(work.pairs, layer.picks, given, work.size), layer.has[2], beside)
        g_tables = [g if wanted else None for g, wanted in zip(g_added, wants_added, strict=True)]
        return None, *gx, *g_tables, *way.grads, *(g for nodes in layer.nodes for g in nodes.finish_back())


def _plain(layer: _Layer, *tensors: Any) -> passing.Sums:
    """The results of a stage in operations that can be differentiated any number of times; statistics are those of the forward pass."""
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
    return out, *passing.plain_sums(out, work.pairs, layer.picks, layer.wanted)
