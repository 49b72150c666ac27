"""What a layer reads, for its figure: a parameter for each transform, the formulas of its inputs, and the entries x[k, i] in them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import product
from typing import Literal

import torch

from reign import nn


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
        at: the numbers of the layers of this kind, if a model has several kinds; empty if all its layers are equal.
    """

    title: str
    off: tuple[Parameter, ...]
    on: tuple[Parameter, ...]
    row: bool = False
    at: tuple[int, ...] = ()

    @property
    def numbers(self) -> str:
        """The numbers of its layers, as in "0 to 2", or nothing if all layers are equal."""
        if len(self.at) > 1 and self.at == tuple(range(self.at[0], self.at[-1] + 1)):
            return f"{self.at[0]} to {self.at[-1]}"
        return ", ".join(map(str, self.at))


TITLES = {
    "sun": "SUN", "reign2": "ReIGN(2)", "ds": "DS-GNN", "dss": "DSS-GNN", "reconstructiongnn": "Reconstruction GNN", "ngnn": "NGNN",
    "idgnn": "ID-GNN", "gnnak": "GNN-AK", "gnnakctx": "GNN-AK-ctx", "gnnakplus": "GNN-AK+", "sswl": "SSWL+", "ign2": "2-IGN",
    "ppgn": "PPGN", "mpnn": "MPNN", "ngnntupublished": "NGNN (TU) *", "tuplesun": "SUN along roots", "tuplereign2": "ReIGN(2) along roots",
}  # fmt: skip


DEPTH = 3  # number of layers with which a model is drawn that is given by its name


def figures_of_model(model: str | nn.Model) -> list[LayerFigure]:
    """A figure for each kind of layers of a model, in their order. A name of the catalogue stands for that model with three layers.

    >>> [figure.numbers for figure in figures_of_model("sswl-published")]
    ['0 to 2', '3']
    """
    built = nn.build_model(model, 4, 4, DEPTH, 1) if isinstance(model, str) else model
    kinds: dict[LayerFigure, list[int]] = {}
    for number, layer in enumerate(built.layers):
        kinds.setdefault(figure_of_layer(layer, _title(type(built)), built.policy.num_anchors == 0), []).append(number)
    return [replace(figure, at=tuple(at) if len(kinds) > 1 else ()) for figure, at in kinds.items()]


def _title(kind: type[nn.Model]) -> str:
    """The name of a model in the paper. A model as published has a star."""
    for key, title in TITLES.items():
        if nn.find_model(key) is kind:
            return title
        if kind.__name__ == f"{nn.find_model(key).__name__}Published":
            return f"{title} *"
    return kind.__name__


def figure_of_terms(terms: Sequence[str], root_terms: Sequence[str] | None = None) -> LayerFigure:
    """The figure of a custom layer, given by lists of terms."""
    layer = nn.SubgraphGNN(4, 4, 1, terms=terms, root_terms=root_terms).layers[0]
    return figure_of_layer(layer, ", ".join(terms))


@singledispatch
def figure_of_layer(layer: torch.nn.Module, title: str, row: bool = False) -> LayerFigure:
    """The figure of a layer. ``figure_of_layer.register`` adds another kind of layer."""
    raise ValueError(
        f"layer {layer!r} cannot be drawn; use a layer of terms (SubgraphConv), or add a function with figure_of_layer.register."
    )


@figure_of_layer.register
def _(layer: nn.SubgraphConv, title: str, row: bool = False) -> LayerFigure:
    off = _parameters(layer, False)
    if layer.roots == "added":
        return LayerFigure(title, off, (*(_at_root(parameter) for parameter in off), *_parameters(layer, True)), row)
    if layer.root_terms is not None:
        return LayerFigure(title, off, _parameters(layer, True), row)
    return LayerFigure(title, off, tuple(_at_root(parameter) for parameter in off), row)


@figure_of_layer.register
def _(layer: nn.AKConv | nn.AKKernel, title: str, row: bool = False) -> LayerFigure:
    inner = layer.inner[0]
    assert isinstance(inner, nn.SubgraphConv)
    kinds = {"linear": "part of a linear map", "cat": "concatenated", "sum": "sum"}
    kind = kinds[layer.combine] if isinstance(layer, nn.AKConv) else "part"
    terms = {"centroid": "node_root", "subgraph": "node_readout", "context": "needle"}
    names = [terms.get(part, part) for part in layer.parts]
    parts = tuple(Parameter(name, f"[A] {kind}", (nn.term(name).formula.replace("sum", layer.aggregation),)) for name in names)
    off = tuple(Parameter(p.name, f"[S] {p.kind}", p.formulas) for p in _parameters(inner, False)) + parts
    return LayerFigure(title, off, tuple(_at_root(parameter) for parameter in off), row)


