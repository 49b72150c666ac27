"""Policies by name, sampled bags, a policy of one's own."""

import inspect
import re
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import ClassVar

import networkx as nx
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_networkx
from typer.testing import CliRunner

import reign
from reign.bags import FAR, SharedGraph
from reign.cli import app
from reign.policies import (
    POLICIES,
    Central,
    EdgeDeletion,
    EgoNets,
    Mark,
    NodeDeletion,
    NodeMarking,
    Null,
    Pairs,
    Policy,
    Sampled,
    Tuples,
    bag_sizes,
    example_graph,
    policy_meanings,
)
from reign.testing import assert_bags_equal, assert_batch_invariant, assert_equivariant, random_graphs
from reign.transforms import AddHopDistance

NAMED = {
    "null": Null(),
    "nd": NodeDeletion(),
    "nm": NodeMarking(),
    "nm+single": NodeMarking(mark="single"),
    "ego+single:2": EgoNets(2, mark="single"),
    "2-nm+single": Tuples(NodeMarking(mark="single")),
    "nm+single@0.5": Sampled(NodeMarking(mark="single"), share=0.5),
    "nm+distance5": NodeMarking(mark="distance"),
    "nm+distance8": NodeMarking(mark="distance", max_distance=8),
    "ego:2": EgoNets(2),
    "ego+:3": EgoNets(num_hops=3, mark=True),
    "ego+distance:4": EgoNets(4, mark="distance"),
    "ed": EdgeDeletion(),
    "2-nd": Tuples(NodeDeletion()),
    "2-ego+:2": Tuples(EgoNets(2, mark=True)),
    "2-set-nd": Tuples(NodeDeletion(), ordered=False),
    "3-nm": Tuples(NodeMarking(), 3),
    "3-set-nm+distance8": Tuples(NodeMarking(mark="distance", max_distance=8), size=3, ordered=False),
    "3-set-nd@0.5": Sampled(Tuples(NodeDeletion(), 3, False), share=0.5),
    "ego+:3@0.5": Sampled(EgoNets(3, mark=True), share=0.5),
    "ed@8": Sampled(EdgeDeletion(), number=8),
    "nm@0.25+zero": Sampled(NodeMarking(), share=0.25, missing="zero"),
    "ego+:3@8+mean": Sampled(EgoNets(3, mark=True), number=8, missing="mean"),
    "central:2": Central(2),
}


