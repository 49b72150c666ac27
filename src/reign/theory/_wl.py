"""Weisfeiler-Leman tests: 1-WL, k-WL and k-FWL.

In the convention of the paper, k-WL colours k-tuples and reads one multiset per position; k-FWL ("folklore") reads one
multiset of k-tuples of colours. k-WL and (k - 1)-FWL tell the same graphs apart, and so do 2-WL and 1-WL.

Colours are shared between all given graphs: equal numbers mean equal colours. A multiset is hashed to 64 bits.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch_geometric.data import Data

from reign._validate import kind_of
from reign.bags import free_memory
from reign.data import Progress
from reign.theory._algebra import features, mix, rows

BYTES = 80  # scratch memory per tuple, or per neighbour of a tuple with the same first node

Tuples = Int[Tensor, "..."]


def wl(
    graphs: Sequence[Data],
    k: int = 1,
    *,
    folklore: bool = False,
    max_rounds: int | None = None,
    progress: Progress = lambda items, _: items,
) -> list[Tuples]:
    """The stable colours of the k-tuples of each graph, as a tensor with k axes of length n.

    Args:
        graphs: undirected simple graphs; ``x`` gives the initial colours of nodes.
        k: 1, 2 or 3.
        folklore: whether to run k-FWL in place of k-WL (for k = 1 they are the same).
        max_rounds: stop after this many rounds; if not given, when the colours are stable.
        progress: function that wraps the loops of a round, to show progress.
    """
    *_, last = refinements(graphs, k, folklore=folklore, max_rounds=max_rounds, progress=progress)
    return last


def wl_classes(
    graphs: Sequence[Data], k: int = 1, *, max_rounds: int | None = None, progress: Progress = lambda items, _: items
) -> list[int]:
    """A number for each graph. Two graphs have the same number if k-WL does not tell them apart. It runs (k - 1)-FWL, which is faster."""
    return histograms(wl(graphs, _order(k), folklore=True, max_rounds=max_rounds, progress=progress))


def wl_separates(one: Data, other: Data, k: int = 1) -> bool:
    """Whether k-WL (in the paper's convention) tells two graphs apart."""
    return wl_round(one, other, k) is not None


def wl_round(one: Data, other: Data, k: int = 1, progress: Progress = lambda items, _: items) -> int | None:
    """The first round of k-WL, run as (k - 1)-FWL, that tells two graphs apart; 0 for the initial colours, None if no round does."""
    for number, colours in enumerate(refinements([one, other], _order(k), folklore=True, progress=progress)):
        a, b = histograms(colours)
        if a != b:
            return number
    return None


def refinements(
    graphs: Sequence[Data],
    k: int,
    *,
    folklore: bool = False,
    max_rounds: int | None = None,
    progress: Progress = lambda items, _: items,
) -> Iterator[list[Tuples]]:
    """The initial colours of the k-tuples of all graphs, and those after each round, until nothing changes."""
    if k not in (1, 2, 3):
        raise ValueError(f"k is {k!r}, expected 1, 2 or 3.")
    for data in graphs:
        check_simple(data)
    check_size(graphs, k)
    step = _neighbours if k == 1 else _folklore if folklore else _oblivious
    colours, rounds = _rename(_initial(graphs, k)), 0
    yield colours

    def tell(items: Iterable[Any], unit: str) -> Iterable[Any]:
        return progress(items, f"{k + (folklore and k > 1)}-WL, round {rounds + 1}, {unit}")

    while max_rounds is None or rounds < max_rounds:
        every = tell(list(zip(colours, graphs, strict=True)), "graph")
        refined = _rename([mix(c) * 3 + step(c, data, tell) for c, data in every])
        if _number(refined) == _number(colours):
            return
        colours, rounds = refined, rounds + 1
        yield colours


def check_simple(data: Data) -> None:
    """Raise ``ValueError`` unless a graph is undirected and simple, as the theory requires."""
    if getattr(data, "edge_index", None) is None:
        raise ValueError(
            f"a graph is {kind_of(data)}, expected a torch_geometric.data.Data with edge_index; reign.data.from_networkx converts graphs of networkx."
        )
    source, target = data.edge_index
    n = data.num_nodes
    key, back = source * n + target, target * n + source
    if (
        bool((source == target).any())
        or key.unique().numel() != key.numel()
        or not torch.equal(key.sort().values, back.sort().values)
    ):
        raise ValueError(
            f"{data} has self-loops, parallel or directed edges, expected an undirected simple graph with both directions of each "
            "edge; use torch_geometric.utils.to_undirected and remove_self_loops."
        )


def check_size(graphs: Sequence[Data], k: int) -> None:
    """Raise ``ValueError`` before the work starts if k-tuples do not fit into memory."""
    n = max((data.num_nodes for data in graphs), default=0)
    need = BYTES * n**k if k > 1 else 0
    free = free_memory(torch.device("cpu"))
    if need > free:
        raise ValueError(
            f"{k}-tuples of {n} nodes with their neighbours need about {need / 1e9:,.1f} GB, but only {free / 1e9:,.1f} GB are free; use a "
            "smaller k or smaller graphs."
        )


def histograms(colours: Sequence[Tuples]) -> list[int]:
    """A number for each graph, equal for equal multisets of colours."""
    sums = torch.stack([mix(mix(c).sum() + 31 * c.numel()) for c in colours])
    return [int(v) for v in sums.unique(return_inverse=True)[1]]


def _order(k: int) -> int:
    """The order of the folklore test that is run for k-WL."""
    if k not in (1, 2, 3, 4):
        raise ValueError(f"k is {k!r}, expected 1 to 4.")
    return max(k - 1, 1)


def _initial(graphs: Sequence[Data], k: int) -> list[Tuples]:
    """The isomorphism type of every tuple: features, equalities, adjacencies."""
    nodes = _rename([rows(features(data)) for data in graphs])
    out = []
    for colour, data in zip(nodes, graphs, strict=True):
        n = data.num_nodes
        A = torch.zeros(n, n, dtype=torch.long)
        A[data.edge_index[0], data.edge_index[1]] = 1
        pair = A + 2 * torch.eye(n, dtype=torch.long)
        total = torch.zeros([n] * k, dtype=torch.long)
        for a in range(k):
            total = total + mix(mix(colour) + a).view([n if d == a else 1 for d in range(k)])
            for b in range(a + 1, k):
                total = total + mix(mix(pair) - (a * k + b + 1)).view([n if d in (a, b) else 1 for d in range(k)])
        out.append(total)
    return out


def _neighbours(colour: Tuples, data: Data, _: Progress) -> Tuples:
    source, target = data.edge_index
    return mix(torch.zeros(data.num_nodes, dtype=torch.long).index_add_(0, target, mix(colour)[source]))


def _oblivious(colour: Tuples, data: Data, _: Progress) -> Tuples:
    """One multiset per position a: the colours over all u, with position a replaced by u."""
    mixed = mix(colour)
    parts = (mix(mixed.sum(a, keepdim=True) + a).expand_as(colour) * (2 * a + 5) for a in range(colour.dim()))
    return sum(parts, torch.zeros_like(colour))


def _folklore(colour: Tuples, data: Data, progress: Progress) -> Tuples:
    """One multiset over u of the k colours with one position replaced by u. It is computed for one first node at a time, to save memory."""
    first, *others = (mix(colour + 100_003 * (a + 1)) for a in range(colour.dim()))
    first = first.movedim(0, -1).contiguous()  # u is the last axis, and the first node is free
    out = torch.empty_like(colour)
    for a in progress(range(colour.size(0)), "node"):
        joint = first
        for p, other in enumerate(others):  # position p + 1 of the tuples that start with a
            joint = joint + other[a].movedim(p, -1).unsqueeze(p)
        out[a] = mix(mix(joint).sum(-1))
    return out


def _rename(colours: list[Tuples]) -> list[Tuples]:
    """Colours as numbers 0, 1, ..., shared by all graphs."""
    _, inverse = torch.cat([c.flatten() for c in colours]).unique(return_inverse=True)
    parts = inverse.split([c.numel() for c in colours])
    return [part.view(c.shape) for part, c in zip(parts, colours, strict=True)]


def _number(colours: list[Tuples]) -> int:
    return int(torch.cat([c.flatten() for c in colours]).max()) + 1 if any(c.numel() for c in colours) else 0


@dataclass(frozen=True)
class Census:
    """The number of pairs of graphs that 1-WL does not distinguish (``alike``) after some rounds, and the number of all pairs."""

    rounds: int
    alike: int
    pairs: int


def census(graphs: Sequence[Data], rounds: int = 6, progress: Progress = lambda items, _: items) -> Census:
    """Count the pairs of graphs that 1-WL does not distinguish after some rounds."""
    sizes = Counter(wl_classes(list(graphs), max_rounds=rounds, progress=progress)).values()
    return Census(rounds, sum(n * (n - 1) // 2 for n in sizes), len(graphs) * (len(graphs) - 1) // 2)
