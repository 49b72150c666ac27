"""The constructions of the proofs: a layer as a few layers of ReIGN(2) or of SUN that compute the same."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from reign.nn import ALIASES, AKConv, IDConv, ReIGN2Conv, SubgraphConv, SUNConv
from reign.theory._ign3_layers import GLOBAL, LOCAL, check_linear
from reign.theory._linear_layers import Weights, activation, reign2_layer, sun_layer, weights_of


def _stack(*parts: Tensor) -> Tensor:
    return torch.cat(parts, dim=0)


def _blocks(layer: AKConv) -> tuple[list[SubgraphConv], Weights]:
    """The inner layers of a GNN-AK block, and the matrices of its aggregation."""
    if layer.max_distance is not None or layer.aggregation != "sum" or type(layer.norm).__name__ != "NoNorm" or layer.marks:
        raise ValueError("the construction covers GNN-AK and GNN-AK-ctx with aggregation='sum', norm=None and remark=False.")
    d = layer.out_channels
    eye = torch.eye(d, dtype=torch.float64)
    mix = [eye] * len(layer.parts) if layer.mix is None else list(layer.mix.weight.detach().double().split(d, dim=1))
    weights = dict(zip(layer.parts, mix, strict=True))
    weights["bias"] = torch.zeros(d, dtype=torch.float64) if layer.mix is None else layer.mix.bias.detach().double()
    return [inner for inner in layer.inner if isinstance(inner, SubgraphConv)], weights


# -- into ReIGN(2) -----------------------------------------------------------------------------------------------------------


def to_reign2(layer: nn.Module) -> list[nn.Module]:
    """ReIGN(2) layers that do what a layer does."""
    if isinstance(layer, AKConv):
        inner, mix = _blocks(layer)
        ctx = mix.get("needle", torch.zeros_like(mix["node_root"]))
        diagonal = mix["node_root"] + mix["node_readout"] + ctx  # the strict sums leave x[i, i] out
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
                raise ValueError(f"'{slot.name}' is no entry of the ReIGN(2) table: no construction is known for it.")
        return [layer]
    if isinstance(layer, IDConv):
        return _id_in_two(layer, reign2_layer)
    assert isinstance(layer, SubgraphConv)
    off = weights_of(layer)
    on = off if layer.root_terms is None else weights_of(layer, on=True)
    d, p = layer.in_channels, layer.out_channels
    if not {"needle", "needle_msg"} & {*off, *on}:  # DS-GNN and NGNN: one layer
        return [reign2_layer(off, on, activation(layer), layer.domain)]
    if layer.domain != "all":
        raise ValueError("the construction of needles covers domain='all': over members, neighbours without a row would be missed.")
    # DSS-GNN and SUN: the first p channels hold all terms but those of needles, the other d the needle itself
    eye, none, to_first = (
        torch.eye(d, dtype=torch.float64),
        torch.zeros(p, d, dtype=torch.float64),
        torch.zeros(d, d, dtype=torch.float64),
    )
    first_off = {"own": _stack(off.get("own", none), to_first), "local": _stack(off.get("local", none), to_first)}
    first_off["node_root"] = _stack(off.get("node_root", none), eye)
    first_off["needle_strict"] = _stack(none, eye)
    first_on = {"own": _stack(on.get("own", none) + on.get("readout", none), eye), "local": _stack(on.get("local", none), to_first)}
    first_on["needle_strict"] = _stack(none, eye)
    if "readout" in off or "root" in off:  # U1 + U3, where "U1 + I" is printed
        first_off["root"] = _stack(off.get("root", none) + off.get("readout", none), to_first)
    if "readout" in off:
        first_off["readout_strict"] = _stack(off["readout"], to_first)
    if "readout" in on:
        first_on["readout_strict"] = _stack(on["readout"], to_first)
    if "transpose" in off:
        first_off["transpose"] = _stack(off["transpose"], to_first)
    second = []
    for terms in (off, on):
        own = torch.cat([torch.eye(p, dtype=torch.float64), terms["needle"]], dim=1)
        along = torch.cat([torch.zeros(p, p, dtype=torch.float64), terms["needle_msg"]], dim=1)
        second.append({"own": own, "readout@A": along, "bias": terms["bias"]})
    zero = torch.zeros(p + d, dtype=torch.float64)
    first = reign2_layer({**first_off, "bias": zero}, {**first_on, "bias": zero}, None, layer.domain)
    return [first, reign2_layer(second[0], second[1], activation(layer), layer.domain)]


def _id_in_two(layer: IDConv, make: Callable[..., SubgraphConv]) -> list[nn.Module]:
    """ID-GNN: transform roots and the others differently, then pass messages."""
    w = weights_of(layer)
    p = layer.out_channels
    zero = torch.zeros(2 * p, dtype=torch.float64)
    first = make(
        {"own": _stack(w["own"], w["local_others"]), "bias": zero},
        {"own": _stack(w["own"], w["root_msg"]), "bias": zero},
        None,
        layer.domain,
    )
    pick = torch.cat([torch.eye(p, dtype=torch.float64), torch.zeros(p, p, dtype=torch.float64)], dim=1)
    along = torch.cat([torch.zeros(p, p, dtype=torch.float64), torch.eye(p, dtype=torch.float64)], dim=1)
    terms = {"own": pick, "local": along, "bias": w["bias"]}
    return [first, make(terms, dict(terms), activation(layer), layer.domain)]


# -- into SUN ----------------------------------------------------------------------------------------------------------------


def to_sun(layer: nn.Module) -> list[nn.Module]:
    """SUN layers that do what a layer does."""
    if isinstance(layer, AKConv):
        inner, mix = _blocks(layer)
        d = layer.out_channels
        eye, zero = torch.eye(d, dtype=torch.float64), torch.zeros(d, d, dtype=torch.float64)
        # printed as one layer, which reads the readout of k where that of i is needed: first the roots, then everybody takes theirs
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
        return _id_in_two(layer, sun_layer)
    assert isinstance(layer, SubgraphConv)
    terms = weights_of(layer)
    return [sun_layer(terms, terms, activation(layer), layer.domain)]
