"""What every model of the catalogue can learn."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch

import reign
from reign.testing import random_graphs

pytestmark = pytest.mark.usefixtures("signatures_unchecked")


@pytest.mark.parametrize("name", reign.list_models())
def test_twenty_graphs_can_be_learned_by_heart(name: str) -> None:
    data = Batch.from_data_list(random_graphs(20, min_nodes=4, max_nodes=9, edge_prob=0.4, seed=1))
    torch.manual_seed(0)
    plain_sums = {"graph_pooling": "mean"} if name == "gnnakctx" else {}  # with sums of sums it takes more than the steps here
    model = reign.build_model(name, 3, 32, 2, 1, **plain_sums)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    target = torch.randn(20, 1)
    bag = model.policy.from_data(data, domain=model.domain)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(500):
        loss = (model(data.x, data.edge_index, bag=bag) - target).pow(2).mean()
        if loss < 0.01 * target.var():
            break
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.01 * target.var()
