"""Statistics of a problem, by hand."""

import math

import pytest
import torch
from torch_geometric.data import Data

from reign.data import Problem, split_statistics, target_statistics


def path(nodes: int, y: float) -> Data:
    ends = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    return Data(x=torch.ones(nodes, 1), edge_index=torch.cat([ends, ends.flip(0)], dim=1), y=torch.tensor([[y]]))


def test_statistics() -> None:
    problem = Problem.of([path(2, 1.0), path(5, 4.0)], [path(1, 0.0)], name="paths")
    train, val = split_statistics(problem)
    assert (train.split, train.graphs, train.nodes, train.largest, train.edges) == ("train", 2, 3.5, 5, 2.5)
    assert (val.split, val.graphs, val.nodes, val.largest, val.edges) == ("val", 1, 1.0, 1, 0.0)
    first, second = target_statistics(problem)
    assert (first.target, first.split, first.mean, first.smallest, first.largest) == ("y", "train", 2.5, 1.0, 4.0)
    assert first.std == pytest.approx(4.5**0.5)
    assert math.isnan(second.std)
