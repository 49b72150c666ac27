"""The policy of central nodes: exact centralities, and ties that are broken up to automorphisms."""

import networkx as nx
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_dense_adj

import reign
from reign.bags import SharedGraph
from reign.nn import DS
from reign.policies import Central
from reign.policies._central import subgraph_centrality
from reign.testing import random_graphs


def data_of(graph: nx.Graph, x: Tensor | None = None) -> Data:
    edges = torch.tensor(list(nx.convert_node_labels_to_integers(graph).edges)).t()
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    return Data(x=torch.ones(graph.number_of_nodes(), 1) if x is None else x, edge_index=edge_index)


def roots(name: str, data: Data) -> list[int]:
    return reign.policy(name).from_data(data).root.tolist()


def same_up_to_automorphism(name: str, data: Data, perm: Tensor) -> bool:
    """Whether the permuted graph with its chosen nodes is isomorphic to the graph with its chosen nodes."""
    moved = data.clone()
    moved.x, moved.edge_index = data.x[perm.argsort()], perm[data.edge_index]
    made = []
    for graph in (data, moved):
        one, chosen = nx.DiGraph(), roots(name, graph)
        one.add_nodes_from((v, {"is": (tuple(row), v in chosen)}) for v, row in enumerate(graph.x.tolist()))
        kinds = [0.0] * graph.num_edges if graph.edge_attr is None else graph.edge_attr.flatten().tolist()
        one.add_edges_from((u, v, {"is": kind}) for (u, v), kind in zip(graph.edge_index.t().tolist(), kinds, strict=True))
        made.append(one)
    return nx.is_isomorphic(*made, node_match=lambda a, b: a == b, edge_match=lambda a, b: a == b)


def test_centralities_are_those_of_the_exponential() -> None:
    for data in random_graphs(6, min_nodes=1, max_nodes=9, edge_prob=0.4):
        A = to_dense_adj(data.edge_index, max_num_nodes=data.num_nodes)[0].double()
        graph = SharedGraph.build(data.x, data.edge_index)
        expected = torch.matrix_exp(A).diagonal() / torch.linalg.eigvalsh(A)[-1].exp()
        torch.testing.assert_close(subgraph_centrality(graph), expected, atol=1e-12, rtol=1e-12)
        ours = nx.subgraph_centrality(nx.from_numpy_array(A.numpy()))
        best = max(ours.values())
        assert ours[roots("central:1", data)[0]] == pytest.approx(best, rel=1e-9)


def test_dense_graphs_do_not_overflow() -> None:
    n = 720  # exp(719) is not a number of 64 bits
    edges = (1 - torch.eye(n)).nonzero().t()
    edges = edges[:, ~((edges == torch.tensor([[3], [4]])).all(0) | (edges == torch.tensor([[4], [3]])).all(0))]
    bag = reign.policy("central:718")(torch.ones(n, 1), edges)
    assert sorted(set(range(n)) - set(bag.root.tolist())) == [3, 4]


def test_a_graph_has_the_same_roots_alone_and_in_a_batch() -> None:
    graphs = [
        *random_graphs(5, max_nodes=9),
        data_of(nx.petersen_graph(), torch.ones(10, 3)),
        data_of(nx.star_graph(4), torch.ones(5, 3)),
    ]
    for graph in graphs:
        graph.x = graph.x.float()
    bag = reign.policy("central:3").from_data(Batch.from_data_list(graphs))
    assert reign.policy("central:3").num_subgraphs(bag.graph).tolist() == torch.bincount(bag.sub_batch).tolist()
    for g, graph in enumerate(graphs):
        assert bag[g].root.tolist() == roots("central:3", graph)
        assert bag[g].num_subgraphs == min(3, graph.num_nodes)


