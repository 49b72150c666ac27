"""The biconnected blocks of graphs, and the triples of nodes in them."""

import networkx as nx
import pytest
import torch
from torch_geometric.data import Batch, Data

import reign
from reign.bags import DoesNotFit, _blocks, block_triples, blocks, kernel_triples
from reign.testing import random_graphs


def shared(graph: nx.Graph) -> Data:
    edges = torch.tensor(list(graph.edges), dtype=torch.long).view(-1, 2).t()
    return Data(x=torch.ones(graph.number_of_nodes(), 1), edge_index=edges)


def some_graphs() -> list[Data]:
    """Random graphs of all densities, trees, a long ring with loops and directed edges, and a single node."""
    made = [nx.gnp_random_graph(n, p, seed=s) for s, (n, p) in enumerate([(1, 0.0), (9, 0.1), (12, 0.2), (12, 0.3), (8, 0.9)] * 3)]
    made += [nx.random_labeled_tree(9, seed=1), nx.barbell_graph(4, 2), nx.windmill_graph(3, 3), nx.cycle_graph(2000)]
    ring = Data(x=torch.ones(4, 1), edge_index=torch.tensor([[0, 1, 2, 3, 0, 1], [1, 2, 3, 0, 0, 0]]))
    return [*map(shared, made), ring]


def test_blocks_are_those_of_networkx() -> None:
    """For a whole batch; a ring of 2,000 nodes is deeper than Python's functions may call themselves."""
    batch = Batch.from_data_list(some_graphs())
    bag = reign.policy("whole").from_data(batch)
    found, component = blocks(bag.graph)
    graph = nx.Graph([(a, b) for a, b in batch.edge_index.t().tolist() if a != b])
    graph.add_nodes_from(range(batch.num_nodes))
    assert sorted(found) == sorted(sorted(block) for block in nx.biconnected_components(graph) if len(block) > 2)
    assert all(len({component[node] for node in part}) == 1 for part in nx.connected_components(graph))
    assert len(set(component)) == nx.number_connected_components(graph)


def test_triples() -> None:
    """A triangle with a tail: the six orders of the triangle, and for each pair (a, b) the triples (a, a, b), and (a, b, a) if a is not b."""
    data = Data(x=torch.ones(5, 1), edge_index=torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]]))
    bag = reign.policy("null").from_data(data)
    triples = block_triples(bag)
    a, c = triples.from_rows.index // 5, triples.from_rows.index % 5
    assert torch.equal(c, triples.from_edges.index // 5)
    b = triples.from_edges.index % 5
    assert torch.equal(triples.into_targets.index_t, a * 5 + b)
    part = [(u, v) for u in range(4) for v in range(4)] + [(4, 4)]
    expected = {(u, w, v) for u in range(3) for w in range(3) for v in range(3) if len({u, v, w}) == 3}
    expected |= {(u, u, v) for u, v in part} | {(u, v, u) for u, v in part}
    assert sorted(zip(a.tolist(), c.tolist(), b.tolist(), strict=True)) == sorted(expected)
    assert block_triples(bag) is triples


def test_a_batch_has_the_triples_of_its_graphs() -> None:
    made = random_graphs(6, min_nodes=1, max_nodes=9, edge_prob=0.4)
    bag = reign.policy("null").from_data(Batch.from_data_list(made))
    counts = [kernel_triples(bag[g]).source.numel() for g in range(6)]
    assert kernel_triples(bag).source.numel() == sum(counts)


def test_a_block_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_blocks, "SMALL", 0)
    monkeypatch.setattr(_blocks, "free_memory", lambda device: 1e5)
    bag = reign.policy("null").from_data(shared(nx.complete_graph(12)))
    with pytest.raises(DoesNotFit, match=r"up to 2,016 triples .* one block of 12 nodes has 1,728: .* Use products=.all."):
        block_triples(bag)
    with pytest.raises(DoesNotFit, match="one block of 0 nodes"):
        block_triples(reign.policy("null").from_data(shared(nx.path_graph(30))))
