"""Layers of all models as ReIGN(2) layers."""

from collections.abc import Callable

import torch
from torch import nn

from reign.nn import ALIASES, AKConv, IDConv, ReIGN2Conv, SubgraphConv
from reign.theory._ign3_layers import GLOBAL, LOCAL, check_linear
from reign.theory._linear_layers import activation, ak_parts, reign2_layer, stack, weights_of


def to_reign2(layer: nn.Module) -> list[nn.Module]:
    """ReIGN(2) layers that compute the same as a layer."""
    if isinstance(layer, AKConv):
        inner, mix = ak_parts(layer)
        ctx = mix.get("needle", torch.zeros_like(mix["node_root"]))
        diagonal = mix["node_root"] + mix["node_readout"] + ctx  # the strict sums leave out x[i, i]
        sums = {"node_readout_strict": mix["node_readout"], "needle_strict": ctx, "bias": mix["bias"]}
        on = {"own": diagonal, "readout_strict": mix["node_readout"], "needle_strict": ctx, "bias": mix["bias"]}
        return [
            *(new for part in inner for new in to_reign2(part)),
            reign2_layer({"node_root": diagonal, **sums}, on, activation(layer), layer.domain),
        ]
    if isinstance(layer, ReIGN2Conv):
        check_linear(layer, "the construction")
        for slot in [*layer.slots(), *layer.slots(on=True)]:
            if slot.name not in {*GLOBAL, *LOCAL, *ALIASES}:
                raise ValueError(f"'{slot.name}' is not in the ReIGN(2) table, and no construction is known for it.")
        return [layer]
    if isinstance(layer, IDConv):
        return id_in_two(layer, reign2_layer)
    assert isinstance(layer, SubgraphConv)
    off = weights_of(layer)
    on = off if layer.root_terms is None else weights_of(layer, on=True)
    d, p = layer.in_channels, layer.out_channels
    if not {"needle", "needle_msg"} & {*off, *on}:  # DS-GNN and NGNN: one layer
        return [reign2_layer(off, on, activation(layer), layer.domain)]
    if layer.domain != "all":
        raise ValueError(
            "the construction of needles covers only domain='all': with 'members', neighbours without a row would be missed."
        )
    # DSS-GNN and SUN: the first p channels hold all terms except needles, the other d channels the needle itself
    eye, none, to_first = (
        torch.eye(d, dtype=torch.float64),
        torch.zeros(p, d, dtype=torch.float64),
        torch.zeros(d, d, dtype=torch.float64),
    )
    first_off = {"own": stack(off.get("own", none), to_first), "local": stack(off.get("local", none), to_first)}
    first_off["node_root"] = stack(off.get("node_root", none), eye)
    first_off["needle_strict"] = stack(none, eye)
    first_on = {"own": stack(on.get("own", none) + on.get("readout", none), eye), "local": stack(on.get("local", none), to_first)}
    first_on["needle_strict"] = stack(none, eye)
    if "readout" in off or "root" in off:  # U1 + U3, where "U1 + I" is printed
        first_off["root"] = stack(off.get("root", none) + off.get("readout", none), to_first)
    if "readout" in off:
        first_off["readout_strict"] = stack(off["readout"], to_first)
    if "readout" in on:
        first_on["readout_strict"] = stack(on["readout"], to_first)
    if "transpose" in off:
        first_off["transpose"] = stack(off["transpose"], to_first)
    second = []
    for terms in (off, on):
        own = torch.cat([torch.eye(p, dtype=torch.float64), terms["needle"]], dim=1)
        along = torch.cat([torch.zeros(p, p, dtype=torch.float64), terms["needle_msg"]], dim=1)
        second.append({"own": own, "readout@A": along, "bias": terms["bias"]})
    zero = torch.zeros(p + d, dtype=torch.float64)
    first = reign2_layer({**first_off, "bias": zero}, {**first_on, "bias": zero}, None, layer.domain)
    return [first, reign2_layer(second[0], second[1], activation(layer), layer.domain)]


def id_in_two(layer: IDConv, make: Callable[..., SubgraphConv]) -> list[nn.Module]:
    """ID-GNN: transform roots and other nodes differently, then pass messages."""
    w = weights_of(layer)
    p = layer.out_channels
    zero = torch.zeros(2 * p, dtype=torch.float64)
    first = make(
        {"own": stack(w["own"], w["local_others"]), "bias": zero},
        {"own": stack(w["own"], w["root_msg"]), "bias": zero},
        None,
        layer.domain,
    )
    pick = torch.cat([torch.eye(p, dtype=torch.float64), torch.zeros(p, p, dtype=torch.float64)], dim=1)
    along = torch.cat([torch.zeros(p, p, dtype=torch.float64), torch.eye(p, dtype=torch.float64)], dim=1)
    terms = {"own": pick, "local": along, "bias": w["bias"]}
    return [first, make(terms, dict(terms), activation(layer), layer.domain)]
