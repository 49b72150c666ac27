"""The content of the figure of a layer, derived from its modules: a parameter for each transform, and the formulas of its inputs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch

from torch import nn

from reign.nn import (
    AKConv,
    AKKernel,
    Model,
    PPGNBlock,
    PPGNConv,
    PPGNNodesConv,
    PPGNRootConv,
    SubgraphConv,
    SubgraphGNN,
    build_model,
    find_model,
    slot_formulas,
    term,
)


@dataclass(frozen=True)
class Parameter:
    """A set of weights of a layer.

    Args:
        name: the names of its terms.
        kind: its kind: an MLP, a base encoder or a linear map.
        formulas: the formulas of its inputs.
        roots: whether it is used only for roots.
    """

    name: str
    kind: str
    formulas: tuple[str, ...]
    roots: bool = False


@dataclass(frozen=True)
class LayerFigure:
    """The parameters of a layer.

    Args:
        title: its title.
        off: the parameters that update x[k, i].
        on: the parameters that update x[i, i], which may be the same.
        row: whether there is only one subgraph, the graph itself.
    """

    title: str
    off: tuple[Parameter, ...]
    on: tuple[Parameter, ...]
    row: bool = False


TITLES = {
    "sun": "SUN", "reign2": "ReIGN(2)", "ds": "DS-GNN", "dss": "DSS-GNN", "reconstructiongnn": "Reconstruction GNN", "ngnn": "NGNN",
    "idgnn": "ID-GNN", "gnnak": "GNN-AK", "gnnakctx": "GNN-AK-ctx", "gnnakplus": "GNN-AK+", "sswl": "SSWL+", "ign2": "2-IGN",
    "ppgn": "PPGN", "mpnn": "MPNN", "ngnntupublished": "NGNN (TU) *",
}  # fmt: skip


def figure_of_model(name: str) -> LayerFigure:
    """The figure of a model of the catalogue, by name."""
    model = build_model(name, 4, 4, 2, 1)
    return figure_of_layer(model.layers[-1], _title(name), _is_row(model))


def _title(name: str) -> str:
    """The name of a model in the paper. A model as published has a star."""
    kind = find_model(name)
    for key, title in TITLES.items():
        if find_model(key) is kind:
            return title
        if kind.__name__ == f"{find_model(key).__name__}Published":
            return f"{title} *"
    return kind.__name__


def _is_row(model: Model) -> bool:
    return model.policy.num_anchors == 0


def figure_of_terms(terms: Sequence[str], root_terms: Sequence[str] | None = None) -> LayerFigure:
    """The figure of a custom layer, given by lists of terms."""
    layer = SubgraphGNN(4, 4, 1, terms=terms, root_terms=root_terms).layers[0]
    return figure_of_layer(layer, ", ".join(terms))


@singledispatch
def figure_of_layer(layer: nn.Module, title: str, row: bool = False) -> LayerFigure:
    """The figure of a layer. ``figure_of_layer.register`` adds another kind of layer."""
    raise ValueError(
        f"layer {layer!r} cannot be drawn; use a layer of terms (SubgraphConv), or add a function with figure_of_layer.register."
    )


@figure_of_layer.register
def _(layer: SubgraphConv, title: str, row: bool = False) -> LayerFigure:
    off = _parameters(layer, False)
    if layer.roots == "added":
        return LayerFigure(title, off, (*(_at_root(parameter) for parameter in off), *_parameters(layer, True)), row)
    if layer.root_terms is not None:
        return LayerFigure(title, off, _parameters(layer, True), row)
    return LayerFigure(title, off, tuple(_at_root(parameter) for parameter in off), row)


@figure_of_layer.register
def _(layer: AKConv, title: str, row: bool = False) -> LayerFigure:
    inner = layer.inner[0]
    assert isinstance(inner, SubgraphConv)
    kind = "part of a linear map" if layer.mix is not None else "sum"
    parts = tuple(Parameter(name, f"[A] {kind}", (term(name).formula.replace("sum", layer.aggregation),)) for name in layer.parts)
    off = tuple(Parameter(p.name, f"[S] {p.kind}", p.formulas) for p in _parameters(inner, False)) + parts
    return LayerFigure(title, off, tuple(_at_root(parameter) for parameter in off), row)


@figure_of_layer.register
def _(layer: AKKernel, title: str, row: bool = False) -> LayerFigure:
    inner = layer.inner[0]
    assert isinstance(inner, SubgraphConv)
    names = {"centroid": "node_root", "subgraph": "node_readout", "context": "needle"}
    parts = tuple(
        Parameter(names[part], "[A] part", (term(names[part]).formula.replace("sum", layer.aggregation),)) for part in layer.parts
    )
    off = tuple(Parameter(p.name, f"[S] {p.kind}", p.formulas) for p in _parameters(inner, False)) + parts
    return LayerFigure(title, off, tuple(_at_root(parameter) for parameter in off), row)


@figure_of_layer.register
def _(layer: PPGNConv | PPGNBlock, title: str, row: bool = False) -> LayerFigure:
    off = (Parameter("own", "Linear", ("x[k,i]",)), Parameter("matrix product", "MLPs", ("sum_j x[k,j]", "sum_j x[j,i]")))
    return LayerFigure(title, off, tuple(_at_root(parameter) for parameter in off), row)


@figure_of_layer.register
def _(layer: PPGNRootConv, title: str, row: bool = False) -> LayerFigure:
    product = Parameter("matrix product", "MLPs, signed root", ("sum_j x[k,j]", "sum_j x[j,i]"))
    off = (Parameter("own", "MLP and residual", ("x[k,i]",)), product)
    return LayerFigure(title, off, tuple(_at_root(parameter) for parameter in off), row)


@figure_of_layer.register
def _(layer: PPGNNodesConv, title: str, row: bool = False) -> LayerFigure:
    product = Parameter("matrix product", "MLPs", ("sum_j x[k,j]", "sum_j x[j,i]"))
    ends = tuple(Parameter(name, "MLP", (term(name).formula,)) for name in ("node_root", "node_readout_strict"))
    off = (Parameter("own", "Linear", ("x[k,i]",)), product, *ends)
    return LayerFigure(title, off, tuple(_at_root(parameter) for parameter in off), row)


def _parameters(layer: SubgraphConv, on: bool) -> tuple[Parameter, ...]:
    found = []
    for slot, (kind, formulas) in zip(layer.slots(on), slot_formulas(layer, on), strict=True):
        names = slot.name.split("+")
        whole = (
            2 if len(names) == len(formulas) else len(formulas)
        )  # if there are several sums over neighbours, each has its own weights
        found.append(Parameter("+".join(names[:whole]), kind, tuple(formulas[:whole]), on))
        found += [Parameter(name, kind, (formula,), on) for name, formula in zip(names[whole:], formulas[whole:], strict=True)]
    return tuple(found)


def _at_root(parameter: Parameter) -> Parameter:
    """The same parameter with the target x[i, i], that is, k = i."""
    return replace(parameter, formulas=tuple(formula.replace("k", "i") for formula in parameter.formulas))
