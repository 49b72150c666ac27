"""Hop distances, by hand."""

import torch

from reign.bags import FAR, SharedGraph, hop_table
from reign.bags._hops import near_table

PATH = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])  # one way: distances do not look at it


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
