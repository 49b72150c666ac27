"""Layers of all models except ReIGN(2) as SUN layers."""

import torch
from torch import nn

from reign.nn import AKConv, IDConv, SubgraphConv, SUNConv
from reign.theory._ign3_layers import check_linear
from reign.theory._linear_layers import activation, ak_parts, sun_layer, weights_of
from reign.theory._to_reign2 import id_in_two


def to_sun(layer: nn.Module) -> list[nn.Module]:
    if isinstance(layer, AKConv):
        inner, mix = ak_parts(layer)
        d = layer.out_channels
        eye, zero = torch.eye(d, dtype=torch.float64), torch.zeros(d, d, dtype=torch.float64)
        # the paper prints one layer, which reads the readout of k where that of i is needed; here roots are first, then all pairs read them
        roots = {"own": mix["node_root"], "readout": mix["node_readout"], "needle": mix.get("needle", zero), "bias": mix["bias"]}
        first = sun_layer({"own": zero}, roots, activation(layer), layer.domain)
        return [
            *(new for part in inner for new in to_sun(part)),
            first,
            sun_layer({"node_root": eye}, {"own": eye}, None, layer.domain),
        ]
    if isinstance(layer, SUNConv):
        check_linear(layer, "the construction")
        return [layer]
    if isinstance(layer, IDConv):
        return id_in_two(layer, sun_layer)
    assert isinstance(layer, SubgraphConv)
    terms = weights_of(layer)
    return [sun_layer(terms, terms, activation(layer), layer.domain)]
