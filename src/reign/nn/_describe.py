r"""Descriptions of layers and models: the update equations, the parameters of each term, and the number of passes over the bag.

As LaTeX, ``x[k,i]`` becomes :math:`x^{k}_{i}`, and every transform a letter with a number.
"""

import re
from collections.abc import Sequence
from typing import Any

from torch import nn

from reign.nn._mlp import num_parameters
from reign.nn._plan import runs_where
from reign.nn._slots import EncoderSlot, Slot, TermLayer
from reign.nn._terms import Term, term

LETTERS = {"Linear": "W", "MLP": r"\mu"}  # all others are encoders, gamma


class Latex(str):
    """LaTeX that notebooks render."""

    def _repr_latex_(self) -> str:
        return f"$$\n{self}\n$$"


def latex_formula(formula: str) -> str:
    r"""The formula of a term as LaTeX.

    >>> latex_formula("sum_{j ~_k i} x[k,j]")
    '\\sum_{j \\sim_{k} i} x^{k}_{j}'
    >>> latex_formula("[k ~_k i] x[k,k]"), latex_formula("mean_h x[h,i]")
    ('\\mathbf{1}_{[k \\sim_{k} i]} x^{k}_{k}', '\\mathrm{mean}_{h} x^{h}_{i}')
    """
    text = re.sub(r"\bx\[(\w),(\w)\]", r"x^{\1}_{\2}", formula)
    text = re.sub(r"\be_(\w\w)", r"e_{\1}", text.replace("relu(", r"\mathrm{relu}("))
    text = re.sub(r"~_(\w)", r"\\sim_{\1}", text).replace("~", r"\sim").replace("!=", r"\neq")
    text = re.sub(r"\bin V\^(\w)", r"\\in V^{\1}", text)
    text = re.sub(r"(sum|mean)_(\w)\b", r"\1_{\2}", text)
    text = re.sub(r" along (.+)$", r"\\ \\text{along \1}", text)
    text = text.replace("sum_", r"\sum_").replace("mean_", r"\mathrm{mean}_")
    return re.sub(r"^\[(.+?)\]", r"\\mathbf{1}_{[\1]}", text)


def latex_sum(target: str, act: nn.Module, parts: Sequence[tuple[str, Sequence[str]]], mark: str = "") -> str:
    """One update equation: a sum of transforms. Each is given by its class name (empty for no transform) and the formulas of its inputs.

    Args:
        target: what is updated.
        act: the activation around the sum.
        parts: the transforms.
        mark: an index that distinguishes these transforms from those of other equations.
    """
    counts: dict[str, int] = {}
    words = []
    for kind, formulas in parts:
        inside = r",\, ".join(map(latex_formula, formulas))
        if not kind:
            words.append(inside)
            continue
        letter = LETTERS.get(kind, r"\gamma")
        number = counts[letter] = counts.get(letter, -1) + 1
        name = f"{letter}_{{{mark}{number}}}" if letter == "W" else f"{letter}^{{{number}}}" + (f"_{{{mark}}}" if mark else "")
        words.append(f"{name} {inside}" if letter == "W" and len(formulas) == 1 else rf"{name}\big( {inside} \big)")
    inside = " + ".join(words)
    inside = inside if isinstance(act, nn.Identity) else rf"\sigma \Big( {inside} \Big)"
    return rf"{latex_formula(target)} &\leftarrow {inside}"


def aligned(lines: Sequence[str]) -> Latex:
    """Equations below each other."""
    return Latex("\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}")


SCOPES = {"pair": "pairs", "subgraph": "subgraphs", "node": "nodes", "graph": "graphs"}


