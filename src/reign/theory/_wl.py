"""Weisfeiler-Leman tests: 1-WL, k-WL, k-FWL, and the colourings that match DS-GNN and DSS-GNN.

In the convention of the paper k-WL colours k-tuples and looks at one multiset per position; k-FWL ("folklore") looks at one
multiset of k-tuples of colours. k-WL and (k - 1)-FWL tell the same graphs apart, 2-WL the same as 1-WL.

Colours are shared between all graphs given: equal numbers mean equal colours. A multiset is hashed to 64 bits (a sum of mixed
colours), so two different ones coincide with a chance of about 1 in 10^19 per comparison.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from reign.bags import free_memory
from reign.policies import Policy, policy

BYTES = 16  # of scratch per tuple and neighbour


def wl(graphs: Sequence[Data], k: int = 1, *, folklore: bool = False, max_rounds: int | None = None) -> list[Tensor]:
    """The stable colours of the k-tuples of each graph, as a tensor of k axes of n.

    Args:
        graphs: undirected simple graphs; ``x`` gives the initial colours of nodes.
        k: 1, 2 or 3.
        folklore: k-FWL in place of k-WL (the same for k = 1).
        max_rounds: stop after this many rounds; when nothing changes any more, if not given.
    """
    if k not in (1, 2, 3):
        raise ValueError(f"k is {k!r}, expected 1, 2 or 3.")
    for data in graphs:
        check_simple(data)
    check_size(graphs, k)
    colours = _rename(_initial(graphs, k))
    rounds = 0
    while max_rounds is None or rounds < max_rounds:
        step = _neighbours_1 if k == 1 else _folklore if folklore else _oblivious
        refined = _rename([_mix(c) * 3 + step(c, data) for c, data in zip(colours, graphs, strict=True)])
        rounds += 1
        if _number(refined) == _number(colours):
            break
        colours = refined
    return colours


def wl_classes(graphs: Sequence[Data], k: int = 1, *, max_rounds: int | None = None) -> list[int]:
    """A number for each graph; two graphs have the same one if k-WL does not tell them apart. Uses (k - 1)-FWL, which is faster."""
    if k not in (1, 2, 3, 4):
        raise ValueError(f"k is {k!r}, expected 1 to 4.")
    fast = wl(graphs, max(k - 1, 1), folklore=True, max_rounds=max_rounds)
    return _histograms([c.flatten() for c in fast])


def wl_separates(one: Data, other: Data, k: int = 1) -> bool:
    """Does k-WL (in the paper's convention) tell two graphs apart?"""
    a, b = wl_classes([one, other], k)
    return a != b


def bag_wl(graphs: Sequence[Data], name: str | Policy = "nm", *, shared: bool = False, max_rounds: int | None = None) -> list[int]:
    """The colouring that matches DS-GNN with a policy, or DSS-GNN if ``shared``: equal numbers for graphs it cannot tell apart.

    Nodes of subgraphs are refined by their neighbours in the subgraph and, if shared, by their colours in all subgraphs and those
    of their neighbours in the graph; a graph is the multiset of its subgraphs' multisets of colours (Bevilacqua et al. 2022).
    """
    for data in graphs:
        check_simple(data)
    bags = [policy(name)(_features(data), data.edge_index) for data in graphs]
    colours = _rename([_rows(torch.cat([bag.x, bag.member[:, None]], dim=1)) for bag in bags])
    rounds = 0
    while max_rounds is None or rounds < max_rounds:
        refined = []
        for c, bag in zip(colours, bags, strict=True):
            source, target, _ = bag.pair_edges
            new = _mix(c) * 3 + _mix(_sum_into(_mix(c)[source], target, len(c)))
            if shared:
                needle = _mix(_sum_into(_mix(c + 1), bag.node, bag.num_nodes))
                along = bag.graph.edge_index
                new = new + (_mix(needle) + _mix(_sum_into(_mix(needle + 5)[along[0]], along[1], bag.num_nodes)) * 7)[bag.node]
            refined.append(new)
        refined = _rename(refined)
        rounds += 1
        if _number(refined) == _number(colours):
            break
        colours = refined
    readouts = _rename([_sum_into(_mix(c), bag.sub, bag.num_subgraphs) for c, bag in zip(colours, bags, strict=True)])
    return _histograms(readouts)


def check_simple(data: Data) -> None:
    """Raise ``ValueError`` unless a graph is undirected and simple, as the theory wants it."""
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
    """Raise ``ValueError`` before the work starts if k-tuples and their neighbours do not fit into memory."""
    n = max((data.num_nodes for data in graphs), default=0)
    need = BYTES * n ** (k + 1) * max(k, 1) if k > 1 else 0
    free = free_memory(torch.device("cpu"))
    if need > free:
        raise ValueError(
            f"{k}-tuples of {n} nodes with their neighbours need about {need / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are free; use a "
            "smaller k or smaller graphs."
        )


def _initial(graphs: Sequence[Data], k: int) -> list[Tensor]:
    """The isomorphism type of every tuple: features, equalities, adjacencies."""
    nodes = _rename([_rows(_features(data)) for data in graphs])
    out = []
    for colour, data in zip(nodes, graphs, strict=True):
        n = data.num_nodes
        A = torch.zeros(n, n, dtype=torch.long)
        A[data.edge_index[0], data.edge_index[1]] = 1
        pair = A + 2 * torch.eye(n, dtype=torch.long)
        total = torch.zeros([n] * k, dtype=torch.long)
        for a in range(k):
            total = total + _mix(_mix(colour) + a).view([n if d == a else 1 for d in range(k)])
            for b in range(a + 1, k):
                total = total + _mix(_mix(pair) - (a * k + b + 1)).view([n if d in (a, b) else 1 for d in range(k)])
        out.append(total)
    return out


def _features(data: Data) -> Tensor:
    return torch.zeros(data.num_nodes, 1, dtype=torch.float64) if data.x is None else data.x.double()


def _neighbours_1(colour: Tensor, data: Data) -> Tensor:
    source, target = data.edge_index
    return _mix(_sum_into(_mix(colour)[source], target, data.num_nodes))


def _oblivious(colour: Tensor, data: Data) -> Tensor:
    """One multiset per position: over u, the colour with position a replaced by u."""
    mixed = _mix(colour)
    return sum(
        (_mix(mixed.sum(a, keepdim=True) + a).expand_as(colour) * (2 * a + 5) for a in range(colour.dim())),
        torch.zeros_like(colour),
    )


def _folklore(colour: Tensor, data: Data) -> Tensor:
    """One multiset over u of the k colours with a position replaced by u."""
    n, k = data.num_nodes, colour.dim()
    joint = torch.zeros([n] * (k + 1), dtype=torch.long)  # the last axis is u
    for a in range(k):
        moved = colour.movedim(a, -1).unsqueeze(a)  # position a is u, and the tuple's own a is free
        joint = joint + _mix(moved + 100_003 * (a + 1)) * (2 * a + 3)
    return _mix(_mix(joint).sum(-1))


def _rename(colours: list[Tensor]) -> list[Tensor]:
    """Colours as numbers 0, 1, ..., shared by all graphs."""
    _, inverse = torch.cat([c.flatten() for c in colours]).unique(return_inverse=True)
    parts = inverse.split([c.numel() for c in colours])
    return [part.view(c.shape) for part, c in zip(parts, colours, strict=True)]


def _rows(x: Tensor) -> Tensor:
    """A hash of each row of features."""
    bits = (x.double() + 0.0).contiguous().view(torch.long)  # + 0.0 makes -0.0 the same number as 0.0
    return _mix(sum((_mix(bits[:, c] + 7919 * c) for c in range(bits.size(1))), torch.zeros(x.size(0), dtype=torch.long)))


def _histograms(colours: list[Tensor]) -> list[int]:
    sums = torch.stack([_mix(_mix(c).sum() + 31 * c.numel()) for c in colours])
    return [int(v) for v in sums.unique(return_inverse=True)[1]]


def _number(colours: list[Tensor]) -> int:
    return int(torch.cat([c.flatten() for c in colours]).max()) + 1 if any(c.numel() for c in colours) else 0


def _sum_into(values: Tensor, index: Tensor, size: int) -> Tensor:
    return torch.zeros(size, dtype=torch.long).index_add_(0, index, values)


def _mix(x: Tensor) -> Tensor:
    """A bijection of 64-bit integers that scatters them (the finaliser of SplitMix64, arithmetic modulo 2^64)."""
    x = x + -7046029254386353131
    x = (x ^ ((x >> 30) & (2**34 - 1))) * -4658895280553007687
    x = (x ^ ((x >> 27) & (2**37 - 1))) * -7723592293110705685
    return x ^ ((x >> 31) & (2**33 - 1))
