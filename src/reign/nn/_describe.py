"""Descriptions of layers and models: the update equations, the parameters of each term, and the number of passes over the bag."""

from typing import Any

from torch import nn

from reign.nn._latex import aligned, latex_conv
from reign.nn._mlp import num_parameters
from reign.nn._neighbourhood import MERGED
from reign.nn._options import Roots
from reign.nn._reset import Resettable
from reign.nn._slots import EncoderSlot, Slot
from reign.nn._state import Aggregation
from reign.nn._terms import TERMS, Term

SCOPES = {"pair": "pairs", "subgraph": "subgraphs", "node": "nodes", "graph": "graphs"}


class TermLayer(Resettable):
    """What descriptions need of a layer that is a sum of terms; ``SubgraphConv`` is such a layer."""

    in_channels: int
    out_channels: int
    act: nn.Module
    root_terms: nn.ModuleList | None
    roots: Roots
    aggregation: dict[str, Aggregation]

    def slots(self, on: bool = False) -> list[Slot]:
        """List the terms with their transforms."""
        raise NotImplementedError


def describe_model(model: Any, latex: bool = False) -> str:
    """Describe a ``Model``: its layers, pooling and head. With ``latex``, return only the equations of its layers, as LaTeX."""
    if latex:
        texts = dict.fromkeys(layer.describe(latex=True) for layer in model.layers)
        bodies = [line for text in texts for line in text.splitlines()[1:-1]]
        return aligned([line.removesuffix(r" \\") for line in bodies])
    lines = [f"{model!r}", f"{num_parameters(model):,} parameters"]
    if model.node_encoder is not None:
        lines.append(f"node encoder: {num_parameters(model.node_encoder):,} parameters")
    for name, part in (("labels", model.labels), ("encodings", model.encodings), ("virtual node", model.virtual_node)):
        if part is not None:
            lines.append(f"{name}: {part.extra_repr() or type(part).__name__}, {num_parameters(part):,} parameters")
    previous = ""
    for t, layer in enumerate(model.layers):
        text = layer.describe()
        lines.append(f"layer {t}: " + ("same as the previous layer" if text == previous else text))
        previous = text
    pooling = f"{type(model.pooling).__name__}({model.pooling.extra_repr()})"
    lines.append(f"pooling: {pooling}, {num_parameters(model.pooling):,} parameters, to {model.task_level} level")
    if model.head is not None:
        lines.append(f"head: {num_parameters(model.head):,} parameters")
    return "\n".join(lines)


def describe_conv(layer: TermLayer, latex: bool = False) -> str:
    """Describe a layer: its update equations on and off the diagonal, the parameters and scope of every term, and its cost."""
    if latex:
        off, on = slot_formulas(layer), slot_formulas(layer, on=True)
        if layer.roots == "added":
            off, on = [*off, *((head, [f"[i = k] {formula}" for formula in formulas]) for head, formulas in on)], []
        return latex_conv(layer, [*([("x[i,i]", True, on)] if on else []), ("x[k,i]", False, off)])
    lines = [f"{type(layer).__name__}({layer.in_channels} -> {layer.out_channels}), {num_parameters(layer):,} parameters"]
    if layer.root_terms is None or layer.roots == "added":
        lines += _branch("x[k,i]", layer, on=False)
    else:
        lines += _branch("x[i,i]", layer, on=True) + _branch("x[k,i]", layer, on=False)
    sweeps = cost(layer)
    passes = [f"{number} {'pass' if number == 1 else 'passes'} over {scope}" for scope, number in sweeps.items() if number]
    lines.append("  cost: " + ", ".join(passes))
    return "\n".join(lines)


def cost(layer: TermLayer) -> dict[str, int]:
    """Count the passes of a layer over pairs, subgraphs, nodes, graphs and roots.

    A transform is one pass over the rows of its term, and a sum is one pass over the rows it sums. A sum that several terms share
    counts once.
    """
    passes = dict.fromkeys([*SCOPES.values(), "roots"], 0)
    done: set[tuple[str, bool]] = set()
    for on in (False, True):
        for slot in layer.slots(on):
            passes["roots" if on else SCOPES[slot.scope]] += 1
            for part in _parts(slot):
                base = part.name.removesuffix("_strict")
                base = _SAME.get(base, base)
                on_roots = on and part.scope == "pair"
                if base not in _LOOKUPS and (base, on_roots) not in done:
                    done.add((base, on_roots))
                    passes["roots" if on_roots else _read(base)] += 1
    return passes


_LOOKUPS = ("own", "root", "node_root")  # rows are read as they are, without a sum
_SAME = {"node_readout": "readout", "root_needle": "needle", "non_roots": "total"}  # the same sums, looked up elsewhere


def _read(base: str) -> str:
    """What a sum reads."""
    if base in ("roots", "total"):
        return "subgraphs"
    on_nodes = base == "needle_msg" or (TERMS[base].scope == "node" and "@A" in base)
    return "nodes" if on_nodes else "pairs"


def _branch(target: str, layer: TermLayer, on: bool) -> list[str]:
    lines = [f"  {target} <- {type(layer.act).__name__}(", *(_line(slot, layer, on) for slot in layer.slots(on))]
    if layer.roots == "added":
        lines += [_line(slot, layer, True, "[i = k] ") for slot in layer.slots(on=True)]
    return [*lines, "  )"]


def _line(slot: Slot, layer: TermLayer, on: bool, condition: str = "") -> str:
    head, formulas = _of_slot(slot, layer, on)
    where = "roots" if on else SCOPES[slot.scope]
    return (
        f"      + {condition}{head}({', '.join(formulas)})".ljust(64)
        + f"  {slot.name}, {num_parameters(slot):,} parameters, on {where}"
    )


def slot_formulas(layer: TermLayer, on: bool = False) -> list[tuple[str, list[str]]]:
    """The class name of the transform or encoder of every slot of a layer, and the formulas of its inputs."""
    return [_of_slot(slot, layer, on) for slot in layer.slots(on)]


def _of_slot(slot: Slot, layer: TermLayer, on: bool) -> tuple[str, list[str]]:
    transform = slot.encoder if isinstance(slot, EncoderSlot) else slot.transform
    return type(transform).__name__, [_formula(part, layer, on) for part in _parts(slot)]


def _parts(slot: Slot) -> list[Term]:
    if isinstance(slot, EncoderSlot):
        own, sums, _ = MERGED[slot.name]
        return [TERMS[name] for name in (own, *sums)]
    return [slot.term]


def _formula(term: Term, layer: TermLayer, on: bool) -> str:
    formula = term.formula
    if on:
        formula = term.formula_on or formula.replace("x[k,k]", "x[i,i]").replace("x[k,", "x[i,").replace("j != k", "j != i")
    aggregation = layer.aggregation.get(term.name) or (layer.aggregation.get("needle") if term.name == "needle_msg" else None)
    if aggregation == "mean":
        start = formula.rfind("sum_") if term.name == "needle_msg" else formula.find("sum_")
        formula = formula[:start] + "mean" + formula[start + 3 :]
    return formula
