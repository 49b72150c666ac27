"""Where a node lies in a subgraph: several shortest paths, and resistance distances."""

import pytest
import torch
from torch import Tensor

import reign

# a square 0 1 2 3 with a tail 4 at 2, and a triangle 5 6 7 apart from it
EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (5, 6), (6, 7), (7, 5)]


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
    for hops, expected in ((2, [0, 2, 1, 2, 0]), (3, [2, 1.75, 1, 1.75, 0])):
        for domain in ("all", "members"):
            bag = reign.policy(f"ego:{hops}")(torch.ones(8, 1), edges(True), domain=domain)
            rows = bag.sub == 4
            found = torch.zeros(8, dtype=torch.float64)
            found[bag.node[rows]] = bag.resistance[rows]
            assert torch.allclose(found, torch.tensor([*expected, 0, 0, 0], dtype=torch.float64))
            assert bag.on_several_paths[rows].any() == (hops == 3)


def test_many_subgraphs_are_inverted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    one = reign.policy("ego:2")(torch.ones(8, 1), edges(True)).resistance
    monkeypatch.setattr("reign.bags._place.ENTRIES", 20)
    assert torch.allclose(one, reign.policy("ego:2")(torch.ones(8, 1), edges(True)).resistance)
