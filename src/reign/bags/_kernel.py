"""The index maps of a bag in the format of the fused kernels, cached by the bag."""

import torch
from torch import Tensor

from reign.bags._bag import SubgraphBag
from reign.bags._blocks import make_block_triples
from reign.bags._wiring import Messages, Neighbours, Sources, Where
from reign.kernels import INNER, KEPT, OUTER, ROOT, Edges, PairIndex, Picks, Sum, ragged


def kernel_pairs(bag: SubgraphBag, roots_apart: bool, masked: bool) -> PairIndex:
    """The pairs of a bag, in the format of the fused kernels.

    Args:
        bag: the bag.
        roots_apart: whether norms after slots exclude roots.
        masked: whether norms exclude the pairs outside subgraphs, and the values of these are zero.
    """

    def make() -> PairIndex:
        root = bag.root_row if bag.anchor.size(1) == 1 else None
        if root is not None and bool((root < 0).any()):
            root = None
        is_root = torch.zeros_like(bag.member)
        if root is not None:
            is_root[root] = True
        inner, real = bag.member if masked else torch.ones_like(bag.member), bag.real("pair")
        inner = inner if real is None else inner & real
        outer = inner & ~is_root if roots_apart else inner
        flags = INNER * inner + OUTER * outer + ROOT * is_root + KEPT * inner
        node = torch.argsort(bag.node, stable=True)
        ptr = ragged.offsets(torch.bincount(bag.node, minlength=bag.num_nodes))
        return PairIndex(*map(_int, (bag.sub, bag.node, flags, bag.row_ptr, ptr, node)), None if root is None else _int(root))  # type: ignore[call-arg]

    return bag.cache(("kernel pairs", roots_apart, masked), make)


def kernel_edges(bag: SubgraphBag, neighbours: Neighbours, where: Where = "off", sources: Sources = "all") -> Edges:
    """The messages between neighbours, in the format of the fused kernels; see ``Wiring.make_messages``."""
    key = ("kernel edges", neighbours, where, sources)
    return bag.cache(key, lambda: _edges(bag.wiring.make_messages(neighbours, where, sources)))


def kernel_triples(bag: SubgraphBag) -> Edges:
    """The summands of products in blocks, in the format of the fused kernels; see ``make_block_triples``."""
    return bag.plain.cache("kernel triples", lambda: _edges(make_block_triples(bag.plain)))


def kernel_near(bag: SubgraphBag) -> tuple[Picks, Edges]:
    """The pairs that send messages to roots, and these messages."""

    def make() -> tuple[Picks, Edges]:
        messages = bag.wiring.make_messages("Ak", "on")
        rows, own = messages.from_rows, messages.from_rows.target
        picked = torch.arange(rows.index.numel(), device=bag.device)
        edges = _edges(messages._replace(from_rows=Sum.broadcast(picked, picked.numel(), (own, own))))
        return Picks(_int(rows.index), _int(rows.ptr_t), _int(rows.index_t), own), edges

    return bag.cache("kernel near", make)


def _edges(messages: Messages) -> Edges:
    source, edge, target = messages.from_rows.index, messages.from_edges.index, messages.into_targets.index_t
    by_target, by_source, by_edge = messages.into_targets.index, messages.from_rows.index_t, messages.from_edges.index_t
    bounds = messages.into_targets.ptr, messages.from_rows.ptr_t, messages.from_edges.ptr_t
    return Edges(  # type: ignore[call-arg,misc]
        *map(_int, (bounds[0], source[by_target], edge[by_target], bounds[1], target[by_source], edge[by_source])),  # type: ignore[arg-type]
        *map(_int, (bounds[2], source[by_edge], target[by_edge])),
        messages.from_rows.source,
        messages.into_targets.target,
        over=messages.from_edges.source,
    )  # fmt: skip


def _int(x: Tensor | None) -> Tensor:
    assert x is not None
    return x.to(torch.int32).contiguous()
