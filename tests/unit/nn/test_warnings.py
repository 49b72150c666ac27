"""Warnings where users walk into walls."""

import warnings

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import reign
from reign.nn import IGN2, SUN, SubgraphGNN
from reign.testing import random_graphs


def graph() -> Data:
    data = random_graphs(1, min_nodes=5, max_nodes=6, num_features=3, seed=0)[0]
    data.edge_attr = torch.rand(data.num_edges, 2)
    return data


def test_edge_features_that_are_not_used() -> None:
    data = graph()
    for model in (SUN(3, 4, 1, 1), IGN2(3, 4, 1, 1)):
        with pytest.warns(
            UserWarning,
            match=r"it is not used because .* was made without edge_dim or edge_encoder. To use it, make the model with edge_dim=",
        ):
            model(data.x, data.edge_index, data.edge_attr)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model(data.x, data.edge_index, data.edge_attr)  # once is enough


def test_no_warning_where_they_are_used_or_may_be() -> None:
    class Own(nn.Module):
        def __init__(self, a: int, b: int, **_: object) -> None:
            super().__init__()
            self.lin = nn.Linear(a, b)

        def forward(self, h: torch.Tensor, bag: reign.SubgraphBag) -> torch.Tensor:
            return self.lin(h)

    data = graph()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SUN(3, 4, 1, 1, edge_dim=2)(data.x, data.edge_index, data.edge_attr)
        SubgraphGNN(3, 4, 1, 1, layer=Own, policy="nm")(data.x, data.edge_index, data.edge_attr)
        SUN(3, 4, 1, 1)(data.x, data.edge_index)


def test_all_pairs_of_a_large_graph() -> None:
    x = torch.ones(2100, 1)
    edges = torch.tensor([[0, 1], [1, 0]])
    with pytest.warns(
        UserWarning, match=r"policy 'ego:1' with domain='all' stores all 4,410,000 pairs .* 2,100 nodes: 1.1 GB .*domain='members'"
    ):
        reign.policy("ego:1")(x, edges)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reign.policy("ego:1")(x, edges, domain="members")
        reign.policy("nm@4")(x, edges)
        reign.policy("ego:1")(x, edges, batch=torch.arange(2100) // 100)
