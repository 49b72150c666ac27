"""Layers in linear form: their matrices, layers made from matrices, and layers of all models rewritten as ReIGN(2) or SUN layers.

The functions ``to_reign2``, ``to_sun`` and ``to_null`` are the constructions behind ``implement``.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from reign.nn import REIGN2_OFF, REIGN2_ON, AKConv, EncoderSlot, IDConv, ReIGN2Conv, SubgraphConv, SUNConv, TermSlot, term
from reign.policies import NodeDeletion, NodeMarking, Null, Policy
from reign.theory._ign3_program import glue

SUMS = {  # sums over all rows, where the table leaves out the diagonal: each is two entries of the table
    "readout": "readout_strict + root",
    "needle": "needle_strict + node_root",
    "node_readout": "node_readout_strict + node_root",
    "root_needle": "root_needle_strict + root",
    "total": "non_roots + roots",
}
TABLE = {*(term(name).name for name in (*REIGN2_OFF, *REIGN2_ON)), *SUMS}
COVERED = {"own", "local", "local_others", "root_msg", "needle", "needle_msg", "node_root", "root", "readout", "transpose"}

Weights = dict[str, Tensor]  # a matrix for each term; "bias" for the bias


# -- layers and their matrices -------------------------------------------------------------------------------------------------


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
    p, d = some.shape
    layer = SUNConv(
        d, p, transpose="transpose" in off, transform="linear", conv="graphconv", needle="sum", act=act, norm=None, domain=domain
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


def weights_of(layer: SubgraphConv, on: bool = False, covered: Collection[str] = COVERED) -> Weights:
    """The matrix of every term of a linear layer. An encoder is split into two terms, and equal terms are summed."""
    check_linear(layer)
    weights: Weights = {}

    def add(name: str, weight: Tensor) -> None:
        weight = weight.detach().double()
        weights[name] = weights[name] + weight if name in weights else weight

    for slot in layer.slots(on):
        names = [part.name for part in slot.terms]
        if strange := [name for name in names if name not in covered]:
            raise ValueError(
                f"no construction is known for the term '{strange[0]}'; the paper's proofs cover {', '.join(sorted(covered))}."
            )
        encoder: Any = slot.encoder if isinstance(slot, EncoderSlot) else None
        linears: list[Any] = [slot.transform] if isinstance(slot, TermSlot) else [encoder.lin_own, *encoder.lin_sums]
        for name, linear in zip(names, linears, strict=True):
            add(name, linear.weight)
        add("bias", linears[0].bias)
    return weights


def _set(weight: Tensor, linear: Any, bias: Tensor | None = None) -> None:
    with torch.no_grad():
        linear.weight.copy_(weight)
        if linear.bias is not None:
            linear.bias.zero_() if bias is None else linear.bias.copy_(bias)


def check_linear(layer: SubgraphConv) -> None:
    """Raise ``ValueError`` unless the constructions cover a layer."""
    problems = []
    if any(how != "sum" for how in layer.aggregation.values()):
        problems.append(f"means ({layer.aggregation}; use sums)")
    if not isinstance(layer.act, nn.ReLU | nn.Identity):
        problems.append(f"activation {type(layer.act).__name__} (use 'relu' or None)")
    for slot in [*layer.slots(), *layer.slots(on=True)]:
        if isinstance(slot, TermSlot) and not isinstance(slot.transform, nn.Linear):
            problems.append("MLPs (use transform='linear')")
        if isinstance(slot, TermSlot) and slot.edge_encoder is not None:
            problems.append("edge features (leave edge_terms out)")
        if isinstance(slot, EncoderSlot):
            kind = type(slot.encoder).__name__
            if kind != "GraphConv":
                problems.append(f"base encoder {kind} (use conv='graphconv')")
            if type(slot.norm).__name__ != "NoNorm":
                problems.append("norms (use norm=None)")
    if type(layer.norm).__name__ != "NoNorm":
        problems.append("norms (use norm=None)")
    if problems:
        raise ValueError(
            "the construction covers linear terms with the GraphConv encoder, sums and ReLU, got "
            + ", ".join(dict.fromkeys(problems))
            + "."
        )


def activation(layer: SubgraphConv | AKConv) -> str | None:
    """The activation of a layer, by name."""
    return "relu" if isinstance(layer.act, nn.ReLU) else None


def ak_parts(layer: AKConv) -> tuple[list[SubgraphConv], Weights]:
    """The inner layers of a GNN-AK block, and the matrices of its aggregation."""
    if layer.max_distance is not None or layer.aggregation != "sum" or type(layer.norm).__name__ != "NoNorm" or layer.marks:
        raise ValueError("the construction covers GNN-AK and GNN-AK-ctx with aggregation='sum', norm=None and remark=False.")
    parts, out = len(layer.parts), layer.out_channels
    if layer.mix is not None:
        mix = list(layer.mix.weight.detach().double().chunk(parts, dim=1))
    else:  # the identity, or of a concatenation the columns of each part
        mix = (
            [torch.eye(out, dtype=torch.float64)] * parts
            if layer.combine == "sum"
            else list(torch.eye(out).double().chunk(parts, dim=1))
        )
    weights = dict(zip(layer.parts, mix, strict=True))
    weights["bias"] = torch.zeros(out, dtype=torch.float64) if layer.mix is None else layer.mix.bias.detach().double()
    return [inner for inner in layer.inner if isinstance(inner, SubgraphConv)], weights


# -- as ReIGN(2) layers --------------------------------------------------------------------------------------------------------


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
        check_linear(layer)
        for slot in [*layer.slots(), *layer.slots(on=True)]:
            if term(slot.name).name not in TABLE:
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
    eye = torch.eye(d, dtype=torch.float64)
    none, to_first = torch.zeros(p, d, dtype=torch.float64), torch.zeros(d, d, dtype=torch.float64)
    first_off = {"own": glue(off.get("own", none), to_first), "local": glue(off.get("local", none), to_first)}
    first_off["node_root"] = glue(off.get("node_root", none), eye)
    first_off["needle_strict"] = glue(none, eye)
    first_on = {"own": glue(on.get("own", none) + on.get("readout", none), eye), "local": glue(on.get("local", none), to_first)}
    first_on["needle_strict"] = glue(none, eye)
    if "readout" in off or "root" in off:  # U1 + U3, where "U1 + I" is printed
        first_off["root"] = glue(off.get("root", none) + off.get("readout", none), to_first)
    if "readout" in off:
        first_off["readout_strict"] = glue(off["readout"], to_first)
    if "readout" in on:
        first_on["readout_strict"] = glue(on["readout"], to_first)
    if "transpose" in off:
        first_off["transpose"] = glue(off["transpose"], to_first)
    second = []
    for terms in (off, on):
        own = torch.cat([torch.eye(p, dtype=torch.float64), terms["needle"]], dim=1)
        along = torch.cat([torch.zeros(p, p, dtype=torch.float64), terms["needle_msg"]], dim=1)
        second.append({"own": own, "readout@A": along, "bias": terms["bias"]})
    first = reign2_layer(first_off, first_on, None, layer.domain)
    return [first, reign2_layer(second[0], second[1], activation(layer), layer.domain)]


def id_in_two(layer: IDConv, make: Callable[..., SubgraphConv]) -> list[nn.Module]:
    """ID-GNN: transform roots and other nodes differently, then pass messages."""
    w = weights_of(layer)
    p = layer.out_channels
    first = make({"own": glue(w["own"], w["local_others"])}, {"own": glue(w["own"], w["root_msg"])}, None, layer.domain)
    own, along = torch.eye(2 * p, dtype=torch.float64).split(p)
    terms = {"own": own, "local": along, "bias": w["bias"]}
    return [first, make(terms, dict(terms), activation(layer), layer.domain)]


# -- as SUN layers -------------------------------------------------------------------------------------------------------------


def to_sun(layer: nn.Module) -> list[nn.Module]:
    """SUN layers that compute the same as a layer of any model except ReIGN(2)."""
    if isinstance(layer, AKConv):
        inner, mix = ak_parts(layer)
        eye, zero = torch.eye(layer.out_channels, dtype=torch.float64), torch.zeros_like(mix["node_root"])
        # the paper prints one layer, which reads the readout of k where that of i is needed; here roots are first, then all pairs read them
        roots = {"own": mix["node_root"], "readout": mix["node_readout"], "needle": mix.get("needle", zero), "bias": mix["bias"]}
        first = sun_layer({"own": zero}, roots, activation(layer), layer.domain)
        return [
            *(new for part in inner for new in to_sun(part)),
            first,
            sun_layer({"node_root": eye}, {"own": eye}, None, layer.domain),
        ]
    if isinstance(layer, SUNConv):
        check_linear(layer)
        return [layer]
    if isinstance(layer, IDConv):
        return id_in_two(layer, sun_layer)
    assert isinstance(layer, SubgraphConv)
    terms = weights_of(layer)
    return [sun_layer(terms, terms, activation(layer), layer.domain)]


def to_null(layers: Sequence[nn.Module], policy: Policy, domain: str) -> list[nn.Module]:
    """SUN layers that compute under the null policy what the given SUN layers compute under another policy: null, nm or nd.

    One layer is put in front of them. For node marking it makes the marks, because roots have their own weights. For node deletion it makes
    a second copy of the features, without those of the root. All sums over neighbours in the subgraph read this copy, so that the
    root sends no messages, and roots sum none; every layer updates both copies.
    """
    if isinstance(policy, Null):
        return list(layers)
    if not isinstance(policy, NodeDeletion | NodeMarking) or policy.mark == "distance" or domain != "all":
        raise ValueError(
            f"no construction is known for SUN (null) in place of policy '{policy}' with domain='{domain}'; use 'nm' or 'nd' with "
            "domain='all'."
        )
    stack_of = [layer for layer in layers if isinstance(layer, SUNConv)]
    assert len(stack_of) == len(layers)
    features = stack_of[0].in_channels - policy.num_marks
    eye = torch.eye(features, dtype=torch.float64)
    if isinstance(policy, NodeMarking):
        marks = policy.num_marks
        own = torch.cat([torch.zeros(marks, features, dtype=torch.float64), eye])
        others, roots = torch.zeros(2, features + marks, dtype=torch.float64)
        others[1:marks], roots[0] = 1, 1  # with a single mark, other nodes have none
        return [sun_layer({"own": own, "bias": others}, {"own": own, "bias": roots}, None, "all"), *layers]
    first = sun_layer({"own": glue(eye, eye)}, {"own": glue(0 * eye, eye)}, None, "all")
    return [first, *(_without_roots(layer, last=layer is layers[-1]) for layer in stack_of)]


def _without_roots(layer: SUNConv, last: bool) -> SUNConv:
    """A layer of two copies, of which the first is 0 at roots. The last layer makes the second copy only."""

    def doubled(weights: Weights, on: bool) -> Weights:
        both: Weights = {}
        for name, weight in weights.items():
            wide = weight
            if name != "bias":  # messages in subgraphs are read from the first copy, all others from the second
                nothing = torch.zeros_like(weight)
                wide = torch.cat([weight, nothing] if name == "local" else [nothing, weight], dim=1)
            if not (on and name == "local"):
                both[name] = wide if last else glue(torch.zeros_like(wide) if on else wide, wide)
        return both

    return sun_layer(doubled(weights_of(layer), False), doubled(weights_of(layer, on=True), True), activation(layer), "all")
