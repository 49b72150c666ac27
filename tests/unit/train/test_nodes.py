"""Training on the nodes of one large graph with our loop."""

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

import reign
from reign.data import predict_nodes
from reign.nn import DS, IDGNN, MPNN, RootPooling, num_parameters
from reign.train import Training, fit_nodes
from reign.train.engine.nodes import problem_of_nodes


def rings(nodes: int = 300) -> Data:
    """A graph in which every node has three edges: half of the nodes are in triangles (class 1), and the others in hexagons (class 0)."""
    half = nodes // 2
    sizes = [3] * (half // 3) + [6] * (half // 6)
    edges, first = [], 0
    for size in sizes:
        edges += [[first + i, first + (i + 1) % size] for i in range(size)]
        first += size
    order = torch.randperm(nodes)
    ring = order[torch.tensor(edges).t()]
    edge_index = to_undirected(torch.cat([ring, torch.randperm(nodes).view(2, -1)], dim=1), num_nodes=nodes)
    y = torch.zeros(nodes, dtype=torch.long)
    y[order[:half]] = 1
    part = torch.rand(nodes)
    masks = {"train_mask": part < 0.6, "val_mask": (part >= 0.6) & (part < 0.8), "test_mask": part >= 0.8}
    return Data(x=torch.ones(nodes, 1), edge_index=edge_index, y=y, **masks)


@pytest.mark.usefixtures("signatures_unchecked")
def test_a_label_that_needs_subgraphs_is_learned(tmp_path: Path) -> None:
    data = rings()
    options = {"norm": None, "task_level": "node"}
    plain = MPNN(1, 22, 2, 2, **options)
    model = IDGNN(1, 16, 2, 2, policy="ego:1", **options)
    config = Training(epochs=12, batch_size=30, metric="accuracy", optimiser={"lr": 0.02}, schedule={"name": "cosine"})
    low, _ = fit_nodes(plain, data, config.model_copy(update={"epochs": 4}))
    high, predictions = fit_nodes(model, data, config, folder=tmp_path)
    assert num_parameters(model) <= num_parameters(plain)
    assert high["best"]["test"] > 0.95
    assert low["best"]["test"] < 0.7
    out = predict_nodes(model, data, 7)
    torch.testing.assert_close(predictions["test"].float(), out[data.test_mask])
    assert high["best"]["test"] == float((out.argmax(1) == data.y)[data.test_mask].double().mean())
    same = reign.load(tmp_path / "best")
    torch.testing.assert_close(predict_nodes(same, data, 50), out)


def test_problems_of_nodes() -> None:
    data = rings(12)
    data.y = torch.tensor([0, 1, 2] * 4)
    data.train_mask = data.y < 2
    data.val_mask = data.test_mask = None
    problem = problem_of_nodes(data)
    assert problem.classes == ["0", "1"]  # class 2 is in no split
    assert problem.splits["train"].tolist() == data.train_mask.nonzero().flatten().tolist()
    assert set(problem.splits) == {"train"}
    data.y = torch.rand(12, 2)
    assert problem_of_nodes(data, "regression").targets == ["y0", "y1"]
    data.y = torch.rand(5)
    with pytest.raises(ValueError, match="expected one row for each of the 12 nodes"):
        problem_of_nodes(data, "regression")
    data.y, data.train_mask = torch.rand(12), torch.ones(12)
    with pytest.raises(ValueError, match="expected a Boolean for each of the 12 nodes"):
        problem_of_nodes(data, "regression")


def test_other_numbers_and_targets() -> None:
    data = rings(24)
    data.y = torch.rand(24, 2)
    model = DS(1, 4, 1, 2, policy="ego:1", domain="members", pooling=RootPooling, norm=None, task_level="node")
    config = Training(epochs=1, batch_size=9, precision="64-true", scale_targets=True)
    result, predictions = fit_nodes(model, data, config, task="regression")
    assert result["metric"] == "rmse"
    assert predictions["train"].shape == (int(data.train_mask.sum()), 2)
    assert next(model.parameters()).dtype == torch.float64