def describe_model(model: Any, latex: bool = False) -> str:
    """Describe the update equations on and off the diagonal, the parameters of each term, and the cost in passes over the bag.

    Args:
        latex: return only the update equations, as LaTeX, which notebooks render.
    """
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
    """Describe the update equations on and off the diagonal, the parameters of each term, and the cost; see ``Model.describe``."""
    if latex:
        off, on = ([_of_slot(slot, layer, where, edges=True) for slot in layer.slots(where)] for where in (False, True))
        if layer.roots == "added":
            off, on = [*off, *((head, [f"[i = k] {formula}" for formula in formulas]) for head, formulas in on)], []
        of_roots = [latex_sum("x[i,i]", layer.act, on, "r")] if on else []
        return aligned([*of_roots, latex_sum("x[k,i]", layer.act, off)])
    lines = [f"{type(layer).__name__}({layer.in_channels} -> {layer.out_channels}), {num_parameters(layer):,} parameters"]
    if layer.root_terms is None or layer.roots == "added":
        lines += _branch("x[k,i]", layer, on=False)
    else:
        lines += _branch("x[i,i]", layer, on=True) + _branch("x[k,i]", layer, on=False)
    sweeps = cost(layer)
    passes = [f"{number} {'pass' if number == 1 else 'passes'} over {scope}" for scope, number in sweeps.items() if number]
    lines.append("  cost: " + ", ".join(passes))
    lines.append("  runs: " + runs_where(layer))
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
            for part in slot.terms:
                on_roots = on and part.scope == "pair"
                summed = term(part.same_sum or part.name)
                if summed.reads != "nothing" and (summed.name, on_roots) not in done:
                    done.add((summed.name, on_roots))
                    passes["roots" if on_roots else summed.reads] += 1
    return passes


def _branch(target: str, layer: TermLayer, on: bool) -> list[str]:
    lines = [f"  {target} <- {type(layer.act).__name__}(", *(_line(slot, layer, on) for slot in layer.slots(on))]
    if layer.roots == "added":
        lines += [_line(slot, layer, True, "[i = k] ") for slot in layer.slots(on=True)]
    return [*lines, "  )"]


def _line(slot: Slot, layer: TermLayer, on: bool, condition: str = "") -> str:
    head, formulas = _of_slot(slot, layer, on, edges=True)
    where = "roots" if on else SCOPES[slot.scope]
    return (
        f"      + {condition}{head}({', '.join(formulas)})".ljust(64)
        + f"  {slot.name}, {num_parameters(slot):,} parameters, on {where}"
    )


def slot_formulas(layer: TermLayer, on: bool = False) -> list[tuple[str, list[str]]]:
    """The class name of the transform or encoder of every slot of a layer, and the formulas of its inputs, without edge features."""
    return [_of_slot(slot, layer, on) for slot in layer.slots(on)]


def _of_slot(slot: Slot, layer: TermLayer, on: bool, edges: bool = False) -> tuple[str, list[str]]:
    transform = slot.encoder if isinstance(slot, EncoderSlot) else slot.transform
    featured = edges and not isinstance(slot, EncoderSlot) and slot.edge_encoder is not None
    formulas = [_formula(part, layer, on) for part in slot.terms]
    return type(transform).__name__, [_with_edges(formula) for formula in formulas] if featured else formulas


def _with_edges(formula: str) -> str:
    """A formula whose messages along edges have edge features, e_ij for the edge from j to i.

    >>> _with_edges("sum_{j ~ i} sum_h x[h,j]"), _with_edges("[k ~_k i] x[k,k]")
    ('sum_{j ~ i} relu(sum_h x[h,j] + e_ij)', '[k ~_k i] relu(x[k,k] + e_ik)')
    """
    found = re.match(r"(.*?[{[](\w) ~(?:_\w)? (\w)[^}\]]*[}\]] )(.*?)( along .*)?$", formula)
    return formula if found is None else f"{found[1]}relu({_with_edges(found[4])} + e_{found[3]}{found[2]}){found[5] or ''}"


def _formula(term: Term, layer: TermLayer, on: bool) -> str:
    formula = term.formula_at("on" if on else "off")
    if layer.aggregation.get(term.name) == "mean":
        start = formula.find("sum_")
    elif term.over is not None and layer.aggregation.get(term.over) == "mean":
        start = formula.rfind("sum_")
    else:
        return formula
    return formula[:start] + "mean" + formula[start + 3 :]
