"""The property checks find what they look for, and only that."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch

from reign import list_policies, list_terms
from reign.bags import Domain
from reign.nn import DSConv, DSSConv, ReIGN2Conv, SSWLConv, SUNConv, Term, term
from reign.policies import EgoNets, NodeMarking, Policy
from reign.testing import (
    assert_bags_equal,
    assert_batch_invariant,
    assert_equivariant,
    check_layer,
    check_policy,
    check_term,
    permute_graph,
    random_graphs,
    random_permutation,
)
from reign.transforms import AddHopDistance

GRAPHS = random_graphs(4, min_nodes=3, edge_prob=0.5)


def degree(x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
    return torch.bincount(edge_index[1], minlength=x.size(0)).to(x.dtype)[:, None] * x


def total(x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
    batch = torch.zeros(x.size(0), dtype=torch.long) if batch is None else batch
    return x.new_zeros(int(batch.max()) + 1, x.size(1)).index_add(0, batch, degree(x, edge_index))


def by_position(x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
    return x * torch.arange(x.size(0))[:, None]


def centred(x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
    return x - x.mean(0)


def test_what_is_equivariant_passes() -> None:
    batch = Batch.from_data_list(GRAPHS)
    assert_equivariant(degree, batch, level="node")
    assert_equivariant(degree, GRAPHS[0], level="node")
    assert_equivariant(total, batch, level="graph")
    assert_equivariant(lambda x, e, batch: x[e[0]] - x[e[1]], batch, level="edge")
    assert_equivariant(EgoNets(2, mark=True), batch)


def test_what_is_not_equivariant_fails() -> None:
    batch = Batch.from_data_list(GRAPHS)
    with pytest.raises(AssertionError, match="not equivariant under the permutation"):
        assert_equivariant(by_position, batch, level="node")
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(degree, batch, level="graph")
    with pytest.raises(AssertionError, match="bags differ in x"):
        assert_equivariant(lambda x, e, batch: NodeMarking()(by_position(x, e), e, batch=batch), batch)


def test_what_depends_on_the_batch_fails() -> None:
    assert_batch_invariant(degree, GRAPHS)
    assert_batch_invariant(total, GRAPHS)
    assert_batch_invariant(EgoNets(1), GRAPHS)
    with pytest.raises(AssertionError, match="alone and in a batch differ"):
        assert_batch_invariant(centred, GRAPHS)
    with pytest.raises(AssertionError, match="bags differ in x"):
        assert_batch_invariant(lambda x, e, batch=None: NodeMarking()(centred(x, e), e, batch=batch), GRAPHS)


def test_different_bags_differ() -> None:
    ring = random_graphs(1, min_nodes=5, max_nodes=5)[0]
    ring.edge_index = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    bag = NodeMarking().from_data(ring)
    with pytest.raises(AssertionError, match="bags differ in member"):
        assert_bags_equal(bag, EgoNets(1, mark=True).from_data(ring))
    other = ring.clone()
    other.edge_index = ring.edge_index.flip(0)
    with pytest.raises(AssertionError, match="edges"):
        assert_bags_equal(bag, NodeMarking().from_data(other))


def test_permutations_are_never_the_identity() -> None:
    for seed in range(50):
        assert random_permutation(2, seed).tolist() == [1, 0]
        perm = random_permutation([3, 1, 2], seed)
        assert perm.sort().values.tolist() == [0, 1, 2, 3, 4, 5]
        assert set(perm[:3].tolist()) == {0, 1, 2}
        assert perm[3] == 3
        assert perm.tolist() != [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="at least 2 nodes"):
        random_permutation([1, 1])


def test_random_graphs_of_impossible_sizes() -> None:
    with pytest.raises(ValueError, match="sizes are 5 to 2 and edge_prob is 0.5, expected 0 <= min_nodes <= max_nodes"):
        random_graphs(1, min_nodes=5, max_nodes=2, edge_prob=0.5)
    with pytest.raises(ValueError, match="edge_prob is 2.0, expected"):
        random_graphs(1, edge_prob=2.0)


def test_random_graphs_are_seeded_and_undirected() -> None:
    graphs = random_graphs(30, edge_dim=2, num_features=4, dtype=torch.float64)
    again = random_graphs(30, edge_dim=2, num_features=4, dtype=torch.float64)
    assert {g.num_nodes for g in graphs} >= {1, 9}
    for data, twin in zip(graphs, again, strict=True):
        assert torch.equal(data.x, twin.x)
        assert data.x.dtype == torch.float64
        assert data.is_undirected()
        assert data.edge_attr.shape == (data.num_edges, 2)


def test_permute_graph_moves_nodes_to_their_places() -> None:
    data = GRAPHS[0]
    perm = random_permutation(data.num_nodes)
    moved = permute_graph(data, perm)
    assert torch.equal(moved.x[perm], data.x)
    assert torch.equal(moved.x[moved.edge_index[0]], data.x[data.edge_index[0]])


def test_checks_that_could_not_fail_are_refused() -> None:
    with pytest.raises(ValueError, match="the function returned None, expected a tensor or a SubgraphBag"):
        assert_equivariant(lambda *args, **kwargs: None, GRAPHS[0])
    with pytest.raises(ValueError, match="level is 'nodes'"):
        inspect.unwrap(assert_equivariant)(degree, GRAPHS[0], level="nodes")
    with pytest.raises(ValueError, match="expected a list of one or more"):
        assert_batch_invariant(degree, [])
    with pytest.raises(ValueError, match="expected a permutation of the"):
        permute_graph(GRAPHS[0], torch.zeros(GRAPHS[0].num_nodes, dtype=torch.long))


def test_edge_features_belong_to_a_bag() -> None:
    (data,) = random_graphs(1, min_nodes=4, max_nodes=4, edge_prob=1.0, edge_dim=1)
    bag = NodeMarking().from_data(data)
    data.edge_attr = data.edge_attr.roll(1, 0)
    with pytest.raises(AssertionError, match="features of these edges"):
        assert_bags_equal(bag, NodeMarking().from_data(data))


def test_all_that_belongs_to_nodes_moves() -> None:
    data = AddHopDistance()(GRAPHS[0].clone())
    data.pos = torch.randn(data.num_nodes, 2)
    perm = random_permutation(data.num_nodes)
    moved = permute_graph(data, perm)
    assert torch.equal(moved.pos[perm], data.pos)
    n = data.num_nodes
    assert torch.equal(moved.hop_distance.view(n, n)[perm][:, perm], data.hop_distance.view(n, n))


# -- contracts: each has a test in which it fails -----------------------------------------------------------------------


@dataclass(frozen=True)
class Rule(Policy):
    """A policy that keeps what a function says; ``claims`` are what it says of itself."""

    kept: Callable[..., Tensor]
    depth: int | None = None

    def keep(self, pairs: Any) -> Tensor:
        return self.kept(pairs)

    @property
    def radius(self) -> int | None:
        return self.depth


@dataclass(frozen=True)
class Marked(Rule):
    """A policy that says it has more marks than its bags have."""

    @property
    def num_marks(self) -> int:
        return 3


class Told:
    """Answers differ from call to call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, pairs: Any) -> Tensor:
        self.calls += 1
        return pairs.is_anchor[:, 0] | ((pairs.node + pairs.sub + self.calls) % 2 == 0)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Rule(lambda pairs: pairs.node % 2 == 0), "bags differ|not equivariant"),
        (Rule(Told()), "bags differ"),
        (Rule(lambda pairs: pairs.graph.batch[pairs.node] == 0), "bags differ"),
        (Rule(lambda pairs: pairs.hops(2)[:, 0] <= 2, depth=1), "more than 1 hops from their root|other members"),
        (Marked(lambda pairs: pairs.hops(2)[:, 0] <= 2), "0 channels of marks, expected num_marks = 3"),
    ],
)
def test_check_policy_finds(policy: Policy, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_policy(policy)


def test_check_policy_takes_what_is_right() -> None:
    check_policy(Rule(lambda pairs: pairs.hops()[:, 0] != 1))
    with pytest.raises(ValueError, match="draws its bags at random"):
        check_policy("nm@2")


class Own(nn.Module):
    """A layer of one linear map and a function of (new values, bag, layer)."""

    def __init__(self, change: Callable[[Tensor, Any, "Own"], Tensor], a: int, b: int) -> None:
        super().__init__()
        self.map, self.change, self.calls = nn.Linear(a, b), change, 0

    def forward(self, h: Tensor, bag: Any) -> Tensor:
        self.calls += 1
        return self.change(self.map(h), bag, self)


def grows(out: Tensor, bag: Any, layer: Own) -> Tensor:
    return out + layer.calls


def other_gradient(out: Tensor, bag: Any, layer: Own) -> Tensor:
    return out.detach() ** 2 + 2 * out - 2 * out.detach()


class Unused(nn.Linear):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(a, b)
        self.left = nn.Parameter(torch.ones(b))

    def forward(self, h: Tensor, bag: Any = None) -> Tensor:
        return super().forward(h)


class InPlace(Unused):
    def forward(self, h: Tensor, bag: Any = None) -> Tensor:
        out = super().forward(h)
        h += 1
        return out


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(Own, lambda out, bag, _: out * (bag.node % 2)[:, None]), "not equivariant"),
        (partial(Own, lambda out, bag, _: out * bag.num_graphs), "alone and in a batch differ"),
        (partial(Own, grows), "not equivariant|two calls of the layer differ|alone and in a batch"),
        (partial(Own, lambda out, bag, _: out[:, :2]), r"expected a tensor of shape \(\d+, 3\)"),
        (partial(Own, lambda out, bag, _: out.float()), "dtype torch.float32, expected"),
        (partial(Own, lambda out, bag, _: out / 0), "not finite"),
        (partial(Own, other_gradient), "the gradient of h differs"),
        (Unused, "no gradient reaches left"),
        (InPlace, "changed its input"),
    ],
)
def test_check_layer_finds(make: Callable[[int, int], nn.Module], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_layer(make)


def test_check_layer_compares_how_bags_are_stored() -> None:
    def rows(out: Tensor, bag: Any, layer: Own) -> Tensor:
        return out * torch.bincount(bag.node, minlength=bag.num_nodes)[bag.node][:, None]

    check_layer(partial(Own, rows))
    with pytest.raises(AssertionError, match="depend on how the bag is stored"):
        check_layer(partial(Own, rows), domain="members")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (replace(term("readout"), scope="node"), "rows, expected"),
        (replace(term("needle"), stays_inside=True), "other subgraphs change its value"),
        (replace(term("own"), value=lambda s, where: s.root * 2 if where == "on" else s.h), "another value at roots"),
        (replace(term("readout"), scope="pair"), "shape|rows"),
        (
            replace(term("own"), value=lambda s, where: (s.root if where == "on" else s.h) * s.bag.num_graphs),
            "alone and in a batch differ",
        ),
    ],
)
def test_check_term_finds(wrong: Term, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_term(wrong)


def test_check_term_tries_terms_that_need_no_root_of_their_own_without() -> None:
    with pytest.raises(ValueError, match="needs one subgraph per node"):
        check_term(replace(term("transpose"), node_based=False))


@pytest.mark.usefixtures("signatures_unchecked")
@pytest.mark.parametrize("name", [each.name for each in list_terms()])
def test_every_term_keeps_its_contract(name: str) -> None:
    check_term(name)


@pytest.mark.parametrize("policy", [policy for policy in list_policies() if "@" not in policy])
def test_every_policy_keeps_its_contract(policy: str) -> None:
    check_policy(policy)


@pytest.mark.parametrize("make", [SUNConv, DSConv, DSSConv, SSWLConv, ReIGN2Conv])
@pytest.mark.parametrize("domain", ["all", "members"])
def test_layers_keep_their_contract(make: type[nn.Module], domain: Domain) -> None:
    check_layer(partial(make, domain=domain), domain=domain)


def test_terms_along_a_root_and_random_policies() -> None:
    check_term("needle:1")
    with pytest.raises(ValueError, match="draws its bags at random; check the layer with the policy that it draws from"):
        check_layer(SUNConv, "nm@0.5+mean")
