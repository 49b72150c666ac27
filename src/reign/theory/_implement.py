"""The paper's "implements" theorems as functions: one architecture with constructed weights that computes what another computes.

``implement(model, "reign2")``, ``implement(model, "sun")`` and ``implement(model, "ign3")`` return a model of the target kind whose
outputs equal those of the given one. The formulas are the judge: where a printed construction slips, the corrected one is built
(docs/theory.md lists them).
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from reign.nn import (
    ALIASES,
    DS,
    DSS,
    GNNAK,
    IDGNN,
    NGNN,
    SUN,
    AKConv,
    IDConv,
    Model,
    ReIGN2,
    ReIGN2Conv,
    SubgraphConv,
    SubgraphGNN,
    SUNConv,
)
from reign.theory._layer_programs import GLOBAL, LOCAL, check_linear

Weights = dict[str, Tensor]  # a matrix for each term; "bias" for the bias


def implement(model: Model, target: str, graphs: Sequence[Data] | None = None) -> nn.Module:
    """A stack of the target kind that computes what a model computes.

    Args:
        model: DS, DSS, GNNAK, GNNAKctx, IDGNN, NGNN, SUN or ReIGN2 with ``conv="graphconv"``, linear terms, sums, ReLU and no norm.
        target: "reign2", "sun" or "ign3".
        graphs: for "ign3": the graphs on which the two are to be equal; the bound of the gates comes from them.

    Returns:
        For "reign2" and "sun" a model that is called as any other; for "ign3" an ``IGN3Model``, called the same way on these graphs.
    """
    if target not in ("reign2", "sun", "ign3"):
        raise ValueError(f"target is {target!r}, expected 'reign2', 'sun' or 'ign3'.")
    if (
        not isinstance(model, DS | DSS | GNNAK | IDGNN | NGNN | SUN | ReIGN2)
        or model.residual is not None
        or model.jk not in (None, "last")
    ):
        kind = type(model).__name__
        raise ValueError(
            f"no construction is known for {kind}{'' if model.residual is None else ' with residual connections'} in {target}: the paper's "
            f"results cover DS-, DSS-GNN, GNN-AK(-ctx), ID-GNN, NGNN, SUN and ReIGN(2); one that {target} implements {kind} would be needed."
        )
    if target == "sun" and isinstance(model, ReIGN2):
        raise ValueError(
            "no construction is known for ReIGN2 in sun: a result that SUN implements all of ReIGN(2) would be needed."
        )
    if target == "ign3":
        if not graphs:
            raise ValueError("implement(model, 'ign3') needs graphs: the gates of the construction are exact on given graphs only.")
        from reign.theory._ign3 import IGN3Model

        return IGN3Model(model, graphs)
    rewrite = to_reign2 if target == "reign2" else _to_sun
    made = copy.deepcopy(model).double().eval()
    made.layers = nn.ModuleList([new for layer in made.layers for new in rewrite(layer)]).eval()
    made.num_layers = len(made.layers)
    made._config = {}  # its weights are not those of its arguments
    return made


# -- building blocks -------------------------------------------------------------------------------------------------------


def _linear(weight: Tensor, like: Any, bias: Tensor | None = None) -> None:
    with torch.no_grad():
        like.weight.copy_(weight)
        if like.bias is not None:
            like.bias.zero_() if bias is None else like.bias.copy_(bias)


def reign2_layer(off: Weights, on: Weights, act: str | None, domain: Any) -> SubgraphConv:
    """A ReIGN(2) layer with the given matrices off and on the diagonal; all other terms are null, and left out."""
    some = next(weight for name, weight in off.items() if name != "bias")
    names = [[name for name in terms if name != "bias"] for terms in (off, on)]
    layer = ReIGN2Conv(some.size(1), some.size(0), terms=names[0], root_terms=names[1], act=act, norm=None, domain=domain).double()
    for terms, weights in ((layer.slots(), off), (layer.slots(on=True), on)):
        for number, slot in enumerate(terms):
            _linear(weights[slot.name], slot.transform, weights.get("bias") if number == 0 else None)
    return layer


def sun_layer(off: Weights, on: Weights, act: str | None, domain: Any) -> SUNConv:
    """A SUN layer in linear form with the given matrices, by the terms' names; all others are 0."""
    some = next(weight for name, weight in {**off, **on}.items() if name != "bias")
    layer = SUNConv(
        some.size(1), some.size(0), transform="linear", conv="graphconv", needle="sum", act=act, norm=None, domain=domain
    ).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
    for terms, weights in ((layer.slots(), off), (layer.slots(on=True), on)):
        left = dict(weights)
        for slot in terms:
            if "+" in slot.name:
                own, along = slot.name.split("+")
                encoder: Any = slot.encoder
                if own == "needle" and own in left:
                    _linear(left.pop(own), encoder.lin_own)
                if along in left:
                    _linear(left.pop(along), encoder.lin_sums[0])
            elif slot.name in left:
                _linear(left.pop(slot.name), slot.transform)
        if "bias" in left:
            first: Any = next(slot for slot in terms if slot.name == "own")
            with torch.no_grad():
                first.transform.bias.copy_(left.pop("bias"))
        assert not left, left
    return layer


def weights_of(layer: SubgraphConv, on: bool = False) -> Weights:
    """The matrix of every term of a linear layer: encoders are two terms each, equal terms are summed."""
    check_linear(layer, "the construction")
    parts = [part for slot in layer.slots(on) for part in slot.name.split("+")]
    if strange := [part for part in parts if part not in _KNOWN]:
        raise ValueError(
            f"no construction is known for the term '{strange[0]}'; the paper's proofs cover {', '.join(sorted(_KNOWN))}."
        )
    found: Weights = {}

    def add(name: str, weight: Tensor) -> None:
        weight = weight.detach().double()
        found[name] = found[name] + weight if name in found else weight

    for slot in layer.slots(on):
        if "+" in slot.name:
            names = slot.name.split("+")
            encoder: Any = slot.encoder
            for name, linear in zip(names, [encoder.lin_own, *encoder.lin_sums], strict=True):
                add(name, linear.weight)
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


def _to_sun(layer: nn.Module) -> list[nn.Module]:
    if isinstance(layer, AKConv):
        inner, mix = _blocks(layer)
        d = layer.out_channels
        eye, zero = torch.eye(d, dtype=torch.float64), torch.zeros(d, d, dtype=torch.float64)
        # printed as one layer, which reads the readout of k where that of i is needed: first the roots, then everybody takes theirs
        roots = {"own": mix["node_root"], "readout": mix["node_readout"], "needle": mix.get("needle", zero), "bias": mix["bias"]}
        first = sun_layer({"own": zero}, roots, activation(layer), layer.domain)
        return [
            *(new for part in inner for new in _to_sun(part)),
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


def linear_options(model: type[SubgraphGNN]) -> dict[str, Any]:
    """The options that make a model one the constructions speak of: GraphConv, linear terms, sums, ReLU, no norm, all nodes."""
    options: dict[str, Any] = {"conv": "graphconv", "norm": None, "domain": "all"}
    if issubclass(model, SUN):
        options |= {"transform": "linear", "needle": "sum"}
    if issubclass(model, DSS):
        options |= {"needle": "sum"}
    if issubclass(model, GNNAK):
        options |= {"aggregation": "sum"}
    if issubclass(model, NGNN):
        options |= {"readout": "sum", "graph_pooling": "sum"}
    return options
