"""Where nodes lie: hop distances, several shortest paths, and resistance distances, by hand."""

import pytest
import torch
from torch import Tensor

import reign
from reign.bags import FAR, SharedGraph, hop_table
from reign.bags import _hops as hops
from reign.bags._hops import near_table

PATH = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])  # one way: distances do not look at it
# a square 0 1 2 3 with a tail 4 at 2, and a triangle 5 6 7 apart from it
EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (5, 6), (6, 7), (7, 5)]


def graph() -> SharedGraph:
    return SharedGraph.build(torch.ones(6, 1), PATH)  # the last node is alone


def test_tables_end_at_the_depth() -> None:
    sources = torch.tensor([0, 3])
    found = {hops: hop_table(graph(), sources, hops).distance.view(2, 6).tolist() for hops in (None, 2, 1)}
    assert found[None] == [[0, 1, 2, 3, 4, FAR], [3, 2, 1, 0, 1, FAR]]
    assert found[2] == [[0, 1, 2, FAR, FAR, FAR], [FAR, 2, 1, 0, 1, FAR]]
    assert found[1] == [[0, 1, FAR, FAR, FAR, FAR], [FAR, FAR, 1, 0, 1, FAR]]


def test_near_nodes_alone() -> None:
    table = near_table(graph(), torch.tensor([0, 3]), 2)
    assert table.key is not None
    assert dict(zip(table.key.tolist(), table.distance.tolist(), strict=True)) == {0: 0, 1: 1, 2: 2, 19: 2, 20: 1, 21: 0, 22: 1}
    assert table.at(torch.tensor([0, 0, 3]), torch.tensor([2, 3, 1])).tolist() == [2, FAR, 2]


def test_a_search_that_has_seen_all_nodes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a complete graph each source looks at its own neighbours, and not at theirs; a path beside it is searched to its end."""
    looked: list[int] = []
    chunks = hops._chunks
    monkeypatch.setattr(hops, "_chunks", lambda graph, node: looked.append(node.numel()) or chunks(graph, node))  # type: ignore[func-returns-value]
    n = 9
    complete = torch.cartesian_prod(torch.arange(n), torch.arange(n)).t()
    path = torch.tensor([[n, n + 1], [n + 1, n + 2]])
    both = SharedGraph.build(
        torch.ones(n + 3, 1),
        torch.cat([complete[:, complete[0] != complete[1]], path], dim=1),
        None,
        torch.tensor([0] * n + [1] * 3),
    )
    full = [0 if i == k else 1 for k in range(n) for i in range(n)] + [0, 1, 2, 1, 0, 1, 2, 1, 0]
    assert hop_table(both, torch.arange(n + 3), 5).distance.tolist() == full
    assert looked == [n + 3, 2]
    looked.clear()
    near = near_table(both, torch.arange(n + 3), 5)
    assert near.distance.tolist() == full
    assert looked == [n + 3, 2]


def edges(both_ways: bool) -> Tensor:
    one = torch.tensor(EDGES).t()
    return torch.cat([one, one.flip(0)], dim=1) if both_ways else one


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize("domain", ["all", "members"])
def test_in_the_whole_graph(domain: str, both_ways: bool) -> None:
    bag = reign.policy("null")(torch.ones(8, 1), edges(both_ways), domain=domain)
    several = bag.on_several_paths.view(8, 8)
    assert several.nonzero().tolist() == [[0, 2], [1, 3], [2, 0], [3, 1], [4, 0]]
    distance = bag.resistance.view(8, 8)
    assert torch.allclose(distance[0, :5], torch.tensor([0, 0.75, 1, 0.75, 2], dtype=torch.float64))
    assert torch.allclose(distance[5, 5:], torch.tensor([0, 2 / 3, 2 / 3], dtype=torch.float64))
    assert distance.dtype == torch.float64


def test_inside_of_ego_nets_other_paths_are_cut() -> None:
    """Around node 4 one hop reaches 2, two hops 1 and 3, which are joined beyond only; three hops close the square."""
    for depth, expected in ((2, [0, 2, 1, 2, 0]), (3, [2, 1.75, 1, 1.75, 0])):
        for domain in ("all", "members"):
            bag = reign.policy(f"ego:{depth}")(torch.ones(8, 1), edges(True), domain=domain)
            rows = bag.sub == 4
            found = torch.zeros(8, dtype=torch.float64)
            found[bag.node[rows]] = bag.resistance[rows]
            assert torch.allclose(found, torch.tensor([*expected, 0, 0, 0], dtype=torch.float64))
            assert bag.on_several_paths[rows].any() == (depth == 3)


def test_many_subgraphs_are_inverted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    one = reign.policy("ego:2")(torch.ones(8, 1), edges(True)).resistance
    monkeypatch.setattr("reign.bags._hops.INVERTED", 20)
    assert torch.allclose(one, reign.policy("ego:2")(torch.ones(8, 1), edges(True)).resistance)
