"""The yardstick computes what SUN computes, so that their costs can be compared."""

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch

from reign.experiments.yardstick import Union, YardstickSUN
from reign.nn import SUN
from reign.testing import random_graphs


def batch() -> Batch:
    rng = torch.Generator().manual_seed(0)
    graphs = random_graphs(6, min_nodes=1, max_nodes=8)
    for data in graphs:
        data.x = torch.randint(0, 5, (data.num_nodes, 1), generator=rng)
        data.edge_attr = torch.randint(0, 3, (data.num_edges, 1), generator=rng)
    return Batch.from_data_list(graphs)


def sun(policy: str) -> SUN:
    torch.manual_seed(0)
    model = SUN(8, 8, 2, 1, policy=policy, node_encoder=5, edge_encoder=3).double()
    for module in model.modules():  # statistics as after some training, different for each norm
        if isinstance(module, torch.nn.BatchNorm1d):
            torch.nn.init.uniform_(module.running_mean, -1, 1)
            torch.nn.init.uniform_(module.running_var, 0.5, 2)
    return model.eval()


def results(out: Tensor, model: SUN) -> list[Tensor]:
    weights = [p for p in model.parameters() if p.requires_grad]
    return [out.detach(), *torch.autograd.grad(out.pow(2).mean(), weights)]


@pytest.mark.parametrize("node_level", [False, True])
@pytest.mark.parametrize("policy", ["ego+:2", "nm"])
def test_outputs_and_gradients_are_those_of_sun(policy: str, node_level: bool) -> None:
    # in evaluation mode: in training the yardstick's norms of roots see all rows
    data, model, other = batch(), sun(policy), sun(policy)
    bag = other.policy.from_data(data)
    ours = results(model(data.x, data.edge_index, data.edge_attr, data.batch), model)
    theirs = results(YardstickSUN(other, node_level).eval()(data.x, bag, Union(bag)), other)
    assert float(ours[0].std()) > 1e-3  # graphs differ, so there is something to compare
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9 * float(a.abs().max()))


def test_it_takes_the_weights_of_the_model_as_they_are() -> None:
    model, other = sun("ego+:2"), sun("ego+:2")
    wrapped = YardstickSUN(other)
    assert {id(p) for p in wrapped.parameters()} == {id(p) for p in other.parameters()}
    for name, value in model.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value, rtol=0, atol=0)
