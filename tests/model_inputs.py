"""Small batches for tests of models, and how a model is called with one."""

from typing import Any

from torch import Tensor, nn
from torch_geometric.data import Batch

from reign.testing import random_graphs


def batch(**options: Any) -> Batch:
    """Six random graphs of three features."""
    return Batch.from_data_list(random_graphs(6, min_nodes=3, seed=4, **options))


def run(model: nn.Module, data: Batch) -> Tensor:
    """The output of a model for a batch, with its edge features if it has some."""
    return model(data.x, data.edge_index, data.edge_attr if "edge_attr" in data else None, data.batch)