@figure_of_layer.register
def _(layer: nn.PPGNConv | nn.PPGNBlock | nn.PPGNRootConv | nn.PPGNNodesConv, title: str, row: bool = False) -> LayerFigure:
    rooted = isinstance(layer, nn.PPGNRootConv)
    own = Parameter("own", "MLP and residual" if rooted else "Linear", ("x[k,i]",))
    product = Parameter("matrix product", "MLPs, signed root" if rooted else "MLPs", ("sum_j x[k,j]", "sum_j x[j,i]"))
    ends = ("node_root", "node_readout_strict") if isinstance(layer, nn.PPGNNodesConv) else ()
    off = (own, product, *(Parameter(name, "MLP", (nn.term(name).formula,)) for name in ends))
    return LayerFigure(title, off, tuple(_at_root(parameter) for parameter in off), row)


def _parameters(layer: nn.SubgraphConv, on: bool) -> tuple[Parameter, ...]:
    found = []
    for slot, (kind, formulas) in zip(layer.slots(on), nn.slot_formulas(layer, on), strict=True):
        names = slot.name.split("+")
        # if there are several sums over neighbours, each has its own weights
        whole = 2 if len(names) == len(formulas) else len(formulas)
        found.append(Parameter("+".join(names[:whole]), kind, tuple(formulas[:whole]), on))
        found += [Parameter(name, kind, (formula,), on) for name, formula in zip(names[whole:], formulas[whole:], strict=True)]
    return tuple(found)


def _at_root(parameter: Parameter) -> Parameter:
    """The same parameter with the target x[i, i], that is, k = i."""
    return replace(parameter, formulas=tuple(formula.replace("k", "i") for formula in parameter.formulas))


# -- the entries that a formula reads ------------------------------------------------------------------------------------------

How = Literal["one", "global", "local"]
_SUM = re.compile(r"\s*(?:sum|mean)_(?:\{([^}]*)\}|(\w))")
_IF = re.compile(r"\s*\[([^\]]*[~=][^\]]*)\]")
_VALUES = re.compile(r"\s*(?:x\[\w,\w\]\s*)+$")
_ENTRY = re.compile(r"x\[(\w),(\w)\]")
_LETTER = re.compile(r"\b\w\b")
_RELATION = re.compile(r"(\w)\s*(!=|=|~(?:_\w)?)\s*(\w)")


@dataclass(frozen=True)
class Reading:
    """The entries that a formula reads for one target.

    Args:
        how: "one" for a single entry, "global" for a sum over all, or "local" for a sum over neighbours.
        cells: the entries (k, i).
        nested: whether it is a sum of sums.
    """

    how: How
    cells: frozenset[tuple[int, int]]
    nested: bool = False


def read_cells(formula: str, k: int, i: int, n: int) -> Reading:
    """The entries that a formula reads for the target x[k, i] among n nodes, for any edges: every other node counts as a possible neighbour.

    >>> sorted(read_cells("sum_{j ~_k i} x[k,j]", 1, 3, 4).cells)
    [(1, 0), (1, 1), (1, 2)]
    >>> read_cells("x[i,i]", 1, 3, 4)
    Reading(how='one', cells=frozenset({(3, 3)}), nested=False)

    A formula along a root is drawn for the subgraphs that differ only in this root.
    """
    rest, sums = formula.partition(" along ")[0], 0
    free: list[str] = []
    conditions: list[tuple[str, str, str]] = []
    while found := _SUM.match(rest) or _IF.match(rest):
        inside = found.group(1) or found.group(2)
        conditions += _RELATION.findall(inside)
        if found.re is _SUM:
            sums += 1
            free += [letter for letter in dict.fromkeys(_LETTER.findall(inside)) if letter not in (*free, "k", "i")]
        rest = rest[found.end() :]
    if _VALUES.match(rest) is None:
        raise ValueError(
            f"the formula '{formula}' cannot be drawn, expected sums of entries, as in 'sum_{{j ~_k i}} x[k,j]'; see reign.list_terms()."
        )
    cells = set()
    for values in product(range(n), repeat=len(free)):
        at = {"k": k, "i": i, **dict(zip(free, values, strict=True))}
        if all((at[a] == at[b]) == (sign == "=") for a, sign, b in conditions):  # no node is its own neighbour
            cells |= {(at[a], at[b]) for a, b in _ENTRY.findall(rest)}
    local = any(sign.startswith("~") for _, sign, _ in conditions)
    return Reading("local" if local else "global" if free else "one", frozenset(cells), sums > 1)
