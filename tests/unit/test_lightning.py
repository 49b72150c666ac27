"""The Lightning module, on graphs, on nodes with masks, and on batches of roots."""

import math
import warnings
from typing import Any

import lightning
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from reign.data import RootLoader, predict_nodes
from reign.lightning import ReignModule
from reign.nn import DS, IDGNN, SUN
from reign.testing import random_graphs

pytestmark = pytest.mark.usefixtures("signatures_unchecked")


def trainer(epochs: int) -> Any:
    return lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning warns of few workers and few batches
        yield


def test_graphs() -> None:
    graphs = random_graphs(24, min_nodes=4, num_features=3)
    for data in graphs:
        data.y = torch.tensor([[data.num_edges / 10, math.nan]])
    module = ReignModule(DS(3, 8, 1, 2, policy="ego+:1", norm=None), metric="mae", lr=0.02)
    fit = trainer(8)
    start = _error(module, graphs)
    fit.fit(module, DataLoader(graphs, batch_size=8, shuffle=True), DataLoader(graphs, batch_size=5))
    assert _error(module, graphs) < start / 2
    assert float(fit.callback_metrics["val_mae"]) == pytest.approx(_error(module, graphs), rel=1e-5)
    outs = fit.predict(module, DataLoader(graphs, batch_size=24))
    assert outs[0].shape == (24, 2)


def _error(module: ReignModule, graphs: list[Data]) -> float:
    batch = next(iter(DataLoader(graphs, batch_size=24)))
    with torch.no_grad():
        return float((module.eval()(batch)[:, 0] - batch.y[:, 0]).abs().mean())


@pytest.mark.parametrize("steps", [1, 2, 9, 10, 11])
def test_number_of_steps(steps: int) -> None:
    (graph,) = random_graphs(1, min_nodes=4, num_features=3)
    graph.y = torch.ones(1)
    module, fit = ReignModule(DS(3, 4, 1, 1, policy="ego+:1", norm=None), lr=0.02), trainer(steps)
    fit.fit(module, DataLoader([graph]))
    assert fit.global_step == steps


def test_roots_and_masks() -> None:
    edge_index = torch.randint(0, 60, (2, 120))
    x = torch.randn(60, 3)
    data = Data(x=x, edge_index=edge_index, y=(x[:, 0] > 0).long(), val_mask=torch.arange(60) < 30)
    model = IDGNN(3, 8, 1, 2, policy="ego+:1", norm=None, task_level="node")
    module, fit = ReignModule(model, "multiclass", metric="accuracy", lr=0.02), trainer(10)
    fit.fit(module, RootLoader(data, model, 15, shuffle=True), RootLoader(data, model, 20))
    right = float((predict_nodes(model, data).argmax(1) == data.y).float().mean())
    assert right > 0.85
    assert float(fit.callback_metrics["val_accuracy"]) == pytest.approx(right)
    found = fit.validate(module, DataLoader([data]), verbose=False)[0]
    half = float((predict_nodes(model, data).argmax(1) == data.y)[:30].float().mean())
    assert found["val_accuracy"] == pytest.approx(half)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="'bce', but the task is regression"):
        ReignModule(SUN(3, 8, 1, 1), loss="bce")
    graphs = random_graphs(2, min_nodes=4, num_features=3)
    for data in graphs:
        data.y = torch.zeros(3)
    batch = next(iter(DataLoader(graphs, batch_size=2)))
    batch.y = batch.y[:5]
    with pytest.raises(ValueError, match="y has 5 labels"):
        ReignModule(SUN(3, 8, 1, 3)).training_step(batch)
