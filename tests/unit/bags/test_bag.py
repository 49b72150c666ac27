"""The bag on the smallest cases, its views, and edges that are not simple."""

import inspect

import pytest
import torch
from torch_geometric.data import Batch, Data

import reign
from reign.policies import EgoNets, NodeMarking, Null
from reign.testing import assert_bags_equal, random_graphs, random_permutation

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # 0 - 1 - 2


def path_bag(name: str = "ego+:1", **options: str) -> reign.SubgraphBag:
    return reign.policy(name)(torch.tensor([[5.0], [6.0], [7.0]]), PATH, **options)


def test_one_node_no_edges() -> None:
    for name in reign.list_policies():
        bag = reign.policy(name)(torch.ones(1, 1), torch.empty(2, 0, dtype=torch.long))
        assert bag.num_subgraphs == (0 if name in ("ed", "2-set-nd") else 1)  # no edge, and no two distinct nodes
        assert bag.pair_edges.edge.numel() == 0


@pytest.mark.parametrize("name", reign.list_policies())
@pytest.mark.parametrize("domain", ["all", "members"])
def test_graphs_without_nodes(name: str, domain: str) -> None:
    x = torch.ones(3, 1)
    bag = reign.policy(name)(x, PATH, batch=torch.tensor([1, 1, 1]), batch_size=4, domain=domain)
    assert bag.num_graphs == 4
    assert bag[0].num_subgraphs == bag[3].num_subgraphs == (1 if name == "whole" else 0)
    assert_bags_equal(bag[1], reign.policy(name)(x, PATH, domain=domain))
    empty = reign.policy(name)(x[:0], PATH[:, :0], domain=domain)
    assert (empty.num_graphs, empty.num_nodes, empty.num_pairs) == (1, 0, 0)


def test_rows_of_the_path() -> None:
    bag = path_bag()
    assert bag.sub.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert bag.node.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2]
    assert bag.member.int().tolist() == [1, 1, 0, 1, 1, 1, 0, 1, 1]
    assert bag.x.tolist()[:3] == [[1, 0, 5], [0, 1, 6], [0, 1, 7]]
    assert bag.transpose.tolist() == [0, 3, 6, 1, 4, 7, 2, 5, 8]
    assert path_bag(domain="members").node.tolist() == [0, 1, 0, 1, 2, 1, 2]
    text = "SubgraphBag(graphs=1, nodes=3, subgraphs=3, pairs=9, members=7, policy='ego+:1', domain='all')"
    assert repr(bag) == text


def test_subgraph_and_dense() -> None:
    bag = path_bag()
    data = bag.subgraph(0)
    assert data.x.tolist() == [[1, 0, 5], [0, 1, 6], [0, 1, 7]]
    assert data.edge_index.tolist() == [[1, 0], [0, 1]]
    assert data.member.tolist() == [True, True, False]
    assert data.root == 0
    assert path_bag(domain="members").subgraph(0).x.tolist() == [[1, 0, 5], [0, 1, 6], [0, 0, 0]]
    dense = bag.to_dense()
    assert dense.A[2].tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    with pytest.raises(ValueError, match=r"the subgraph index is 3, expected 0 to 2"):
        bag.subgraph(3)
    with pytest.raises(ValueError, match="one graph, got 2"):
        Null().from_data(Batch.from_data_list(random_graphs(2))).to_dense()
    with pytest.raises(IndexError, match="the graph index is 1, expected 0 to 0"):
        bag[1]


def test_distance_marks_keep_far_and_unreachable_apart() -> None:
    chain = torch.tensor([[0, 1, 2], [1, 2, 3]])  # 0 - 1 - 2 - 3 and node 4 alone, edges in one direction
    bag = NodeMarking(mark="distance", max_distance=2)(torch.ones(5, 1), chain)
    assert bag.subgraph(0).x.tolist() == [
        [1, 0, 0, 0, 1],
        [0, 1, 0, 0, 1],
        [0, 0, 1, 0, 1],
        [0, 0, 1, 0, 1],
        [0, 0, 0, 1, 1],
    ]


def test_expand_is_the_disjoint_union() -> None:
    batch = Batch.from_data_list(random_graphs(4, edge_dim=2))
    bag = reign.policy("ego+:1").from_data(batch)
    union = bag.expand()
    assert union.num_nodes == bag.num_pairs
    for k in range(bag.num_subgraphs):
        ours, first = bag.subgraph(k), int(bag.row_ptr[k])
        edges = union.batch[union.edge_index[0]] == k
        assert torch.equal(union.x[union.batch == k], ours.x)
        assert torch.equal(union.edge_index[:, edges] - first, ours.edge_index)
        assert torch.equal(union.edge_attr[edges], ours.edge_attr)