@pytest.mark.parametrize(("name", "expected"), NAMED.items())
def test_names_and_classes_are_the_same(name: str, expected: Policy) -> None:
    assert reign.policy(name) == expected
    assert str(expected) == name
    assert reign.policy(expected) is expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("egoo:3", "unknown policy 'egoo:3'; did you mean 'ego:3' or 'ego\\+:3'\\? Known: 'null', "),
        ("", "unknown policy ''\\. Known"),
        ("ego", "policy 'ego' needs a depth, as in 'ego:3'"),
        ("ego:0", "num_hops is 0, expected a whole number of at least 1"),
        ("nm:3", "policy 'nm' takes no depth, got 'nm:3'; write 'nm'"),
        ("nd+", "policy 'nd' takes no mark, got 'nd\\+'"),
        ("ego+distance2:3", "policy 'ego' takes no largest distance"),
        ("nm+distance0", "max_distance is 0, expected a whole number from 1 to 32766"),
        ("2-ed", "Tuples needs a node-based policy, got 'ed'"),
        ("2-set-whole", "Tuples needs a node-based policy, got 'whole'"),
        ("0-nd", "unknown policy '0-nd'"),
        ("10-nd", "unknown policy '10-nd'"),
        ("nm@0", "number is 0, expected at least 1"),
        ("nm@1.5", "share is 1.5, expected a number above 0 and at most 1"),
        ("ego:32767", "num_hops is 32767, expected a whole number of at least 1 and below 32767"),
        ("nm+distance32767", "max_distance is 32767, expected a whole number from 1 to 32766"),
        ("nm@1.5.2", "ends in '@1.5.2', expected a share such as '@0.5' or a number such as '@8'"),
        (3, "policy is of type int, expected a name such as 'ego\\+:3'"),
    ],
)
def test_wrong_names(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        inspect.unwrap(reign.policy)(name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EgoNets(0), "num_hops is 0"),
        (lambda: NodeMarking(mark=False), "mark is False, expected True, 'single' or 'distance'"),
        (lambda: _unchecked_sampled(policy="nm", number=2), "policy is 'nm', expected a Policy"),
        (
            lambda: _unchecked_sampled(policy=Null(), number=2.5),
            "number is 2.5, expected a whole number",
        ),
        (lambda: Tuples(Sampled(Null(), number=2).eval()), "Tuples needs a node-based policy"),
        (lambda: Tuples(Null(), 1), "size is 1, expected 2 to 9 nodes for each subgraph; with one node it is 'null' itself"),
        (lambda: Sampled(Null()), "share is None and number is None, expected exactly one of the two"),
        (lambda: Sampled(Null(), share=0.5, number=2), "expected exactly one of the two"),
        (lambda: Sampled(Null(), share=0.5, eval_draws=0), "eval_draws is 0"),
        (
            lambda: Sampled(EdgeDeletion(), share=0.5, missing="mean"),
            "missing is 'mean', but policy 'ed' does not have one subgraph per node",
        ),
        (lambda: _unchecked_sampled(policy=Null(), number=2, missing="half"), "missing is 'half', expected 'zero', 'mean' or None"),
    ],
)
def test_wrong_arguments(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def _unchecked_sampled(**values: object) -> None:
    """As a user makes it: without the checks of signatures that only tests have."""
    made = object.__new__(Sampled)
    made.__dict__.update({"share": None, "number": None, "seed": 0, "eval_draws": None, "missing": None} | values)
    inspect.unwrap(Sampled.__post_init__)(made)


@dataclass(frozen=True)
class NeighbourDeletion(Policy):
    """A policy of one's own: every subgraph loses the neighbours of its root."""

    meaning: ClassVar[str] = "the root loses its neighbours"

    def keep(self, pairs: Pairs) -> Tensor:
        return pairs.hops(max_hops=1)[:, 0] != 1


def test_a_policy_of_ones_own_is_one_method() -> None:
    graphs = random_graphs(5, min_nodes=2)
    policy = NeighbourDeletion()
    assert_batch_invariant(policy, graphs)
    assert_equivariant(policy, Batch.from_data_list(graphs))
    for data in graphs:
        joined = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.bool)
        joined[data.edge_index[0], data.edge_index[1]] = True
        assert torch.equal(policy.from_data(data).to_dense().member, ~joined)
    assert "NeighbourDeletion()" in repr(policy.from_data(graphs[0]))


@pytest.mark.parametrize("name", ["nm", "ego+:2", "ed", "2-nm"])
@pytest.mark.parametrize(("sample", "wanted"), [({"share": 0.4}, lambda m: round(0.4 * m)), ({"number": 3}, lambda m: 3)])
def test_sampled_bags_are_parts_of_the_whole(name: str, sample, wanted) -> None:
    batch = Batch.from_data_list(random_graphs(6, min_nodes=1, max_nodes=7, seed=3))
    whole, policy = reign.policy(name).from_data(batch), Sampled(reign.policy(name), **sample)
    bag = policy.from_data(batch)
    assert not bag.node_based
    for g in range(batch.num_graphs):
        there, here = whole[g], bag[g]
        assert here.num_subgraphs == min(there.num_subgraphs, max(1, wanted(there.num_subgraphs)))
        order = {tuple(anchor): k for k, anchor in enumerate(there.anchor.tolist())}
        for k, anchor in enumerate(here.anchor.tolist()):
            ours, theirs = here.subgraph(k), there.subgraph(order[tuple(anchor)])
            assert torch.equal(ours.x, theirs.x)
            assert torch.equal(ours.edge_index, theirs.edge_index)
            assert torch.equal(ours.member, theirs.member)


def test_draws_are_seeded_and_new_at_each_call_of_training() -> None:
    batch = Batch.from_data_list(random_graphs(4, min_nodes=6))
    one, two = (Sampled(NodeMarking(), share=0.5, seed=7) for _ in range(2))
    first, second = one.from_data(batch), one.from_data(batch)
    assert torch.equal(two.from_data(batch).anchor, first.anchor)
    assert not torch.equal(first.anchor, second.anchor)
    assert not torch.equal(Sampled(NodeMarking(), share=0.5, seed=8).from_data(batch).anchor, first.anchor)


