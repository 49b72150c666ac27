"""GNN-AK and its distances."""

import torch

from model_inputs import batch
from reign.nn import GNNAKPublished
from reign.policies import NodeMarking


def test_distances_beyond_the_cap_are_the_same_in_both_domains() -> None:
    path = torch.stack([torch.arange(9), torch.arange(1, 10)])
    for domain in ("all", "members"):
        bag = NodeMarking()(torch.ones(10, 1), path, domain=domain)
        assert bag.hops(5)[:10].tolist() == [0, 1, 2, 3, 4, 5, 5, 5, 5, 5]


def test_published_dropout_is_on_nodes() -> None:
    """After a block the value of a node is the same in all subgraphs, dropped out or not; in training it is drawn anew."""
    torch.manual_seed(0)
    model, data = GNNAKPublished(3, 6, 1, 1, dropout=0.5, residual=False), batch()
    bag = model.policy.from_data(data, domain="members")
    assert model.dropout.p == 0
    results = []
    for training in (True, True, False):
        h = model.layers[0].train(training)(bag.lift(data.x), bag)
        assert torch.equal(h, h[bag.wiring.root_row][bag.node])
        results.append(h)
    assert not torch.equal(results[0], results[1])
    assert (results[0] == 0).sum() > (results[2] == 0).sum()
