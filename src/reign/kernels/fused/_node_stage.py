"""All maps of a layer on nodes, subgraphs and roots as one stage."""

from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from reign.kernels._plan import NodeInput, NodePlan, PassedMessages
from reign.kernels.fused import _rows, _stack
from reign.kernels.fused._launch import launch
from reign.kernels.fused._linear import block, pointers
from reign.kernels.fused._passing import collect, collect_back, own_back
from reign.kernels.fused._stack import Saved, addresses, norm_sums, numbers


class NodeStage(NodePlan):
    """Slots on nodes and subgraphs, in fused kernels."""

    def __call__(self, inputs: Sequence[NodeInput]) -> Tensor:
        """The sum of the slots of each group, shape (groups, rows, out). Inputs with messages come last."""
        tensors = [tensor for one in inputs for tensor in one.tensors()]
        out: Tensor = _NodeStage.apply(self, [one.messages for one in inputs], *tensors, *self.stack.parameters())  # type: ignore[no-untyped-call]
        return out


class _NodeStage(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, stage: NodeStage, messages: list[PassedMessages | None], *rest: Tensor) -> Tensor:
        rows, stack, slots = stage.rows, stage.stack, len(messages)
        own, source = [t.contiguous() for t in rest[: 4 * slots : 4]], rest[1 : 4 * slots : 4]
        x = own[0].new_empty(slots, rows.number, own[0].size(1))
        plain = messages.count(None)
        if plain:
            torch.cat(own[:plain], out=x[:plain].view(-1, x.size(2)))
        for ts in _together(messages, source):
            collect([own[t] for t in ts], [_source(own, source, t) for t in ts], [messages[t] for t in ts], [x[t] for t in ts])  # type: ignore[misc]
        y = x.new_empty(slots, rows.number, stack.out_channels)
        saved = _stack.forward(stack, list(x), rows, stage.training, list(y))
        channels, outer, none = stack.out_channels, stack.outer, pointers(stack.b1)
        out = x.new_empty(max(stage.groups) + 1, rows.number, channels)
        launch(_rows._add_groups, (triton.cdiv(rows.number, 32), out.size(0)),
            y, y if saved.outer is None else saved.outer, none if outer is None else addresses(outer, "scale"),
            none if outer is None else addresses(outer, "shift"), numbers(stage.groups, x.device), 0 if outer is None else outer.mask,
            rows.flags, out, rows.number, channels, stack.slots, BC=block(channels), BM=32, MASKED=rows.outer != 0, num_warps=4,
        )  # fmt: skip
        ctx.stage, ctx.messages = stage, messages
        read = [None if m is None else t for m, t in zip(messages, own, strict=True)]
        ctx.save_for_backward(x, None if outer is None else y, *read, *source, *saved.tensors())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        stage, messages, slots = ctx.stage, ctx.messages, len(ctx.messages)
        x, y, *rest = ctx.saved_tensors
        own, source, saved = rest[:slots], rest[slots : 2 * slots], Saved.of(rest[2 * slots :])
        g, gx, group = g.contiguous(), torch.empty_like(x), numbers(stage.groups, x.device)
        sums = None if y is None else norm_sums(list(y), saved.outer, stage.rows, g, g.stride(0), group)
        out = list(x) if y is None else list(y)
        weights = _stack.backward(stage.stack, saved, list(x), out, stage.rows, g, g.stride(0), group, sums, list(gx))
        grads: list[list[Tensor | None]] = [[gx[t], None, None, None] for t in range(slots)]
        for ts in _together(messages, source):
            same = source[ts[0]] is None
            froms = [_source(own, source, t) for t in ts]
            g_from = [torch.empty_like(f) for f in froms]
            tables, eps = collect_back([gx[t] for t in ts], froms, [messages[t] for t in ts], g_from, own=same, add=False)
            for t, found, table, g_eps in zip(ts, g_from, tables, eps, strict=True):
                g_own, (g_eps,) = (found, [g_eps]) if same else own_back([gx[t]], own[t], [messages[t].eps])
                grads[t] = [g_own, None if same else found, table, g_eps]
        return None, None, *(g for slot in grads for g in slot), *weights


def _source(own: Sequence[Tensor], source: Sequence[Tensor | None], t: int) -> Tensor:
    found = source[t]
    return own[t] if found is None else found


def _together(messages: Sequence[PassedMessages | None], source: Sequence[Tensor | None]) -> list[list[int]]:
    """The slots in groups of one or two whose messages are passed together."""
    found: list[list[int]] = []
    for t, m in enumerate(messages):
        if m is None:
            continue
        for ts in found:
            first = messages[ts[0]]
            assert first is not None
            if len(ts) == 1 and first.fits(m) and (source[ts[0]] is None) == (source[t] is None):
                ts.append(t)
                break
        else:
            found.append([t])
    return found