CFI = [
    nx.cycle_graph(6),
    nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5)),
    nx.petersen_graph(),
    nx.grid_2d_graph(3, 3),
    nx.star_graph(5),
    nx.path_graph(6),
    nx.balanced_tree(2, 3),
    nx.disjoint_union(nx.cycle_graph(7), nx.star_graph(3)),
    nx.hypercube_graph(3),
]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_ties_are_broken_up_to_automorphisms(number: int) -> None:
    torch.manual_seed(0)
    made = [data_of(graph) for graph in CFI]
    made += [data_of(graph, torch.randint(2, (graph.number_of_nodes(), 1)).float()) for graph in CFI]
    for graph in CFI:
        data = data_of(graph)
        data.edge_attr = torch.randint(2, (data.num_edges // 2, 1)).float().repeat(2, 1)
        made.append(data)
        data = data_of(graph)
        data.edge_index = data.edge_index[:, torch.rand(data.num_edges) < 0.8]  # some edges have one direction only
        made.append(data)
    for data in made:
        for _ in range(3):
            assert same_up_to_automorphism(f"central:{number}", data, torch.randperm(data.num_nodes))


def test_ties_that_colour_refinement_does_not_see() -> None:
    """Strongly regular graphs: all nodes have the same centrality and colour, but few of them are exchanged by automorphisms."""
    pack = reign.data.load_problem("sr").graphs
    for g in (3, 6):
        batch = pack.batch(torch.tensor([g]))
        data = Data(x=torch.ones(25, 1), edge_index=batch.edge_index)
        for _ in range(2):
            assert same_up_to_automorphism("central:2", data, torch.randperm(25))


def test_rounding_does_not_decide_between_nodes() -> None:
    """Three paths of 6 nodes at a complete graph of 36: the centralities at their ends are 1e-14 of the largest one. All features differ, so that
    they decide between nodes of equal structure, whatever the order of nodes
    is: after three nodes of each path comes the fourth of the first path."""
    graph = nx.complete_graph(36)
    for p in range(3):
        nx.add_path(graph, [p, *range(36 + 6 * p, 42 + 6 * p)])
    data = data_of(graph, torch.arange(54.0)[:, None])
    rng = torch.Generator().manual_seed(0)
    for perm in [torch.randperm(54, generator=rng) for _ in range(8)]:
        moved = Data(x=data.x[perm.argsort()], edge_index=perm[data.edge_index])
        found = perm.argsort()[roots("central:46", moved)].tolist()
        assert sorted(found) == sorted([*range(40), 42, 43, 44, 48, 49, 50])


def test_features_decide_between_nodes_of_equal_structure() -> None:
    """Of the two middle nodes of a path, the one with the smaller features is chosen."""
    x = torch.tensor([[0.0], [5.0], [3.0], [0.0]])
    assert roots("central:1", data_of(nx.path_graph(4), x)) == [2]
    assert roots("central:1", data_of(nx.path_graph(4), -x)) == [1]
    assert roots("central:1", data_of(nx.path_graph(4), torch.tensor([[1.0], [0.0], [0.0], [2.0]]))) == [1]  # the next nodes decide
    square = data_of(nx.cycle_graph(4))  # 0 1, 0 3, 1 2, 2 3
    square.edge_attr = torch.tensor([1.0, 0, 0, 0]).repeat(2)[:, None]
    assert same_up_to_automorphism("central:2", square, torch.tensor([2, 3, 0, 1]))


def test_predictions_do_not_depend_on_the_order_of_nodes() -> None:
    torch.manual_seed(0)
    model = DS(1, 8, 2, 2, policy="central:1", encodings={"nodes": ["central:20"]}).double().eval()
    for graph in CFI:
        data, perm = (
            data_of(graph).apply(lambda t: t.double() if t.is_floating_point() else t),
            torch.randperm(graph.number_of_nodes()),
        )
        moved = Data(x=data.x[perm.argsort()], edge_index=perm[data.edge_index])
        torch.testing.assert_close(model(data), model(moved), atol=1e-9, rtol=1e-9)


def test_its_bag_is_marked_and_not_of_every_node() -> None:
    bag = reign.policy("central:1").from_data(data_of(nx.star_graph(3)))
    assert bag.x.tolist() == [[1, 0, 1], [0, 1, 1], [0, 1, 1], [0, 1, 1]]
    assert not bag.node_based
    assert reign.policy("central:2") == Central(2)
    with pytest.raises(ValueError, match="policy 'central:1' is not node-based"):
        bag.require_node_based("SUN")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("central", "policy 'central' needs a number, as in 'central:3'"),
        ("central:0", "number is 0, expected a whole number of at least 1, as in 'central:2'"),
        ("central+:2", "policy 'central' takes no mark"),
        ("2-central:2", "Tuples needs a node-based policy"),
    ],
)
def test_wrong_names(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reign.policy(name)
