"""Message passing as a differentiable function: see ``_messages`` for the formula."""

from typing import Any

import torch
import triton
from torch import Tensor

from reign.kernels._indices import Edges
from reign.kernels.fused import _messages
from reign.kernels.fused._linear import add_up, block, programs
from reign.kernels.fused._messages import FEW_TYPES
from reign.kernels.fused._stack import precision

BACKWARD = (16, 1056, 2)


def collect(own: Tensor, source: Tensor, edges: Edges, table: Tensor | None, eps: Tensor) -> Tensor:
    """``(1 + eps) own[t]`` plus the messages into t."""
    out = torch.empty_like(own)
    rows, channels = own.shape
    size = block(channels)
    tile = 64 if size <= 64 else 32
    some = own if table is None else table
    _messages._forward[(triton.cdiv(rows, tile),)](
        own, source, edges.ptr, edges.source, edges.edge, edges.edge if edges.kind is None else edges.kind, some, eps, out, rows, channels,
        BC=size, BM=tile, EDGES=table is not None, TYPED=edges.kind is not None, num_warps=4,
    )  # fmt: skip
    return out


def collect_back(
    gy: Tensor, source: Tensor, edges: Edges, table: Tensor | None, eps: Tensor, gx: Tensor, own: bool, add: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of the sources into ``gx`` (added to what is there), of the table, and of eps where own rows are the sources."""
    tile, most, warps = BACKWARD
    rows, channels = source.shape
    size, few = block(channels), edges.kind is not None
    count = programs(rows, tile, most)
    part = source.new_empty(1, count, FEW_TYPES * channels) if few else source
    part_eps = source.new_empty(1, count, 1) if own else source
    _messages._backward[(count,)](
        gy, source, edges.ptr_t, edges.target, edges.edge_t, edges.edge_t if edges.kind is None else edges.kind,
        source if table is None else table, eps, gx, part, part_eps, rows, channels,
        BC=size, BM=tile, BE=FEW_TYPES, PREC=precision(), EDGES=table is not None, TYPED=few, FEW=few, OWN=own, ADD=add, num_warps=warps,
    )  # fmt: skip
    g_eps = add_up(part_eps, source.new_empty(1, 1)).view(1) if own else None
    if table is None:
        return None, g_eps
    if few:
        return add_up(part, source.new_empty(1, FEW_TYPES * channels)).view(FEW_TYPES, channels)[: table.size(0)], g_eps
    g_table = torch.empty_like(table)
    _messages._edge_gradient[(triton.cdiv(table.size(0), 32),)](
        gy, source, edges.ptr_e, edges.source_e, edges.target_e, edges.edge, table, g_table, table.size(0), channels, BC=size, BM=32, TYPED=False,
        num_warps=4,
    )  # fmt: skip
    return g_table, g_eps


class _Collect(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, source: Tensor, table: Tensor | None, eps: Tensor, edges: Edges) -> Tensor:
        ctx.save_for_backward(own, source, table, eps)
        ctx.edges, ctx.same = edges, own.data_ptr() == source.data_ptr() and own.shape == source.shape
        return collect(own, source, edges, table, eps)

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> tuple[Tensor | None, ...]:
        own, source, table, eps = ctx.saved_tensors
        gy, gx = gy.contiguous(), torch.empty_like(source)
        g_table, g_eps = collect_back(gy, source, ctx.edges, table, eps, gx, own=ctx.same, add=False)
        if ctx.same:
            return None, gx, g_table, g_eps, None
        return (1 + eps) * gy, gx, g_table, (gy * own).sum().view(1), None


def pass_messages(own: Tensor, source: Tensor, edges: Edges, table: Tensor | None, eps: Tensor) -> Tensor:
    """``(1 + eps) own[t] + sum of relu(source[s] + table[e])`` over the messages into t; without a table, of ``source[s]``."""
    out: Tensor = _Collect.apply(own, source, table, eps, edges)  # type: ignore[no-untyped-call]
    return out