def test_every_root_is_drawn_about_equally_often() -> None:
    (data,) = random_graphs(1, min_nodes=5, max_nodes=5)
    policy = Sampled(NodeMarking(), number=2)
    roots = torch.cat([policy.from_data(data).root for _ in range(500)])
    counts = torch.bincount(roots, minlength=5)
    assert counts.sum() == 1000
    assert counts.min() > 150


def test_evaluation_takes_all_subgraphs_or_fixed_draws() -> None:
    graphs = random_graphs(4, min_nodes=4)
    batch = Batch.from_data_list(graphs)
    policy = Sampled(NodeMarking(), share=0.5).eval()
    assert_bags_equal(policy.from_data(batch), NodeMarking().from_data(batch))
    assert policy.from_data(batch).node_based
    assert policy.draws() == [policy]
    draws = Sampled(NodeMarking(), share=0.5, eval_draws=3)
    assert draws.draws() == [draws]
    draws.eval()
    assert len(draws.draws()) == 3
    assert_bags_equal(draws.from_data(batch), draws.from_data(batch))
    bags = [each.from_data(batch) for _ in range(2) for each in draws.draws()]
    for now, later in zip(bags[:3], bags[3:], strict=True):
        assert_bags_equal(now, later)
    assert not torch.equal(bags[0].anchor, bags[1].anchor)
    fixed = Sampled(NodeMarking(), share=0.5, eval_draws=1).eval()
    assert_batch_invariant(fixed, graphs)


def test_a_sample_has_at_least_one_subgraph() -> None:
    alone = Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0, dtype=torch.long))
    assert Sampled(NodeMarking(), share=0.4).from_data(alone).num_subgraphs == 1


@dataclass(frozen=True)
class Beyond(Policy):
    """The root, and the nodes that are more than one hop away."""

    def keep(self, pairs: Pairs) -> torch.Tensor:
        return (pairs.hops(1)[:, 0] == FAR) | pairs.is_anchor[:, 0]


