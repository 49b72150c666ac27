"""Layers on their own."""

import pytest
import torch

import reign
from model_inputs import batch
from reign.nn import SUNConv


def test_layers_on_their_own() -> None:
    bag = reign.policy("nm").from_data(batch())
    layer = SUNConv(5, 7)
    assert layer(bag.x, bag).shape == (bag.num_pairs, 7)
    with pytest.raises(ValueError, match="h is a tensor of shape .* expected shape \\(pairs, 5\\)"):
        layer(torch.randn(bag.num_pairs, 4), bag)
    assert "SUNConv(5 -> 7, terms=['node_root', 'root', 'own', 'readout'" in repr(layer)
