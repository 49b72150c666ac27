"""From bags to graphs."""

import inspect

import pytest
import torch

import reign
from model_inputs import batch, run
from reign.nn import DS, IGNPooling, MeanPooling, RootPooling, State
from reign.nn._pooling import checked


def test_set_networks_of_several_widths() -> None:
    for invariance in ("early", "late"):
        assert run(DS(3, 6, 2, 2, set_channels=(8, 12), invariance=invariance), batch()).shape == (6, 2)


def test_means_and_sums_by_the_formula() -> None:
    data = batch()
    bag = reign.policy("nm").from_data(data)
    h = torch.randn(bag.num_pairs, 4)
    for graph in range(6):
        mine = h[bag.pair_batch == graph]
        n = int(bag.graph.sizes[graph])
        assert len(mine) == n * n
        torch.testing.assert_close(MeanPooling(4)(State(h, bag))[graph], mine.mean(0))
        torch.testing.assert_close(MeanPooling(4, "sum", "sum")(State(h, bag))[graph], mine.sum(0))
        torch.testing.assert_close(MeanPooling(4, "sum")(State(h, bag))[graph], mine.sum(0) / n)
        roots = h[bag.root_row][bag.sub_batch == graph]
        torch.testing.assert_close(RootPooling(4)(State(h, bag))[graph], roots.mean(0))
        torch.testing.assert_close(RootPooling(4, "sum")(State(h, bag))[graph], roots.sum(0))
        pool = IGNPooling(4)
        others = (mine.sum(0) - roots.sum(0)) / max(n * n - n, 1)
        torch.testing.assert_close(pool(State(h, bag))[graph], pool.roots(roots.mean(0)) + pool.others(others))


def test_node_vectors_by_the_formula() -> None:
    bag = reign.policy("nm").from_data(batch())
    h = torch.randn(bag.num_pairs, 4)
    for node in range(bag.num_nodes):
        torch.testing.assert_close(MeanPooling(4).nodes(State(h, bag))[node], h[bag.node == node].mean(0))
    assert torch.equal(RootPooling(4).nodes(State(h, bag)), h[bag.root_row])


def test_poolings_that_are_not_known() -> None:
    with pytest.raises(ValueError, match="pooling is 'max', expected 'sum' or 'mean'"):
        inspect.unwrap(checked)("max")
