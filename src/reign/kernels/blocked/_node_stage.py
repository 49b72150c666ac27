"""Slots on nodes, subgraphs or roots: many slots and few rows, so operations are done for several slots at once.

    x[t]      = values, perhaps with messages to them
    hidden[t] = x[t] W1[t] + b1[t]
    y[t]      = relu(norm(hidden[t])) W2[t] + b2[t]
    out[g]    = the sum of norm(y[t]) over the slots t of group g

Threads work on different slots. Of an MLP only ``hidden`` is kept, and y if a norm comes after it; the way back computes the rest again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reign.kernels._indices import Edges
from reign.kernels._stages import NodeInput, NodePlan
from reign.kernels.blocked._norm import Affine, Norm, back
from reign.kernels.blocked._passing import passed, passed_back, plainly_passed, relu_back
from reign.kernels.blocked._slots import WEIGHTS, Map, maps_of
from reign.kernels.blocked._threads import each
from reign.kernels.blocked._twice import differentiably

TOGETHER = 2  # slots of one task
INPUTS = 4  # of a slot: values, sources, edge features, eps


class NodeStage(NodePlan):
    """Slots on nodes and subgraphs, several at once."""

    def __call__(self, inputs: Sequence[NodeInput]) -> Tensor:
        """One sum of slots a group, shape (groups, rows, out)."""
        maps = maps_of(self.stack, range(self.stack.slots))
        plan = Plan(
            self.groups, [None if one.messages is None else one.messages.edges for one in inputs], tasks_of(maps, self.training)
        )
        tensors = [v for one in inputs for v in one.tensors()] + [w for m in maps for w in m.weights()]
        out: Tensor = _NodeStage.apply(plan, *tensors)  # type: ignore[no-untyped-call]
        return out


@dataclass(frozen=True, eq=False)
class Plan:
    """The group of each slot, the edges of its messages if it has some, and which slots are evaluated together."""

    groups: tuple[int, ...]
    edges: list[Edges | None]
    tasks: "list[Task]"

    def inputs(self, t: int, tensors: Sequence[Any]) -> Sequence[Any]:
        """Values, sources, edge features and eps of a slot, out of all tensors."""
        return tensors[INPUTS * t : INPUTS * (t + 1)]

    def weights(self, t: int) -> slice:
        """Where the weights of a slot are among all tensors."""
        start = INPUTS * len(self.groups) + WEIGHTS * t
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
        self.w2, self.b2 = (None if maps[0].w2 is None else torch.stack([getattr(m, name) for m in maps]) for name in ("w2", "b2"))
        self.inner: Affine | None = None
        self.outer: Affine | None = None

    def forward(self, x: Sequence[Tensor]) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """What is kept, hidden values and results that a norm follows, and the results of the slots."""
        first = x[0].new_empty(len(self.maps), x[0].size(0), self.maps[0].w1.size(0))
        for value, m, into in zip(x, self.maps, first, strict=True):
            torch.addmm(m.b1, value, m.w1.t(), out=into)
        if self.w2 is None or self.b2 is None:
            hidden, y = None, first
        else:
            self.inner = _affine(first, [m.inner for m in self.maps], self.training)
            hidden, y = first, torch.baddbmm(self.b2[:, None], self._activated(first), self.w2.transpose(1, 2))
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
        if self.w2 is not None and hidden is not None:
            value = self._activated(hidden)
            w2 = torch.bmm(g.transpose(1, 2), value).unbind()
            g, b1, inner = _through(relu_back(torch.bmm(g, self.w2), value), self.inner, hidden)
        gx = [torch.mm(one, m.w1) if wanted else None for one, m, wanted in zip(g, self.maps, wants, strict=True)]
        w1 = [torch.mm(one.t(), value) for one, value in zip(g, x, strict=True)]
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
    if counted := rows if training and rows >= 2 else 0:
        found = [torch.batch_norm_update_stats(one, None, None, 0.0) for one in y]
        for norm, (mean, var) in zip(own, found, strict=True):
            norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), norm.momentum)
            norm.running_var.lerp_((var * (rows / (rows - 1))).to(norm.running_var.dtype), norm.momentum)
    else:
        found = [(norm.running_mean, norm.running_var) for norm in own]
    mean, var = (torch.stack([one[n] for one in found])[:, None].double() for n in range(2))
    scale, shift = (torch.stack([getattr(norm, name) for norm in own])[:, None].double() for name in ("scale", "shift"))
    inverse = (var + own[0].eps).rsqrt()
    alpha = scale * inverse
    beta = shift - mean * alpha
    return Affine(alpha.to(y.dtype), beta.to(y.dtype), mean.to(y.dtype), inverse.to(y.dtype), counted)


def _through(g: Tensor, affine: Affine | None, y: Tensor | None) -> tuple[Tensor, Tensor, Sequence[Sequence[Tensor | None]]]:
    """The way back through norms: the gradients of their rows, of a bias before them, and of their scales and shifts."""
    total = g.sum(1, keepdim=True)
    if affine is None or y is None:
        return g, total[:, 0], [(None, None)] * g.size(0)
    scale = ((y - affine.mean) * affine.inverse).mul_(g).sum(1, keepdim=True)
    bias = torch.zeros_like(total) if affine.number else total * affine.alpha
    through = back(affine, (total.double(), scale.double()))(g, y, None)
    return through, bias[:, 0], list(zip(scale[:, 0], total[:, 0], strict=True))


class _NodeStage(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, *tensors: Any) -> Tensor:
        tasks, slots = plan.tasks, len(plan.groups)
        x: list[Tensor | None] = [None] * slots
        kept: list[Tensor | None] = [None] * (2 * len(tasks))
        found: list[Tensor | None] = [None] * slots

        def work(n: int) -> None:
            task = tasks[n]
            read = []
            for t in task.places:
                own, *others = plan.inputs(t, tensors)
                edges = plan.edges[t]
                read.append(own if edges is None else passed(edges, own, *others))
                x[t] = None if edges is None else read[-1]
            kept[2 * n], kept[2 * n + 1], results = task.forward(read)
            for t, y in zip(task.places, results, strict=True):
                found[t] = y

        each(len(tasks), work)
        ctx.plan = plan
        ctx.save_for_backward(*tensors, *x, *kept)
        groups = range(max(plan.groups) + 1)
        return torch.stack([_total([y for y, own in zip(found, plan.groups, strict=True) if own == g]) for g in groups])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        plan, wants = ctx.plan, ctx.needs_input_grad[1:]
        tasks, slots, saved = plan.tasks, len(plan.groups), ctx.saved_tensors
        tensors, x, kept = saved[: len(wants)], saved[len(wants) : len(wants) + slots], saved[len(wants) + slots :]
        if torch.is_grad_enabled():
            return None, *differentiably(lambda *values: [_plain(plan, *values)], tensors, [g])
        grads: list[Tensor | None] = [None] * len(tensors)

        def work(n: int) -> None:
            task = tasks[n]
            mine = g.index_select(0, torch.tensor([plan.groups[t] for t in task.places]))
            read = [plan.inputs(t, tensors)[0] if x[t] is None else x[t] for t in task.places]
            wanted = [any(plan.inputs(t, wants)) for t in task.places]
            found, weights = task.backward(mine, read, wanted, *kept[2 * n : 2 * n + 2])
            for t, gx, own in zip(task.places, found, weights, strict=True):
                grads[plan.weights(t)] = own
                if (edges := plan.edges[t]) is None or gx is None:
                    grads[INPUTS * t] = gx
                else:
                    back = passed_back(edges, plan.inputs(t, tensors), gx, None, plan.inputs(t, wants))
                    grads[INPUTS * t : INPUTS * (t + 1)] = back

        each(len(tasks), work)
        return None, *(value if wanted else None for value, wanted in zip(grads, wants, strict=True))


def _total(values: Sequence[Tensor | None]) -> Tensor:
    first, *others = (value for value in values if value is not None)
    for value in others:
        first.add_(value)
    return first


def _plain(plan: Plan, *tensors: Any) -> Tensor:
    """The same in operations that can be differentiated as often as one likes."""
    found: list[list[Tensor]] = [[] for _ in range(max(plan.groups) + 1)]
    for task in plan.tasks:
        for n, t in enumerate(task.places):
            own, *others = plan.inputs(t, tensors)
            w1, b1, w2, b2, *norms = tensors[plan.weights(t)]
            edges = plan.edges[t]
            value = F.linear(own if edges is None else plainly_passed(edges, own, *others), w1, b1)
            if w2 is not None:
                value = F.linear(_plain_norm(value, task.inner, n, task.maps[n].inner, *norms[:2]).relu(), w2, b2)
            found[plan.groups[t]].append(_plain_norm(value, task.outer, n, task.maps[n].outer, *norms[2:]))
    return torch.stack([torch.stack(values).sum(0) for values in found])


def _plain_norm(y: Tensor, affine: Affine | None, n: int, norm: Norm | None, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    if affine is None or norm is None or scale is None or shift is None:
        return y
    if affine.number == 0:
        return (y - affine.mean[n]) * affine.inverse[n] * scale + shift
    var, mean = torch.var_mean(y, dim=0, correction=0)
    return (y - mean) * (var + norm.eps).rsqrt() * scale + shift
