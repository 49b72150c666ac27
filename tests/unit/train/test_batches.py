"""Parts of a batch, and the pairs of a graph."""

import pytest
import torch
from torch_geometric.data import Data

import tiny
from learning import model
from reign.data import GraphPack
from reign.nn import DS, MPNN
from reign.train.engine.batches import affordable_pairs, mean_pairs, pairs_of, parts


def test_parts_and_pairs() -> None:
    problem = tiny.problem()
    pairs = pairs_of(model(), problem.graphs)
    assert torch.equal(pairs, problem.graphs.sizes**2)
    assert torch.equal(pairs_of(MPNN(1, 4, 1, 1), problem.graphs), problem.graphs.sizes)
    assert torch.equal(pairs_of(DS(1, 4, 1, 1, policy="2-nm"), problem.graphs), problem.graphs.sizes**3)
    assert torch.equal(pairs_of(DS(1, 4, 1, 1, policy="nm@2"), problem.graphs), problem.graphs.sizes**2)
    ids = torch.arange(10)
    for bound in (1, 50, 100, 10_000):
        found = parts(ids, pairs, bound)
        assert torch.equal(torch.cat(found), ids)
        assert all(part.numel() == 1 or int(pairs[part].sum()) <= bound for part in found)
    assert affordable_pairs(model(), torch.device("cpu")) > 10_000


def test_pairs_are_counted_where_they_would_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reign._validate.free_memory", lambda device: 0)
    pack = GraphPack.of([Data(x=torch.ones(300, 1), edge_index=torch.empty(2, 0, dtype=torch.long))])
    assert pairs_of(DS(1, 4, 1, 1, policy="2-nm"), pack).tolist() == [300**3]


def test_the_mean_number_of_pairs() -> None:
    graphs = tiny.problem().graphs
    every, members = model(policy="ego+:1"), model(policy="ego+:1", domain="members")
    assert mean_pairs(every, graphs, bounds := pairs_of(every, graphs)) == pytest.approx(float((graphs.sizes**2).double().mean()))
    own = graphs.x.size(0) + graphs.edge_index.size(1)  # a node is in its own subgraph, and in those of its neighbours
    assert mean_pairs(members.train(), graphs, bounds) == pytest.approx(own / len(graphs))


def test_the_mean_number_of_pairs_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that is too large fails alone later, and not here with all others."""
    monkeypatch.setattr("reign._validate.free_memory", lambda device: 0)
    pack = GraphPack.of([Data(x=torch.ones(size, 1), edge_index=torch.empty(2, 0, dtype=torch.long)) for size in (2, 2100)])
    members = model(policy="nm", domain="members")
    assert mean_pairs(members, pack, pairs_of(members, pack)) == (2**2 + 2100**2) / 2
