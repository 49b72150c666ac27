"""Message passing as in GIN and GINE, ``(1 + eps) own[t]`` plus the messages into t, without a tensor of all messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from reign.kernels._plan import Edges, PassedMessages
from reign.kernels.blocked._kept import kept
from reign.kernels.blocked._sums import bag_sums
from reign.kernels.blocked._threads import block_rows, both, each
from reign.kernels.blocked._twice import differentiably

FEW_TYPES = 32  # as many types of edges share a product with their one-hot vectors


def collect(own: Tensor, source: Tensor | None, messages: PassedMessages) -> tuple[Tensor, Tensor]:
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
    blocks = _cut(edges, "forth", own.size(1))

    def work(n: int) -> None:
        b = blocks[n]
        if table is None:
            found = bag_sums(values, b.reads, b.ptr)
        else:
            message = values.index_select(0, b.reads).add_(table.index_select(0, b.kind)).relu_()
            found = bag_sums(message, b.count, b.ptr)
        torch.add(found, own[b.rows], alpha=factor, out=out[b.rows])

    each(len(blocks), work)
    return out


def passed_back(
    edges: Edges, inputs: Sequence[Any], g: Tensor, more: Tensor | None, wants: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """The gradients of values, sources, edge features and eps, as far as they are wanted; ``more`` is what else flows back to the values."""
    own, source, table, eps = inputs
    values, factor = own if source is None else source, 1 + float(eps)
    wants_own, wants_source, wants_table, wants_eps = wants
    g_values = torch.empty_like(values)
    few = table is not None and edges.kind is not None and wants_table
    blocks = _cut(edges, "back", values.size(1))
    types: list[Tensor] = [g] * len(blocks)
    dots = list(zip(_split(g), _split(own), strict=True)) if wants_eps else []
    products: list[Tensor] = [g] * len(dots)

    def work(n: int) -> None:
        b = blocks[n]
        if table is None:
            found = bag_sums(g, b.reads, b.ptr)
        else:
            message = g.index_select(0, b.reads)
            relu_back(message, values[b.rows].index_select(0, b.places).add_(table.index_select(0, b.kind)))
            found = bag_sums(message, b.count, b.ptr)
            if few:
                types[n] = b.one_hot(table) @ message
        into = g_values[b.rows]
        if source is None:
            torch.add(found, g[b.rows], alpha=factor, out=into)
            if more is not None:
                into.add_(more[b.rows])
        else:
            into.copy_(found)

    def multiply(n: int) -> None:
        one, two = dots[n]
        products[n] = torch.dot(one.view(-1), two.view(-1))

    both(len(blocks) if wants_own or wants_source or few else 0, work, [partial(multiply, n) for n in range(len(dots))])
    g_table = None
    if table is not None and wants_table:
        g_table = _total(types, table) if few else _edge_gradient(g, values, table, edges)
    g_own = g_values if source is None else g * factor if more is None else torch.add(more, g, alpha=factor)
    g_eps = torch.stack(products).sum(dtype=torch.float64).to(eps.dtype).view_as(eps) if wants_eps else None
    return g_own, None if source is None else g_values, g_table, g_eps


def _total(parts: list[Tensor], like: Tensor) -> Tensor:
    """The sum of the parts of all blocks; zeros if there are none."""
    return torch.stack(parts).sum(0) if parts else torch.zeros_like(like)


def _edge_gradient(g: Tensor, values: Tensor, table: Tensor, edges: Edges) -> Tensor:
    """The gradient of a table with a row for each edge."""
    found = torch.empty_like(table)
    blocks = _cut(edges, "edges", table.size(1))

    def work(n: int) -> None:
        b = blocks[n]
        value = values.index_select(0, b.reads).add_(table[b.rows].index_select(0, b.places))
        message = relu_back(g.index_select(0, edges.target_e[b.entries]), value)
        found[b.rows] = bag_sums(message, b.count, b.ptr)

    each(len(blocks), work)
    return found


@dataclass(eq=False)
class _Block:
    """Some segments of messages: those to some targets, from some sources, or along some edges.

    Args:
        rows: the segments.
        entries: their messages.
        ptr: where the messages of each segment begin, among those of the block.
        reads: what each message reads.
        kind: the row of the table of edge features that belongs to each message.
    """

    rows: slice
    entries: slice
    ptr: Tensor
    reads: Tensor
    kind: Tensor

    @property
    def places(self) -> Tensor:
        """The segment of each message, within the block."""
        return kept(self, "places", lambda: torch.repeat_interleave(self.ptr.diff(), output_size=self.reads.numel()))

    @property
    def count(self) -> Tensor:
        """The messages by number."""
        return kept(self, "count", lambda: torch.arange(self.reads.numel(), dtype=torch.int32))

    def one_hot(self, table: Tensor) -> Tensor:
        """The types of the messages as unit vectors, shape (types, messages)."""
        types, dtype = table.size(0), table.dtype
        return kept(self, (types, dtype), lambda: (self.kind == torch.arange(types, dtype=self.kind.dtype)[:, None]).to(dtype))


def _cut(edges: Edges, way: str, channels: int) -> list[_Block]:
    """Blocks of messages to the same targets ("forth"), from the same sources ("back") or along the same edges ("edges")."""
    ptr, reads, edge = {
        "forth": (edges.ptr, edges.source, edges.edge),
        "back": (edges.ptr_t, edges.target, edges.edge_t),
        "edges": (edges.ptr_e, edges.source_e, None),
    }[way]
    number = ptr.numel() - 1
    most = max(number, reads.numel())  # the messages are what takes room
    blocks = -(-most // block_rows(most, channels)) if number else 1

    def make() -> list[_Block]:
        starts = [*range(0, number, max(1, -(-number // blocks))), number]
        cuts = ptr[torch.tensor(starts)].tolist()
        kind = reads if edge is None else _rows_of_table(edges, edge)
        parts = zip(pairwise(starts), pairwise(cuts), strict=True)
        return [_Block(slice(a, b), slice(c, d), ptr[a : b + 1] - c, reads[c:d], kind[c:d]) for (a, b), (c, d) in parts]

    return kept(edges, (way, blocks), make)


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


def _split(x: Tensor) -> Sequence[Tensor]:
    """Blocks of rows."""
    return x.contiguous().split(block_rows(*x.shape))
