"""Property checks for policies, layers and models, both those of the library and your own.

The checks take a function with PyG's arguments, ``f(x, edge_index, edge_attr=..., batch=...)``, that returns a tensor or a
``SubgraphBag``: a model, a policy, or a function that calls a layer.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from reign._validate import kind_of
from reign.bags import SubgraphBag
from reign.transforms import AddHopDistance

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
    """Undirected Erdos-Renyi graphs of mixed sizes with normally distributed features. They may have isolated nodes and several components.

    >>> [data.num_nodes for data in random_graphs(3, min_nodes=2, max_nodes=5)]
    [2, 2, 5]
    """
    if not 0 <= min_nodes <= max_nodes or not 0 <= edge_prob <= 1:
        raise ValueError(
            f"sizes are {min_nodes} to {max_nodes} and edge_prob is {edge_prob}, expected 0 <= min_nodes <= max_nodes and 0 <= edge_prob <= 1."
        )
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
    """A permutation of the nodes of one graph, or within each graph of a batch of the given sizes. It is never the identity.

    Entry i is the new position of node i.

    >>> random_permutation([1, 2]).tolist()
    [0, 2, 1]
    """
    sizes = [size] if isinstance(size, int) else list(size)
    if max(sizes, default=0) < 2:
        raise ValueError(
            f"sizes are {sizes}, expected a graph of at least 2 nodes, because smaller ones have no other permutation than the identity."
        )
    rng = torch.Generator().manual_seed(seed)
    first = [sum(sizes[:g]) for g in range(len(sizes))]
    while True:
        perm = torch.cat([torch.randperm(n, generator=rng) + start for n, start in zip(sizes, first, strict=True)])
        if not torch.equal(perm, torch.arange(perm.numel())):
            return perm


def permute_graph(data: Data, perm: Tensor) -> Data:
    """The same graph with node i, and everything that belongs to it, at position ``perm[i]``. Edges keep their order."""
    n = data.num_nodes
    if perm.shape != (n,) or not torch.equal(perm.sort().values, torch.arange(n, device=perm.device)):
        raise ValueError(f"perm is {perm.tolist()}, expected a permutation of the {n} nodes; see random_permutation.")
    out = data.clone()
    for name in data.to_dict():
        if name not in ("batch", "hop_distance") and data.is_node_attr(name):
            out[name] = torch.empty_like(data[name]).index_copy_(0, perm, data[name])
    out.edge_index = perm[data.edge_index]
    if "hop_distance" in data:
        out = AddHopDistance()(out)
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
    """Assert that permuting the nodes within each graph permutes the output in the same way.

    Args:
        function: a model, a policy, or any function with the same arguments.
        data: a PyG ``Data`` or ``Batch``.
        level: whether the rows of the output belong to graphs, nodes or edges. Only rows of nodes are permuted. A bag is permuted as
            a whole.
        seed: seed of the permutation.
        atol: absolute tolerance; that of ``torch.testing.assert_close`` if not given.
        rtol: relative tolerance; that of ``torch.testing.assert_close`` if not given.
    """
    if level not in ("graph", "node", "edge"):
        raise ValueError(f"level is {level!r}, expected 'graph', 'node' or 'edge'.")
    batch = getattr(data, "batch", None)
    sizes = [data.num_nodes] if batch is None else torch.bincount(batch).tolist()
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
    """Assert that each graph gives the same result alone and in a batch with the others.

    The rows of the output must be in the order of the graphs, at any level.
    """
    if not graphs or isinstance(graphs, Data):
        raise ValueError(f"graphs is {graphs!r}, expected a list of one or more torch_geometric.data.Data.")
    together = _call(function, Batch.from_data_list(list(graphs)))
    alone = [_call(function, data) for data in graphs]
    if isinstance(together, SubgraphBag):
        for g, bag in enumerate(alone):
            assert_bags_equal(together[g], bag)
        return
    _close(together, torch.cat(alone), "the outputs for a graph alone and in a batch differ", atol, rtol)


def assert_bags_equal(bag: SubgraphBag, other: SubgraphBag) -> None:
    """Assert that two bags have the same subgraphs in the same order: anchors, rows, members, values and edges."""
    for name in ("sub_batch", "anchor", "row_ptr", "node", "member", "x"):
        ours, theirs = getattr(bag, name), getattr(other, name)
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            raise AssertionError(f"bags differ in {name}: {kind_of(ours)} and {kind_of(theirs)}")
        if not torch.equal(ours, theirs):
            rows = (ours != theirs).flatten(1).any(1) if ours.dim() > 1 else ours != theirs
            first = int(rows.nonzero()[0])
            raise AssertionError(
                f"bags differ in {name}, in {int(rows.sum())} rows; the first is row {first}: {ours[first]} and {theirs[first]}"
            )
    if _edges(bag) != _edges(other):
        raise AssertionError("bags differ in the edges of their subgraphs, or in the features of these edges")


def _edges(bag: SubgraphBag) -> list[tuple[int, int, Any]]:
    """Every edge with its features, in an order that does not depend on how edges are listed."""
    source, target, edge = (part.tolist() for part in bag.pair_edges)
    attr = None if bag.graph.edge_attr is None else bag.graph.edge_attr.tolist()
    return sorted((t, s, None if attr is None else attr[e]) for s, t, e in zip(source, target, edge, strict=True))


def _call(function: Function, data: Data) -> Any:
    optional = {name: data[name] for name in ("edge_attr", "batch") if name in data and data[name] is not None}
    out = function(data.x, data.edge_index, **optional)
    if not isinstance(out, Tensor | SubgraphBag):
        raise ValueError(f"the function returned {kind_of(out)}, expected a tensor or a SubgraphBag.")
    return out


def _close(actual: Tensor, expected: Tensor, what: str, atol: float | None, rtol: float | None) -> None:
    torch.testing.assert_close(actual, expected, atol=atol, rtol=rtol, msg=lambda text: f"{what}: {text}")