def test_stored_distances_end_where_a_search_does() -> None:
    path = Data(x=torch.ones(4, 1), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    expected = [[1, 0, 1, 1], [0, 1, 0, 1], [1, 0, 1, 0], [1, 1, 0, 1]]
    for data in (path, AddHopDistance()(path.clone())):
        assert Beyond().from_data(data).to_dense().member.int().tolist() == expected


def test_draws_of_evaluation_depend_on_the_seed() -> None:
    batch = Batch.from_data_list(random_graphs(4, min_nodes=6))

    def anchors(seed: int) -> list[list[int]]:
        policy = Sampled(NodeMarking(), share=0.5, seed=seed, eval_draws=2).eval()
        return [draw.from_data(batch).anchor.flatten().tolist() for draw in policy.draws()]

    assert anchors(1) == anchors(1)
    assert len({tuple(roots) for seed in range(4) for roots in anchors(seed)}) == 8


def test_wrong_domain() -> None:
    (data,) = random_graphs(1)
    with pytest.raises(ValueError, match="domain is 'some', expected 'all' or 'members'"):
        inspect.unwrap(Policy.__call__)(Null(), data.x, data.edge_index, domain="some")


def test_stored_distances_of_another_graph() -> None:
    (data,) = random_graphs(1, min_nodes=4, max_nodes=4)
    with pytest.raises(ValueError, match="hop_distance is a tensor of shape \\(9,\\) .*, expected shape \\(16,\\)"):
        EgoNets(2)(data.x, data.edge_index, hop_distance=torch.zeros(9, dtype=torch.int16))


def test_hop_distances_reach_across_the_graph() -> None:
    n = 40
    path = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    data = reign.transforms.AddHopDistance()(random_graphs(1, min_nodes=n, max_nodes=n)[0].update({"edge_index": path}))
    position = torch.arange(n)
    assert torch.equal(data.hop_distance.view(n, n).long(), (position[:, None] - position).abs())


def test_names_of_sampled_policies_say_all_or_are_expressions() -> None:
    assert str(Sampled(NodeMarking(), share=1.0)) == "nm@1.0"
    assert reign.policy("nm@1.0").share == 1.0
    assert str(Sampled(NodeMarking(), number=2, seed=3)).startswith("Sampled(policy=NodeMarking(")


class Wrong(Policy):
    """keep with a column too many."""

    def keep(self, pairs: Pairs) -> Tensor:
        return pairs.hops(1) != 1

    def __str__(self) -> str:
        return "wrong"


def test_what_keep_gives_is_checked() -> None:
    (data,) = random_graphs(1, min_nodes=3, max_nodes=3)
    with pytest.raises(
        ValueError, match="keep of policy 'wrong' returned a tensor of shape \\(9, 1\\).*expected one Boolean per pair"
    ):
        Wrong().from_data(data)


@pytest.mark.parametrize("domain", ["all", "members"])
def test_search_in_parts_gives_the_same(domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = Batch.from_data_list(random_graphs(6, min_nodes=5, edge_prob=0.6))
    whole = EgoNets(2).from_data(batch, domain=domain)
    monkeypatch.setattr("reign.bags._hops.CHUNK", 7)
    assert_bags_equal(EgoNets(2).from_data(batch, domain=domain), whole)


def test_deep_ego_nets_end_with_the_graph() -> None:
    (data,) = random_graphs(1, min_nodes=6, max_nodes=6)
    for domain in ("all", "members"):
        assert_bags_equal(EgoNets(30_000).from_data(data, domain=domain), EgoNets(6).from_data(data, domain=domain))


@pytest.mark.usefixtures("signatures_unchecked")
def test_paths_that_are_too_long_to_count() -> None:
    n = 33_000
    path = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    graph = reign.bags.SharedGraph.build(torch.ones(n, 1), path)
    with pytest.raises(ValueError, match="a shortest path of at least 32767 hops"):
        reign.bags.hop_table(graph, torch.tensor([0]))


def test_data_that_is_none() -> None:
    with pytest.raises(ValueError, match="data is None, expected a torch_geometric.data.Data"):
        Null().from_data(None)
    union = Null().from_data(random_graphs(1, min_nodes=3)[0]).expand()
    assert Null().from_data(union).num_nodes == union.num_nodes


def test_a_policy_of_ones_own_has_a_name(tmp_path: Path) -> None:
    known = reign.list_policies()
    POLICIES.register("neighbour-deletion")(NeighbourDeletion)
    assert reign.policy("neighbour-deletion") == NeighbourDeletion()
    assert reign.policy("2-Neighbour-Deletion@4") == Sampled(Tuples(NeighbourDeletion()), number=4)
    assert str(NeighbourDeletion()) == "neighbour-deletion"
    assert str(Tuples(NeighbourDeletion())) == "2-neighbour-deletion"
    assert reign.list_policies() == [*known, "neighbour-deletion"]
    with pytest.raises(ValueError, match="unknown policy 'neighbor-deletion'; did you mean 'neighbour-deletion'\\?"):
        reign.policy("neighbor-deletion")
    shown = CliRunner().invoke(app, ["policies", "--example"])
    assert shown.output.count("neighbour-deletion") == 2
    assert NeighbourDeletion.meaning in shown.output
    (data,) = random_graphs(1, min_nodes=5)
    model = reign.nn.SUN(3, 4, 2, 1, policy=NeighbourDeletion()).eval()
    model.save_pretrained(tmp_path)
    again = reign.nn.SUN.from_pretrained(tmp_path)
    assert again.policy == NeighbourDeletion()
    assert torch.equal(again(data.x, data.edge_index), model(data.x, data.edge_index))


@dataclass(frozen=True)
class Ring(Policy):
    """The root and the nodes at a distance, with a mark if one wants it."""

    num_hops: int = 1
    mark: Mark = False
    max_distance: int = 4
    loop: bool = True

    def keep(self, pairs: Pairs) -> Tensor:
        hops = pairs.hops()
        return ((hops == self.num_hops) | (hops == 0)).any(dim=1)


def test_the_fields_of_a_policy_are_its_grammar() -> None:
    POLICIES.register("ring")(Ring)
    made = {
        "ring:1": Ring(),
        "ring:3": Ring(3),
        "ring+:2": Ring(2, mark=True),
        "ring+distance4:2": Ring(2, mark="distance"),
        "ring+distance6:2": Ring(2, mark="distance", max_distance=6),
    }
    for name, policy in made.items():
        assert reign.policy(name) == policy
        assert str(policy) == name
    assert reign.policy("ring") == Ring()
    assert reign.policy("ring+distance") == Ring(mark="distance")
    assert str(Ring(loop=False)) == "Ring(num_hops=1, mark=False, max_distance=4, loop=False)"  # no name says so


def test_names_that_a_policy_cannot_have() -> None:
    with pytest.raises(ValueError, match="policy 'nd' is already registered"):
        POLICIES.register("nd")(Ring)
    for name in ("my ring", "ring:2", "ring+", "ring@2", "3-ring"):
        with pytest.raises(ValueError, match="cannot be the name of a policy"):
            POLICIES.register(name)(Ring)

    @POLICIES.register("needy")
    @dataclass(frozen=True)
    class Needy(Ring):
        number: int = field(kw_only=True)

    with pytest.raises(ValueError, match="policy 'needy' needs number, which cannot be part of a name; use Needy"):
        reign.policy("needy")
    assert str(Needy(number=2)) == repr(Needy(number=2))


def test_facts_of_policies() -> None:
    assert [name for name, kind in POLICIES.items() if kind.in_paper_class] == ["null", "nd", "nm", "ego"]
    assert list(policy_meanings()) == reign.list_policies()
    assert all(policy_meanings().values())
    for name in reign.list_policies():
        assert str(reign.policy(name)) in (name, f"{name}5")  # 'nm+distance' has a cap
    assert not NeighbourDeletion.in_paper_class
    assert not Sampled(Null(), number=2).in_paper_class


def test_tuples_of_one_node_are_the_policy_itself() -> None:
    assert reign.policy("1-nd") == reign.policy("1-set-nd") == NodeDeletion()


def test_numbers_of_tuples_are_known_before_they_are_made() -> None:
    """Also where they are far too many to count in 64 bits, or to fit into any memory."""
    x, none = torch.ones(200_000, 1), torch.empty(2, 0, dtype=torch.long)
    graph = SharedGraph.build(x[:30], none)
    numbers = {name: int(reign.policy(name).num_subgraphs(graph)) for name in ("2-nm", "2-set-nm", "3-nm", "3-set-nm", "9-set-nm")}
    assert numbers == {"2-nm": 900, "2-set-nm": 435, "3-nm": 27_000, "3-set-nm": 4060, "9-set-nm": 14_307_150}
    assert int(reign.policy("9-nm").num_subgraphs(SharedGraph.build(x, none))) > 0
    for name, pairs, law in (
        ("3-nm", "1,600,000,000,000,000,000,000 pairs", "3 of n nodes make about n^4 pairs"),
        ("2-set-nd", "3,999,980,000,000,000 pairs", "2 of n nodes make about n^3 / 2 pairs"),
    ):
        with pytest.raises(ValueError, match=f"policy '{name}' on 200,000 nodes makes {pairs} .*{re.escape(law)}"):
            reign.policy(name)(x, none)


def test_sizes_of_bags() -> None:
    data = example_graph()  # 12 nodes, 13 edges
    found = {bag.policy: bag for bag in bag_sizes(data)}
    assert list(found) == reign.list_policies()
    assert astuple(found["null"])[:-1] == ("null", 12, 144, 144, 12 * 13, 1)
    assert astuple(found["ed"])[:-1] == ("ed", 13, 13 * 12, 13 * 12, 13 * 12, 1)
    assert found["nd"].edges == 12 * 13 - 2 * 13  # every edge is lost in the subgraphs of its two ends
    assert (found["2-nm"].subgraphs, found["whole"].subgraphs) == (144, 1)
    hops = dict(nx.all_pairs_shortest_path_length(to_networkx(data, to_undirected=True), cutoff=3))
    assert found["ego:3"].members == sum(map(len, hops.values())) < 144
    assert all(bag.seconds > 0 for bag in found.values())


def test_numbers_of_subgraphs_are_those_of_the_bags() -> None:
    data = Batch.from_data_list(random_graphs(4, min_nodes=1, max_nodes=6))
    graph = SharedGraph.build(data.x, data.edge_index, None, data.batch, 4)
    sampled = [Sampled(Tuples(NodeMarking()), number=3), Sampled(NodeMarking(), share=0.4), Sampled(Null(), number=2, eval_draws=2)]
    for policy in [*map(reign.policy, reign.list_policies()), *sampled]:
        for mode in (True, False):
            expected = torch.bincount(policy.train(mode).anchors(graph)[1], minlength=4)
            assert torch.equal(policy.num_subgraphs(graph), expected), (policy, mode)
