"""Bags as sequences of subgraphs, and their pictures."""

import re

import pytest
import torch
from torch_geometric.data import Batch

import reign
from pictures import structure
from reign.draw import place
from reign.testing import random_graphs

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # 0 - 1 - 2


def path_bag(name: str, domain: str = "all") -> reign.SubgraphBag:
    return reign.policy(name)(torch.tensor([[5.0], [6.0], [7.0]]), PATH, domain=domain)


@pytest.mark.parametrize("domain", ["all", "members"])
def test_len_iteration_and_members(domain: str) -> None:
    bag = path_bag("ego+:1", domain)
    assert len(bag) == 3
    assert [data.member.tolist() for data in bag] == [[True, True, False], [True, True, True], [False, True, True]]
    data = bag.subgraph(2, members_only=True)
    assert data.x.tolist() == [[0, 1, 6], [1, 0, 7]]
    assert data.edge_index.tolist() == [[1, 0], [0, 1]]
    assert data.node.tolist() == [1, 2]
    assert data.root == 1


def test_members_of_a_root_that_is_deleted() -> None:
    data = path_bag("nd").subgraph(1, members_only=True)
    assert (data.root, data.node.tolist(), data.num_edges) == (-1, [0, 2], 0)
    for data in path_bag("ed"):
        assert data.root.shape == (2,)


def test_a_batch_iterates_over_all_its_subgraphs() -> None:
    bag = reign.policy("nm").from_data(Batch.from_data_list(random_graphs(3, seed=1)))
    assert len(list(bag)) == len(bag) == bag.num_nodes
    assert len(reign.policy("nm")(torch.ones(0, 1), PATH[:, :0])) == 0


def test_the_picture_tells_members_roots_and_edges_apart() -> None:
    parts = structure(path_bag("ego+:1").draw().svg)["parts"]
    assert parts["subgraph-0-roots"] and parts["subgraph-0-members"] and parts["subgraph-0-outside"]  # noqa: PT018
    assert "subgraph-1-outside" not in parts
    svg = path_bag("nd").draw().svg
    assert 'id="subgraph-1-roots-outside"' in svg
    assert "root, not a member" in svg
    assert 'id="subgraph-0-cut"' in path_bag("ed").draw().svg
    assert re.search("3 subgraphs, 1 shown", path_bag("nm").draw([2]).svg)
    assert ">Cl<" in path_bag("nm").draw(labels=["C", "Cl", "O"]).svg


def test_what_cannot_be_drawn() -> None:
    bag = reign.policy("nm").from_data(Batch.from_data_list(random_graphs(2, seed=1)))
    with pytest.raises(ValueError, match=r"draw needs a bag of one graph, got 2 graphs; use bag\[g\].draw"):
        bag.draw()
    with pytest.raises(ValueError, match="the subgraph index is 9, expected 0 to 2"):
        path_bag("nm").draw([9])
    with pytest.raises(ValueError, match="got 1 labels, expected one for each of the 3 nodes"):
        path_bag("nm").draw(labels=["a"])


def test_directed_edges_and_loops() -> None:
    edges = torch.tensor([[0, 1, 1], [1, 1, 2]])
    assert reign.policy("nm")(torch.ones(3, 1), edges).draw().svg.count("subgraph-") > 3


@pytest.mark.parametrize("seed", range(4))
def test_nodes_are_apart(seed: int) -> None:
    for data in random_graphs(4, min_nodes=1, max_nodes=30, seed=seed):
        at = torch.tensor(place(data.num_nodes, [tuple(e) for e in data.edge_index.t().tolist()]))
        apart = torch.pdist(at)
        assert at.isfinite().all()
        assert apart.numel() == 0 or apart.min() > 0.99
