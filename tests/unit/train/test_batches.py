"""Parts of a batch, and the pairs of a graph."""

import pytest
import torch
from torch_geometric.data import Data

import tiny
from learning import model
from reign.data import GraphPack
from reign.nn import DS, MPNN
from reign.train.engine.batches import affordable_pairs, pairs_of, parts


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
