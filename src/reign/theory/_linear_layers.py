"""Layers in linear form: split them into matrices, and make them from matrices. These are the building blocks of the constructions."""

from typing import Any

import torch
from torch import Tensor, nn

from reign.nn import AKConv, EncoderSlot, ReIGN2Conv, SubgraphConv, SUNConv
from reign.theory._ign3_layers import check_linear

Weights = dict[str, Tensor]  # a matrix for each term; "bias" for the bias


def _set(weight: Tensor, like: Any, bias: Tensor | None = None) -> None:
    with torch.no_grad():
        like.weight.copy_(weight)
        if like.bias is not None:
            like.bias.zero_() if bias is None else like.bias.copy_(bias)


def reign2_layer(off: Weights, on: Weights, act: str | None, domain: Any) -> SubgraphConv:
    """A ReIGN(2) layer with the given matrices off and on the diagonal. All other terms are zero and left out."""
    some = next(weight for name, weight in off.items() if name != "bias")
    names = [[name for name in terms if name != "bias"] for terms in (off, on)]
    layer = ReIGN2Conv(some.size(1), some.size(0), terms=names[0], root_terms=names[1], act=act, norm=None, domain=domain).double()
    for terms, weights in ((layer.slots(), off), (layer.slots(on=True), on)):
        for number, slot in enumerate(terms):
            _set(weights[slot.name], slot.transform, weights.get("bias") if number == 0 else None)
    return layer


def sun_layer(off: Weights, on: Weights, act: str | None, domain: Any) -> SUNConv:
    """A SUN layer in linear form with the given matrices, by the names of terms. All others are 0."""
    some = next(weight for name, weight in {**off, **on}.items() if name != "bias")
    layer = SUNConv(
        some.size(1),
        some.size(0),
        transpose="transpose" in off,
        transform="linear",
        conv="graphconv",
        needle="sum",
        act=act,
        norm=None,
        domain=domain,
    ).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
    for terms, weights in ((layer.slots(), off), (layer.slots(on=True), on)):
        left = dict(weights)
        for slot in terms:
            if isinstance(slot, EncoderSlot):
                own, along = (part.name for part in slot.terms)
                encoder: Any = slot.encoder
                if own == "needle" and own in left:
                    _set(left.pop(own), encoder.lin_own)
                if along in left:
                    _set(left.pop(along), encoder.lin_sums[0])
            elif slot.name in left:
                _set(left.pop(slot.name), slot.transform)
        if "bias" in left:
            first: Any = next(slot for slot in terms if slot.name == "own")
            with torch.no_grad():
                first.transform.bias.copy_(left.pop("bias"))
        assert not left, left
    return layer


def weights_of(layer: SubgraphConv, on: bool = False) -> Weights:
    """The matrix of every term of a linear layer. An encoder is split into two terms, and equal terms are summed."""
    check_linear(layer, "the construction")
    parts = [part.name for slot in layer.slots(on) for part in slot.terms]
    if strange := [part for part in parts if part not in _KNOWN]:
        raise ValueError(
            f"no construction is known for the term '{strange[0]}'; the paper's proofs cover {', '.join(sorted(_KNOWN))}."
        )
    found: Weights = {}

    def add(name: str, weight: Tensor) -> None:
        weight = weight.detach().double()
        found[name] = found[name] + weight if name in found else weight

    for slot in layer.slots(on):
        if isinstance(slot, EncoderSlot):
            encoder: Any = slot.encoder
            for part, linear in zip(slot.terms, [encoder.lin_own, *encoder.lin_sums], strict=True):
                add(part.name, linear.weight)
            add("bias", encoder.lin_own.bias)
        else:
            transform: Any = slot.transform
            add(slot.name, transform.weight)
            add("bias", transform.bias)
    return found


_KNOWN = {
    "own", "local", "local_others", "root_msg", "needle", "needle_msg", "node_root", "root", "readout", "transpose",
}  # fmt: skip


def activation(layer: SubgraphConv | AKConv) -> str | None:
    """The activation of a layer, by name."""
    return "relu" if isinstance(layer.act, nn.ReLU) else None


def stack(*parts: Tensor) -> Tensor:
    return torch.cat(parts, dim=0)


def ak_parts(layer: AKConv) -> tuple[list[SubgraphConv], Weights]:
    """The inner layers of a GNN-AK block, and the matrices of its aggregation."""
    if layer.max_distance is not None or layer.aggregation != "sum" or type(layer.norm).__name__ != "NoNorm" or layer.marks:
        raise ValueError("the construction covers GNN-AK and GNN-AK-ctx with aggregation='sum', norm=None and remark=False.")
    d = layer.out_channels
    eye = torch.eye(d, dtype=torch.float64)
    mix = [eye] * len(layer.parts) if layer.mix is None else list(layer.mix.weight.detach().double().split(d, dim=1))
    weights = dict(zip(layer.parts, mix, strict=True))
    weights["bias"] = torch.zeros(d, dtype=torch.float64) if layer.mix is None else layer.mix.bias.detach().double()
    return [inner for inner in layer.inner if isinstance(inner, SubgraphConv)], weights
