"""Property checks for policies, layers and models: yours and ours.

Everything here takes a function with PyG's call, ``f(x, edge_index, edge_attr=..., batch=...)``, that returns a tensor or a
``SubgraphBag``: a model, a policy, or a closure around a layer.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from reign.bag import SubgraphBag

__all__ = [
    "assert_bags_equal",
    "assert_batch_invariant",
    "assert_equivariant",
    "permute_graph",
    "random_graphs",
    "random_permutation",
]

Function = Callable[..., Any]
Level = Literal["graph", "node", "edge"]


def random_graphs(
    num_graphs: int = 5,
    *,
    min_nodes: int = 1,
    max_nodes: int = 9,
    edge_prob: float = 0.3,
    num_features: int = 3,
    edge_dim: int | None = None,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> list[Data]:
    """Undirected Erdos-Renyi graphs of mixed sizes with normal features; isolated nodes and several components occur.

    >>> [data.num_nodes for data in random_graphs(3, min_nodes=2, max_nodes=5)]
    [2, 2, 5]
    """
    rng = torch.Generator().manual_seed(seed)
    graphs = []
    for _ in range(num_graphs):
        n = int(torch.randint(min_nodes, max_nodes + 1, (), generator=rng))
        joined = torch.rand(n, n, generator=rng).triu(1) > 1 - edge_prob
        upper = joined.nonzero().t()
        data = Data(
            x=torch.randn(n, num_features, generator=rng, dtype=dtype),
            edge_index=torch.cat([upper, upper.flip(0)], dim=1),
        )
        if edge_dim is not None:
            data.edge_attr = torch.randn(upper.size(1), edge_dim, generator=rng, dtype=dtype).repeat(2, 1)
        graphs.append(data)
    return graphs


def random_permutation(size: int | Sequence[int], seed: int = 0) -> Tensor:
    """A permutation that is never the identity, of one graph's nodes or within each graph of a batch of the given sizes.

    Entry i is the new position of node i.

    >>> random_permutation([1, 2]).tolist()
    [0, 2, 1]
    """
    sizes = [size] if isinstance(size, int) else list(size)
    if max(sizes, default=0) < 2:
        raise ValueError(f"sizes are {sizes}, expected a graph of at least 2 nodes: smaller ones have the identity only.")
    rng = torch.Generator().manual_seed(seed)
    first = [sum(sizes[:g]) for g in range(len(sizes))]
    while True:
        perm = torch.cat([torch.randperm(n, generator=rng) + start for n, start in zip(sizes, first, strict=True)])
        if not torch.equal(perm, torch.arange(perm.numel())):
            return perm


def permute_graph(data: Data, perm: Tensor) -> Data:
    """The same graph with node i at position ``perm[i]``; its edges keep their order."""
    out = data.clone()
    out.x = torch.empty_like(data.x).index_copy_(0, perm, data.x)
    out.edge_index = perm[data.edge_index]
    return out


def assert_equivariant(
    function: Function,
    data: Data,
    *,
    level: Level = "graph",
    seed: int = 0,
    atol: float | None = None,
    rtol: float | None = None,
) -> None:
    """Assert that permuting the nodes within each graph permutes the output, and changes nothing else.

    Args:
        function: a model, a policy, or anything with the same call.
        data: a PyG ``Data`` or ``Batch``.
        level: what the rows of a tensor stand for: graphs or edges stay in place, nodes move. A bag moves as a whole.
        seed: of the permutation.
        atol: absolute tolerance; with ``rtol``, by default those of ``torch.testing.assert_close``.
        rtol: relative tolerance.
    """
    sizes = data.ptr.diff().tolist() if isinstance(data, Batch) else [data.num_nodes]
    perm = random_permutation(sizes, seed).to(data.x.device)
    out, moved = _call(function, data), _call(function, permute_graph(data, perm))
    if isinstance(out, SubgraphBag):
        assert_bags_equal(moved, out.permute(perm))
        return
    expected = torch.empty_like(out).index_copy_(0, perm, out) if level == "node" else out
    _close(moved, expected, f"not equivariant under the permutation {perm.tolist()}", atol, rtol)


def assert_batch_invariant(
    function: Function, graphs: Sequence[Data], *, atol: float | None = None, rtol: float | None = None
) -> None:
    """Assert that each graph gives the same alone as in a batch with the others.

    The rows of a tensor must be those of the graphs one after another, at any level.
    """
    together = _call(function, Batch.from_data_list(list(graphs)))
    alone = [_call(function, data) for data in graphs]
    if isinstance(together, SubgraphBag):
        for g, bag in enumerate(alone):
            assert_bags_equal(together[g], bag)
        return
    _close(together, torch.cat(alone), "a graph alone and in a batch differ", atol, rtol)


def assert_bags_equal(bag: SubgraphBag, other: SubgraphBag) -> None:
    """Assert that two bags have the same subgraphs in the same order: anchors, rows, members, values and edges."""
    for name in ("sub_batch", "anchor", "row_ptr", "node", "member", "x"):
        ours, theirs = getattr(bag, name), getattr(other, name)
        if ours.shape != theirs.shape or not torch.equal(ours, theirs):
            raise AssertionError(f"bags differ in {name}: {ours.tolist()} and {theirs.tolist()}")
    if not torch.equal(_edge_key(bag), _edge_key(other)):
        raise AssertionError("bags differ in the edges of their subgraphs")


def _edge_key(bag: SubgraphBag) -> Tensor:
    source, target, _ = bag.pair_edges
    return (target * bag.num_pairs + source).sort().values


def _call(function: Function, data: Data) -> Any:
    optional = {name: data[name] for name in ("edge_attr", "batch") if name in data and data[name] is not None}
    return function(data.x, data.edge_index, **optional)


def _close(actual: Tensor, expected: Tensor, what: str, atol: float | None, rtol: float | None) -> None:
    torch.testing.assert_close(actual, expected, atol=atol, rtol=rtol, msg=lambda text: f"{what}: {text}")
