"""Property checks for policies, layers, terms and models, both those of the library and your own.

``check_policy``, ``check_layer`` and ``check_term`` check all that the library expects of one of yours. The ``assert_*`` functions check one
property of a function with PyG's arguments, ``f(x, edge_index, edge_attr=..., batch=...)``, that returns a tensor or a
``SubgraphBag``: a model, a policy, or a function that calls a layer.
"""

import reign._pyg  # noqa: F401  # isort: skip
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

import reign.policies as policies
from reign._validate import kind_of
from reign.bags import Domain, SubgraphBag, Where
from reign.nn import State, Term
from reign.nn import term as find_term
from reign.policies import POLICIES, Policy
from reign.transforms import AddHopDistance

__all__ = [
    "assert_bags_equal",
    "assert_batch_invariant",
    "assert_equivariant",
    "check_layer",
    "check_policy",
    "check_term",
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


def check_policy(policy: str | Policy, seed: int = 0) -> None:
    """Check all that the library expects of a policy, on small random graphs; an ``AssertionError`` says what does not hold.

    The bag must be the same for any order of nodes and edges, alone and in a batch, twice in a row, from stored hop distances and in both domains.
    What the policy says of itself (its name, ``node_based``, ``num_marks`` and ``radius``) must be true.

    >>> check_policy("ego+:2")

    Args:
        policy: the policy, or its name.
        seed: seed of the graphs and permutations.
    """
    policy = policies.policy(policy)
    if policy.random:
        raise ValueError(f"the policy '{policy}' draws its bags at random; check the policy that it draws from.")
    if any(type(policy) is kind for _, kind in POLICIES.items()):
        named = policies.policy(str(policy))
        _need(named == policy, f"the name '{policy}' stands for {named!r}, expected {policy!r}")
    graphs = random_graphs(5, max_nodes=6, num_features=2, edge_dim=1, seed=seed)
    for domain in ("all", "members"):
        make: Function = partial(policy, domain=domain)
        assert_batch_invariant(make, graphs)
        for data in graphs:
            bag = _call(make, data)
            _need(bag.node_based == policy.node_based, f"node_based is {policy.node_based}, but the bag has {bag!r}")
            marks = 0 if bag.mark is None else bag.mark.size(1)
            _need(marks == policy.num_marks, f"the bag has {marks} channels of marks, expected num_marks = {policy.num_marks}")
            if policy.radius is not None and policy.num_anchors == 1:
                far = bag.member & (bag.hops(policy.radius + 1) > policy.radius)
                _need(
                    not far.any(),
                    f"{int(far.sum())} members are more than {policy.radius} hops from their root, the radius of the policy",
                )
            assert_bags_equal(bag, _call(make, data))
            if data.num_nodes > 1:
                assert_equivariant(make, data, seed=seed)
            order = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(seed))
            other = Data(x=data.x, edge_index=data.edge_index[:, order], edge_attr=data.edge_attr[order])
            assert_bags_equal(bag, _call(make, other))
            assert_bags_equal(bag, policy.from_data(AddHopDistance()(data), domain=domain))
    for data in graphs:
        full, compact = policy.from_data(data).to_dense(), policy.from_data(data, domain="members").to_dense()
        same = torch.equal(full.A, compact.A) and torch.equal(full.member, compact.member)
        _need(same, "the bag has other members or edges with domain='members' than with domain='all'")


