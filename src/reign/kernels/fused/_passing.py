"""Message passing as in GIN and GINE: messages come from other rows of the same values, or from other values."""

from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from reign.kernels._plan import PassedMessages
from reign.kernels.fused import _messages
from reign.kernels.fused._launch import launch
from reign.kernels.fused._linear import add_up, apart, chunks, programs
from reign.kernels.fused._messages import FEW_TYPES
from reign.kernels.fused._stack import precision

BACKWARD = (16, 2112, 1)
MANY = 8_192  # number of rows below which smaller tiles are used


def collect(
    own: Sequence[Tensor] | None, source: Sequence[Tensor], messages: Sequence[PassedMessages], out: Sequence[Tensor]
) -> None:
    """``(1 + eps) own[t]`` (or nothing) plus the messages into t, for slots whose messages go along the same edges."""
    (rows, channels), edges = out[0].shape, messages[0].edges
    if rows == 0:
        return
    size, pieces = chunks(channels, 64 if channels % 16 == 0 else 32)  # unaligned rows need many registers
    tile = 64 if rows > MANY and channels % 16 == 0 else 16
    tables, eps, values = _tables(messages, out[0]), [m.eps for m in messages], out if own is None else own
    launch(_messages._collect, (triton.cdiv(rows, tile), len(out), pieces),
        values[0], apart(values), source[0], apart(source), edges.ptr, edges.source, edges.edge, edges.edge if edges.kind is None else edges.kind,
        tables[0], apart(tables), eps[0], apart(eps), out[0], apart(out), rows, channels,
        BC=size, BM=tile, OWN=own is not None, EDGES=messages[0].table is not None, TYPED=edges.kind is not None, num_warps=4,
    )  # fmt: skip


def collect_back(
    gy: Sequence[Tensor], source: Sequence[Tensor], messages: Sequence[PassedMessages], gx: Sequence[Tensor], own: bool, add: bool
) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """Add the gradients of the sources to ``gx``. Return the gradients of the tables, and those of eps if own rows are the sources."""
    tile, most, warps = BACKWARD
    (rows, channels), edges, slots = source[0].shape, messages[0].edges, len(source)
    (size, pieces), few = chunks(channels, 64 if channels % 16 == 0 else 32), edges.kind is not None
    count = programs(rows, tile, max(1, most // slots // pieces))
    types = FEW_TYPES * channels if few else 0
    part = source[0].new_empty(slots, count, types + pieces)
    tables, eps = _tables(messages, source[0]), [m.eps for m in messages]
    launch(_messages._collect_back, (count, slots, pieces),
        gy[0], apart(gy), source[0], apart(source), edges.ptr_t, edges.target, edges.edge_t, edges.edge_t if edges.kind is None else edges.kind,
        tables[0], apart(tables), eps[0], apart(eps), gx[0], apart(gx), part, rows, channels,
        BC=size, BM=tile, BE=FEW_TYPES, PREC=precision(), EDGES=messages[0].table is not None, TYPED=few, FEW=few, OWN=own, ADD=add,
        num_warps=warps,
    )  # fmt: skip
    total = add_up(part, part.new_empty(slots, types + pieces)) if few or own else part
    g_eps: list[Tensor | None] = [*_eps(total[:, types:])] if own else [None] * slots
    if few:
        return [total[t, :types].view(FEW_TYPES, channels)[: tables[t].size(0)] for t in range(slots)], g_eps
    return [None if m.table is None else _edge_gradient(gy[t], source[t], m) for t, m in enumerate(messages)], g_eps


def own_back(gy: Sequence[Tensor], own: Tensor, eps: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Gradients of values that are not sources of messages, and of eps, for one or two slots of the same values."""
    (rows, channels), (tile, most) = own.shape, (32, 264)
    size, pieces = chunks(channels)
    count, g_own = programs(rows, tile, most), torch.empty_like(own)
    part = own.new_empty(len(gy), count * pieces, 1)
    launch(_messages._own_backward, (count, pieces),
        gy[0], gy[-1], own, eps[0], eps[-1], g_own, part, rows, channels, TWO=len(gy) == 2, BC=size, BM=tile, num_warps=4
    )  # fmt: skip
    return g_own, list(add_up(part, part.new_empty(len(gy), 1)))


def _eps(found: Tensor) -> list[Tensor]:
    """The gradient of eps of each slot, summed over the parts of the channels."""
    return list(found if found.size(1) == 1 else found.sum(1, keepdim=True))


def _edge_gradient(gy: Tensor, source: Tensor, messages: PassedMessages) -> Tensor:
    """The gradient of a table with one row per edge."""
    edges, table = messages.edges, messages.table
    assert table is not None
    found, (size, pieces) = torch.empty_like(table), chunks(table.size(1), 32)
    if table.size(0):
        launch(_messages._edge_gradient, (table.size(0), pieces),
            gy, source, edges.ptr_e, edges.source_e, edges.target_e, table, found, table.size(1), BC=size, BM=16, num_warps=2,
        )  # fmt: skip
    return found


def _tables(messages: Sequence[PassedMessages], some: Tensor) -> list[Tensor]:
    return [some if m.table is None else m.table for m in messages]


def pass_messages(own: Tensor | None, source: Tensor, messages: Sequence[PassedMessages]) -> tuple[Tensor, ...]:
    """The values ``(1 + eps) own[t]`` plus messages from ``source`` into t, for one or two slots.

    Args:
        own: the values of the targets, which may be the sources themselves; None to sum messages alone.
        source: the values that messages come from.
        messages: the messages of each slot.
    """
    weights = [tensor for m in messages for tensor in (m.table, m.eps)]
    values = None if own is None else own.contiguous()
    origin = values if own is source else source.contiguous()
    out: tuple[Tensor, ...] = _Passed.apply(messages, values, origin, *weights)  # type: ignore[no-untyped-call]
    return out


class _Passed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, messages: Sequence[PassedMessages], own: Tensor | None, source: Tensor, *weights: Tensor | None
    ) -> tuple[Tensor, ...]:
        found = [source.new_empty(m.edges.ptr.numel() - 1, source.size(1)) for m in messages]
        for m, out in zip(messages, found, strict=True):
            collect(None if own is None else [own], [source], [m], [out])
        ctx.messages, ctx.same = messages, own is source
        ctx.save_for_backward(own, source)
        return tuple(found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor) -> tuple[Any, ...]:
        messages, (own, source), g = ctx.messages, ctx.saved_tensors, [one.contiguous() for one in given]
        g_own, g_source, tables, eps = None, torch.empty_like(source), list[Tensor | None](), list[Tensor | None]()
        for t, m in enumerate(messages):
            table, more = collect_back([g[t]], [source], [m], [g_source], own=ctx.same, add=t > 0)
            tables, eps = tables + table, eps + more
        if own is not None and not ctx.same:
            g_own, eps = own_back(g, own, [m.eps for m in messages])  # type: ignore[assignment]
        return None, g_own, g_source, *(grad for pair in zip(tables, eps, strict=True) for grad in pair)


def own_and_sum(own: Tensor, total: Tensor, eps: Tensor) -> Tensor:
    """The values ``(1 + eps) own`` plus sums that have been computed already."""
    out: Tensor = _OwnAndSum.apply(own.contiguous(), total, eps)  # type: ignore[no-untyped-call]
    return out


class _OwnAndSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, total: Tensor, eps: Tensor) -> Tensor:
        ctx.save_for_backward(own, eps)
        return torch.addcmul(total, own, 1 + eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        own, eps = ctx.saved_tensors
        g_own, (g_eps,) = own_back([g.contiguous()], own, [eps])
        return g_own, g, g_eps