def test_directed_parallel_and_looping_edges_keep_their_meaning() -> None:
    edge_index = torch.tensor([[0, 0, 1, 2], [1, 1, 1, 1]])  # 0 -> 1 twice, a loop at 1, 2 -> 1
    bag = EgoNets(1)(torch.ones(3, 1), edge_index, torch.arange(4))
    assert bag.member.view(3, 3).int().tolist() == [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    assert bag.to_dense().A[0].tolist() == [[0, 0, 0], [2, 1, 0], [0, 0, 0]]
    assert bag.subgraph(0).edge_attr.tolist() == [0, 1, 2]
    deleted = reign.policy("ed")(torch.ones(3, 1), edge_index)
    assert deleted.anchor.tolist() == [[0, 1], [1, 2]]
    assert deleted.to_dense().A[0].tolist() == [[0, 0, 0], [0, 1, 1], [0, 0, 0]]


def test_independent_permutation_moves_tensors_but_not_roots() -> None:
    (data,) = random_graphs(1, min_nodes=5, max_nodes=5)
    bag = reign.policy("ego+:1").from_data(data)
    sigma, tau = random_permutation(5, seed=1), random_permutation(5, seed=2)
    moved, before = bag.permute(sigma, tau).to_dense(), bag.to_dense()
    assert torch.equal(moved.A[tau][:, sigma][:, :, sigma], before.A)
    assert torch.equal(moved.x[tau][:, sigma], before.x)
    assert torch.equal(bag.permute(sigma, tau).root, bag.root)
    assert_bags_equal(bag.permute(sigma, sigma), bag.permute(sigma))


def test_permute_refuses_what_is_no_permutation() -> None:
    bag = Null().from_data(Batch.from_data_list(random_graphs(2, min_nodes=2, max_nodes=2)))
    with pytest.raises(ValueError, match="nodes is a tensor of .* not a permutation of the 4 nodes"):
        bag.permute(torch.tensor([0, 0, 1, 2]))
    with pytest.raises(ValueError, match="another graph of the batch"):
        bag.permute(torch.tensor([2, 3, 0, 1]))


def test_what_needs_roots_says_so() -> None:
    bag = path_bag("ed")
    message = "transpose needs one subgraph per node, got 2 for 3 nodes: policy 'ed' is not node-based; use 'nm', "
    with pytest.raises(ValueError, match=message):
        _ = bag.transpose
    for domain in ("all", "members"):
        with pytest.raises(ValueError, match=message):
            _ = path_bag("ed", domain=domain).wiring.transpose
    with pytest.raises(ValueError, match="a subgraph of policy 'ed' has 2 anchors, expected one root"):
        _ = bag.root


def test_integer_features_stay_integers() -> None:
    bag = reign.policy("nm")(torch.tensor([[3], [4], [5]]), PATH)
    assert bag.x.dtype == torch.long
    assert bag.x.tolist()[1] == [0, 1, 4]


def test_to_moves_every_tensor() -> None:
    bag = path_bag("ed").to("meta")
    assert bag.device.type == bag.graph.x.device.type == bag.anchor.device.type == "meta"
    assert bag.cut is not None
    assert bag.cut.device.type == "meta"


def test_data_with_attributes_of_its_own_passes_through() -> None:
    data = Data(x=torch.ones(3, 1), edge_index=PATH, y=torch.ones(1))
    assert reign.policy("nm").from_data(data).num_pairs == 9


def test_rows_of_pairs_across_graphs() -> None:
    for domain in ("all", "members"):
        bag = Null().from_data(Batch.from_data_list(random_graphs(2, min_nodes=3, max_nodes=3)), domain=domain)
        assert bag.row(torch.tensor([0, 4, 4]), torch.tensor([5, 0, 5])).tolist() == [-1, -1, 14]


def test_lift_and_to_refuse_what_they_cannot_do() -> None:
    bag = path_bag()
    with pytest.raises(ValueError, match="h has shape \\(2, 1\\), expected \\(3, channels\\)"):
        bag.lift(torch.ones(2, 1))
    with pytest.raises(ValueError, match="a bag can be moved only to a device, got torch.float64"):
        inspect.unwrap(reign.SubgraphBag.to)(bag, torch.float64)
