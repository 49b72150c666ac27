"""Message passing as in GIN and GINE, ``(1 + eps) own[t]`` plus the messages into t, without a tensor of all messages."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from reign.kernels._indices import Edges
from reign.kernels._stages import Messages
from reign.kernels.blocked._sums import bag_sums
from reign.kernels.blocked._threads import block_rows, each
from reign.kernels.blocked._twice import differentiably

FEW_TYPES = 32  # as many types of edges share a product with their one-hot vectors


def collect(own: Tensor, source: Tensor | None, messages: Messages) -> tuple[Tensor, Tensor]:
    """Values with the messages to them, and the values themselves for others to read: what flows back from both is then added up block by block.

    Args:
        own: the values.
        source: where messages come from; the values themselves if not given.
        messages: the messages.
    """
    return _Collect.apply(messages.edges, own, source, messages.table, messages.eps)  # type: ignore[no-untyped-call]


def relu_back(g: Tensor, value: Tensor) -> Tensor:
    """Set gradients to zero, in place, where a value is not positive."""
    torch.ops.aten.threshold_backward.grad_input(g, value, 0, grad_input=g)
    return g


class _Collect(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, edges: Edges, own: Tensor, source: Tensor | None, table: Tensor | None, eps: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.edges = edges
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(own, source, table, eps)
        return passed(edges, own, source, table, eps), own.view_as(own)

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, more: Tensor | None) -> tuple[Tensor | None, ...]:
        inputs, edges = ctx.saved_tensors, ctx.edges
        if torch.is_grad_enabled():
            return None, *differentiably(lambda *values: [plainly_passed(edges, *values), values[0]], inputs, [g, more])
        if g is None:
            return None, more, None, None, None
        return None, *passed_back(edges, inputs, g.contiguous(), more, ctx.needs_input_grad[1:])


def passed(edges: Edges, own: Tensor, source: Tensor | None, table: Tensor | None, eps: Tensor) -> Tensor:
    """Values with the messages to them; see ``collect``."""
    values, factor = own if source is None else source, 1 + float(eps)
    out = torch.empty_like(own)
    kind = _rows_of_table(edges, edges.edge)

    def work(first: int, last: int, entries: slice, ptr: Tensor) -> None:
        if table is None:
            found = bag_sums(values, edges.source[entries], ptr)
        else:
            message = values.index_select(0, edges.source[entries]).add_(table.index_select(0, kind[entries])).relu_()
            found = bag_sums(message, _count(message), ptr)
        torch.add(found, own[first:last], alpha=factor, out=out[first:last])

    _by_segment(edges.ptr, own.size(1), work)
    return out


def passed_back(
    edges: Edges, inputs: Sequence[Any], g: Tensor, more: Tensor | None, wants: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """The gradients of values, sources, edge features and eps, as far as they are wanted; ``more`` is what else flows back to the values."""
    own, source, table, eps = inputs
    values, factor = own if source is None else source, 1 + float(eps)
    wants_own, wants_source, wants_table, wants_eps = wants
    g_values = torch.empty_like(values)
    kind = _rows_of_table(edges, edges.edge_t)
    few = table is not None and edges.kind is not None and wants_table
    types: dict[int, Tensor] = {}

    def work(first: int, last: int, entries: slice, ptr: Tensor) -> None:
        if table is None:
            found = bag_sums(g, edges.target[entries], ptr)
        else:
            message = g.index_select(0, edges.target[entries])
            mine = kind[entries]
            places = torch.repeat_interleave(ptr.diff(), output_size=message.size(0))
            relu_back(message, values[first:last].index_select(0, places).add_(table.index_select(0, mine)))
            found = bag_sums(message, _count(message), ptr)
            if few:
                types[first] = _one_hot(mine, table) @ message
        if source is None:
            torch.add(found, g[first:last], alpha=factor, out=g_values[first:last])
            if more is not None:
                g_values[first:last].add_(more[first:last])
        else:
            g_values[first:last] = found

    if wants_own or wants_source or few:
        _by_segment(edges.ptr_t, values.size(1), work)
    g_table = None
    if table is not None and wants_table:
        g_table = _in_order(types, table) if few else _edge_gradient(g, values, table, edges)
    g_own = g_values if source is None else g * factor if more is None else torch.add(more, g, alpha=factor)
    g_eps = _dot(g, own).to(eps.dtype).view_as(eps) if wants_eps else None
    return g_own, None if source is None else g_values, g_table, g_eps


def _in_order(parts: dict[int, Tensor], like: Tensor) -> Tensor:
    """The sum of the parts of all blocks, always in the same order; zeros if there are none."""
    return torch.stack([parts[b] for b in sorted(parts)]).sum(0) if parts else torch.zeros_like(like)


def _edge_gradient(g: Tensor, values: Tensor, table: Tensor, edges: Edges) -> Tensor:
    """The gradient of a table with a row for each edge."""
    found = torch.empty_like(table)

    def work(first: int, last: int, entries: slice, ptr: Tensor) -> None:
        places = torch.repeat_interleave(ptr.diff())
        value = values.index_select(0, edges.source_e[entries]).add_(table[first:last].index_select(0, places))
        message = relu_back(g.index_select(0, edges.target_e[entries]), value)
        found[first:last] = bag_sums(message, _count(message), ptr)

    _by_segment(edges.ptr_e, table.size(1), work)
    return found


def _by_segment(ptr: Tensor, channels: int, work: Callable[[int, int, slice, Tensor], None]) -> None:
    """Do something with blocks of segments: the first and the last of them, their entries, and where these begin."""
    number = ptr.numel() - 1
    entries = int(ptr[-1]) if number else 0
    most = max(number, entries)  # the entries are what takes room
    blocks = -(-most // block_rows(most, channels)) if number else 1
    starts = [*range(0, number, max(1, -(-number // blocks))), number]
    cuts = ptr[torch.tensor(starts)].tolist()

    def block(b: int) -> None:
        first, last = starts[b], starts[b + 1]
        work(first, last, slice(cuts[b], cuts[b + 1]), ptr[first : last + 1] - cuts[b])

    each(len(starts) - 1, block)


def plainly_passed(edges: Edges, own: Tensor, source: Tensor | None, table: Tensor | None, eps: Tensor) -> Tensor:
    """The same in operations that can be differentiated as often as one likes."""
    values = own if source is None else source
    message = values.index_select(0, edges.source)
    if table is not None:
        message = (message + table.index_select(0, _rows_of_table(edges, edges.edge))).relu()
    target = torch.repeat_interleave(edges.ptr.diff())
    return (1 + eps) * own + torch.zeros_like(own).index_add(0, target, message)


def _rows_of_table(edges: Edges, edge: Tensor) -> Tensor:
    """Which row of the table belongs to each message: that of its edge, or of the type of its edge."""
    return edge if edges.kind is None else edges.kind.index_select(0, edge)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """The sum of all products, added up in float64."""
    pieces = zip(a.split(block_rows(*a.shape)), b.contiguous().split(block_rows(*a.shape)), strict=True)
    return torch.stack([torch.dot(one.view(-1), two.view(-1)) for one, two in pieces]).sum(dtype=torch.float64)


def _one_hot(kind: Tensor, table: Tensor) -> Tensor:
    return (kind == torch.arange(table.size(0), dtype=kind.dtype)[:, None]).to(table.dtype)


def _count(message: Tensor) -> Tensor:
    return torch.arange(message.size(0), dtype=torch.int32)
