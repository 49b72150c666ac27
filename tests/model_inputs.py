"""Small batches and graphs for tests of models, how a model is called with one, and modules with random weights."""

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from reign.testing import random_graphs


def batch(**options: Any) -> Batch:
    """Six random graphs of three features."""
    return Batch.from_data_list(random_graphs(6, min_nodes=3, seed=4, **options))


def run(model: nn.Module, data: Batch) -> Tensor:
    """The output of a model for a batch, with its edge features if it has some."""
    return model(data.x, data.edge_index, data.edge_attr if "edge_attr" in data else None, data.batch)


def randomised(module: nn.Module) -> Any:
    """A module in float64 with random weights, biases and eps: nothing is 0 by its start."""
    module = module.double()
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.5, generator=rng)
    return module


def graph(seed: int = 0) -> Data:
    """One graph of six or seven nodes in float64, for explanations."""
    data = random_graphs(1, min_nodes=6, max_nodes=7, edge_prob=0.4, num_features=3, seed=seed)[0]
    data.x = data.x.double()
    return data