def check_layer(
    make: Callable[[int, int], nn.Module], policy: str | Policy = "ego+:2", domain: Domain = "all", *, seed: int = 0
) -> None:
    """Check all that the library expects of a layer on small random graphs; an ``AssertionError`` says what does not hold.

    The layer maps values of pairs ``h`` and their bag to one row for each pair. It must be equivariant, in training as well; give the same
    values for a graph alone and in a batch (in evaluation), and twice in a row; leave its input as it is; keep the type of numbers; and have right gradients,
    which reach all of its weights. With ``domain="members"``, it must give members the same values whether or not the bag stores the other pairs.

    >>> from reign.nn import SUNConv
    >>> check_layer(SUNConv)

    Args:
        make: function that makes a layer for numbers of input and output channels, for example the class of the layer.
        policy: the policy of the bags.
        domain: the domain of the layer.
        seed: seed of the graphs, weights and permutations.
    """
    policy = policies.policy(policy)
    if policy.random:
        raise ValueError(f"the policy '{policy}' draws its bags at random; check the layer with the policy that it draws from.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = make(4, 3).double()
    graphs = random_graphs(4, min_nodes=2, max_nodes=6, num_features=4, edge_prob=0.5, dtype=torch.float64, seed=seed)
    batch = Batch.from_data_list(graphs)

    def on_nodes(x: Tensor, edge_index: Tensor, batch: Tensor | None = None, store: Domain = "all") -> Tensor:
        """The new values, multiplied with values that differ from pair to pair and summed over subgraphs."""
        bag = policy(x, edge_index, batch=batch, domain=store)
        h = _pair_values(bag)
        before = h.clone()
        out = layer(h, bag)
        expected = kind_of(h[:, :3])
        _need(
            kind_of(out) == expected,
            f"the layer returned {kind_of(out)}, expected {expected}: one row for each pair, and out_channels channels",
        )
        _need(torch.equal(h, before), "the layer changed its input")
        _need(out.isfinite().all(), "the layer returned numbers that are not finite")
        kept = out[:, :, None] * (h + 1.5)[:, None] * (bag.member[:, None, None] if domain == "members" else 1)
        return x.new_zeros(len(x), 12).index_add(0, bag.node, kept.flatten(1))

    for mode in (True, False):
        layer.train(mode)
        assert_equivariant(on_nodes, batch, level="node", seed=seed)
    assert_batch_invariant(on_nodes, graphs)
    inputs = batch.x, batch.edge_index, batch.batch
    _close(on_nodes(*inputs), on_nodes(*inputs), "two calls of the layer differ", 0.0, 0.0)
    if domain == "members":
        _close(
            on_nodes(*inputs, store="members"),
            on_nodes(*inputs),
            "the values of members depend on how the bag is stored",
        )
    bag = policy.from_data(batch)
    _check_gradients(layer, lambda h: layer(h, bag), _pair_values(bag), seed)


def check_term(term: str | Term, *, seed: int = 0) -> None:
    """Check all that the library expects of a term, on small random graphs; an ``AssertionError`` says what does not hold.

    Its value must pass ``check_layer``, have the rows of its scope, and be at roots what its formula says. What it says of itself must be true:
    it works without one subgraph per node unless ``node_based``, and with ``stays_inside`` no other subgraph changes its value.

    >>> check_term("needle@Ak")

    Args:
        term: the term, or its name.
        seed: seed of the graphs and values.
    """
    term = find_term(term) if isinstance(term, str) else term
    batch = Batch.from_data_list(
        random_graphs(3, min_nodes=3, max_nodes=6, num_features=4, edge_prob=0.5, dtype=torch.float64, seed=seed)
    )
    for name in ("nm", "ego:1"):
        policy = policies.policy(name)
        bag = policy.from_data(batch)
        state = State(_pair_values(bag), bag)
        on = state.get(term, "on")
        _check_rows(term, state)
        if re.sub(r"\bk\b|(?<=_)k\b", "i", term.formula) == term.formula_at("on"):
            _close(
                state.spread(term)[bag.root_row],
                on,
                f"term '{term.name}' has another value at roots than for all pairs",
            )
        if not term.node_based and term.place is None:
            chosen = torch.arange(0, bag.num_nodes, 2)
            some = policy(batch.x, batch.edge_index, batch=batch.batch, roots=chosen)
            part = State(_pair_values(some), some)
            _check_rows(term, part)
            if term.stays_inside:
                expected_rows = torch.isin(bag.sub, chosen)
                _close(
                    part.spread(term),
                    state.spread(term)[expected_rows],
                    f"term '{term.name}' stays inside, but other subgraphs change its value",
                )
    check_layer(partial(_OneTerm, term), "nm", seed=seed)
    check_layer(partial(_OneTerm, term, domain="members"), "ego+:2", "members", seed=seed)


def _check_rows(term: Term, state: State) -> None:
    """One row for each element of the scope, and one for each root."""
    bag = state.bag
    numbers = {"pair": bag.num_pairs, "subgraph": bag.num_subgraphs, "node": bag.num_nodes, "graph": bag.num_graphs}
    where: Where
    for where, each in (("off", term.scope), ("on", "subgraph")):
        rows = len(state.get(term, where))
        what = f"one for each {each}" + (", its scope" if where == "off" else " where roots alone are updated")
        _need(rows == numbers[each], f"term '{term.name}' has {rows} rows, expected {numbers[each]}: {what}")


class _OneTerm(nn.Module):
    """The value of a term for every pair, as a layer."""

    def __init__(self, term: Term, in_channels: int, out_channels: int, domain: Domain = "all") -> None:
        super().__init__()
        self.term, self.domain, self.out_channels = term, domain, out_channels

    def forward(self, h: Tensor, bag: SubgraphBag) -> Tensor:
        return State(h, bag, self.domain).spread(self.term)[:, : self.out_channels]


def _pair_values(bag: SubgraphBag) -> Tensor:
    """Values that differ from pair to pair and move with the nodes: four channels of node i and of the anchors of subgraph k."""
    x = bag.graph.x
    anchors = sum((n + 2) * x[anchor].roll(n + 1, 1) for n, anchor in enumerate(bag.anchor.t()))
    return torch.sin(x[bag.node] + torch.as_tensor(anchors)[bag.sub]) if bag.anchor.size(1) else torch.sin(x[bag.node])


def _check_gradients(layer: nn.Module, function: Callable[[Tensor], Tensor], h: Tensor, seed: int) -> None:
    """Gradients reach all weights, and agree with differences of values along a random direction."""
    rng = torch.Generator().manual_seed(seed)
    named = {"h": h.clone().requires_grad_(), **{name: each for name, each in layer.named_parameters() if each.requires_grad}}
    weight = torch.randn(function(h).shape, generator=rng, dtype=h.dtype)

    def loss() -> Tensor:
        return (function(named["h"]) * weight).sum()

    grads = dict(zip(named, torch.autograd.grad(loss(), list(named.values()), allow_unused=True), strict=True))
    unused = [name for name, grad in grads.items() if grad is None]
    _need(not unused, f"no gradient reaches {', '.join(unused)}")
    for name, value in named.items():
        way, step = torch.randn(value.shape, generator=rng, dtype=h.dtype), 1e-6
        with torch.no_grad():
            ends = []
            for sign in (1, -2):
                value += sign * step * way
                ends.append(loss())
            value += step * way
        expected = (ends[0] - ends[1]) / (2 * step)
        _close((grads[name] * way).sum(), expected, f"the gradient of {name} differs from the change of values", 1e-4, 1e-4)


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


def _need(holds: Any, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _close(actual: Tensor, expected: Tensor, what: str, atol: float | None = None, rtol: float | None = None) -> None:
    torch.testing.assert_close(actual, expected, atol=atol, rtol=rtol, msg=lambda text: f"{what}: {text}")
