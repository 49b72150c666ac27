"""Sums over ragged rows in blocks: of the values of pairs that layers ask for, and of messages as in GIN and GINE.

Messages are ``(1 + eps) own[t]`` plus the messages into t, without a tensor of all messages. Gradients that are to be differentiated again are
computed once more, by plain operations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from reign.kernels._plan import Edges, PairIndex, PassedMessages, Picks, Segments
from reign.kernels.blocked._blocks import block_rows, both, cached, each, products_of_rows


def differentiably(
    plain: Callable[..., Sequence[Tensor | None]], inputs: Sequence[Tensor | None], given: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """The gradients of the inputs of a plain function, as results of operations that autograd records.

    Args:
        plain: the function.
        inputs: its inputs; None and what needs no gradient get none.
        given: the gradients of its results.
    """
    views = [x if x is None or not x.requires_grad else x.view_as(x) for x in inputs]  # one may have been computed from another
    results = plain(*views)
    pairs = [(y, g) for y, g in zip(results, given, strict=True) if y is not None and g is not None and y.requires_grad]
    wanted = [v for v in views if v is not None and v.requires_grad]
    if not pairs or not wanted:
        return [None] * len(inputs)
    found = iter(torch.autograd.grad([y for y, _ in pairs], wanted, [g for _, g in pairs], create_graph=True, allow_unused=True))
    return [None if v is None or not v.requires_grad else next(found) for v in views]


Sums = tuple[Tensor | None, ...]


def bag_sums(x: Tensor, index: Tensor, ptr: Tensor) -> Tensor:
    """``out[t]`` is the sum of ``x[index[ptr[t]:ptr[t + 1]]]``."""
    if index.numel() == 0:
        return x.new_zeros(ptr.numel() - 1, x.size(1))
    return torch.embedding_bag(x, index, ptr, mode=0, include_last_offset=True)[0]


def segment_sums(x: Tensor, several: Sequence[Segments | None]) -> list[Tensor | None]:
    """Sums of rows, one row a segment, for several kinds of segments at the same time; None where there are no segments."""
    found: list[Tensor | None] = []
    work: list[tuple[Tensor, Tensor, Tensor]] = []
    for segments in several:
        if segments is None:
            found.append(None)
            continue
        number = segments.ptr.numel() - 1
        out, size = x.new_empty(number, x.size(1)), block_rows(number, x.size(1))
        found.append(out)
        blocks = cached(segments, size, partial(_cut_segments, segments, size))
        work += [(part, *block) for part, block in zip(out.split(size), blocks, strict=True)]

    def one(b: int) -> None:
        part, index, ptr = work[b]
        part.copy_(bag_sums(x, index, ptr))

    each(len(work), one)
    return found


def _cut_segments(segments: Segments, size: int) -> list[tuple[Tensor, Tensor]]:
    """The rows of the segments of each block, and where each segment begins among them."""
    ptr, number = segments.ptr, segments.ptr.numel() - 1
    starts = range(0, number, size)
    cuts = ptr[torch.tensor([*starts, number])].tolist()
    index = torch.arange(cuts[-1], dtype=ptr.dtype) if segments.index is None else segments.index
    return [(index[a:b], ptr[first : first + size + 1] - a) for first, (a, b) in zip(starts, pairwise(cuts), strict=True)]


def sums_of(h: Tensor, pairs: PairIndex, picks: Picks | None, wanted: frozenset[str]) -> Sums:
    """Readout, needle, roots and picked rows of values, as far as they are wanted."""
    readout, needle = segment_sums(
        h, [pairs.to_sub if "readout" in wanted else None, pairs.to_node if "needle" in wanted else None]
    )
    roots = h.index_select(0, pairs.root) if "root" in wanted and pairs.root is not None else None
    return readout, needle, roots, None if picks is None else h.index_select(0, picks.rows)


def plain_sums(h: Tensor, pairs: PairIndex, picks: Picks | None, wanted: frozenset[str]) -> Sums:
    """Readout, needle, roots and picked rows in operations that can be differentiated any number of times."""
    subs, nodes = pairs.sub_ptr.numel() - 1, pairs.node_ptr.numel() - 1
    readout = h.new_zeros(subs, h.size(1)).index_add(0, pairs.sub, h) if "readout" in wanted else None
    needle = h.new_zeros(nodes, h.size(1)).index_add(0, pairs.node, h) if "needle" in wanted else None
    roots = h.index_select(0, pairs.root) if "root" in wanted and pairs.root is not None else None
    return readout, needle, roots, None if picks is None else h.index_select(0, picks.rows)


class SumsBack:
    """What flows back to the pairs of a block from themselves, readout, needle, roots and picked rows.

    Args:
        pairs, picks: the pairs, and which of them were picked.
        given: the gradients, None where there is none.
        size: number of rows of a block.
    """

    def __init__(self, pairs: PairIndex, picks: Picks | None, given: Sequence[Tensor | None], size: int) -> None:
        own, self.readout, self.needle, root, near = given
        self.own = None if own is None else own.split(size)
        self.sub, self.node = cached(pairs, ("subs and nodes", size), lambda: (pairs.sub.split(size), pairs.node.split(size)))
        self.root = None if root is None else (root, roots_of(pairs, size))
        self.near = (
            None
            if near is None or picks is None
            else (near, cached(picks, size, lambda: _cut_segments(Segments(picks.ptr, picks.index), size)))
        )

    def __call__(self, b: int, out: Tensor) -> None:
        """Write it for block b."""
        parts = [None if self.own is None else self.own[b]]
        parts.append(None if self.readout is None else self.readout.index_select(0, self.sub[b]))
        parts.append(None if self.needle is None else self.needle.index_select(0, self.node[b]))
        if self.near is not None and self.near[1][b][0].numel():
            parts.append(bag_sums(self.near[0], *self.near[1][b]))
        found = [part for part in parts if part is not None]
        if len(found) >= 2:
            torch.add(found[0], found[1], out=out)
        elif found:
            out.copy_(found[0])
        else:
            out.zero_()
        for part in found[2:]:
            out.add_(part)
        if self.root is not None:
            mine, places = self.root[1][b]
            out.index_add_(0, places, self.root[0][mine])


def roots_of(pairs: PairIndex, size: int) -> list[tuple[slice, Tensor]]:
    """For each block of pairs the subgraphs whose roots lie in it, and where."""

    def make() -> list[tuple[slice, Tensor]]:
        assert pairs.root is not None
        root, starts = pairs.root.long(), range(0, pairs.number, size)
        cuts = torch.searchsorted(root, torch.tensor([*starts, pairs.number])).tolist()
        return [(slice(a, b), root[a:b] - start) for start, (a, b) in zip(starts, pairwise(cuts), strict=True)]

    return cached(pairs, ("roots", size), make)


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, pairs: PairIndex, picks: Picks | None, wanted: frozenset[str]) -> Sums:
        ctx.pairs, ctx.picks, ctx.wanted = pairs, picks, wanted
        ctx.save_for_backward(h)
        return h.view_as(h), *sums_of(h, pairs, picks, wanted)

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> Sums:
        (h,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = differentiably(lambda v: (v, *plain_sums(v, ctx.pairs, ctx.picks, ctx.wanted)), [h], given)
            return *again, None, None, None
        g, size = torch.empty_like(h), block_rows(*h.shape)
        flow = SumsBack(ctx.pairs, ctx.picks, [None if v is None else v.contiguous() for v in given], size)
        blocks = g.split(size)
        each(len(blocks), lambda b: flow(b, blocks[b]))
        return g, None, None, None


def sums(h: Tensor, pairs: PairIndex, picks: Picks | None, wanted: frozenset[str]) -> Sums:
    """Values of pairs as they are, and those of readout, needle, roots ("root") and picked rows that are wanted.

    What flows back to the pairs from all of them is added up in one pass.
    """
    return _Sums.apply(h, pairs, picks, wanted)  # type: ignore[no-untyped-call]


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
                types[n] = products_of_rows(b.one_hot(table), message, torch.empty_like(table))
        into = g_values[b.rows]
        if source is None:
            torch.add(found, g[b.rows], alpha=factor, out=into)
            if more is not None:
                into.add_(more[b.rows])
        else:
            into.copy_(found)

    def multiply(n: int) -> None:
        one, two = dots[n]
        products[n] = torch.mul(one, two).sum()  # a tenth of the time of torch.dot where MKL computes it on processors of AMD

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
        return cached(self, "places", lambda: torch.repeat_interleave(self.ptr.diff(), output_size=self.reads.numel()))

    @property
    def count(self) -> Tensor:
        """The messages by number."""
        return cached(self, "count", lambda: torch.arange(self.reads.numel(), dtype=torch.int32))

    def one_hot(self, table: Tensor) -> Tensor:
        """The types of the messages as unit vectors, shape (messages, types)."""
        types, dtype = table.size(0), table.dtype
        return cached(self, (types, dtype), lambda: (self.kind[:, None] == torch.arange(types, dtype=self.kind.dtype)).to(dtype))


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

    return cached(edges, (way, blocks), make)


def plainly_passed(edges: Edges, own: Tensor, source: Tensor | None, table: Tensor | None, eps: Tensor) -> Tensor:
    """Values with the messages to them in operations that can be differentiated any number of times."""
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
