r"""The update equations of layers as LaTeX: ``x[k,i]`` becomes :math:`x^{k}_{i}`, every transform a letter with a number."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from reign.nn._slots import TermLayer

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
    text = re.sub(r"~_(\w)", r"\\sim_{\1}", text).replace("~", r"\sim").replace("!=", r"\neq")
    text = re.sub(r"(sum|mean)_(\w)\b", r"\1_{\2}", text)
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
    return rf"{latex_formula(target)} &\leftarrow {_around(act, ' + '.join(words))}"


def _around(act: nn.Module, inside: str) -> str:
    return inside if isinstance(act, nn.Identity) else rf"\sigma \Big( {inside} \Big)"


def aligned(lines: Sequence[str]) -> Latex:
    """Equations below each other."""
    return Latex("\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}")


def latex_conv(layer: "TermLayer", branches: Sequence[tuple[str, bool, Sequence[tuple[str, Sequence[str]]]]]) -> Latex:
    """The equations of a layer of terms. Each branch has a target, a flag for the branch of roots, and its transforms."""
    several = len(branches) > 1
    return aligned([latex_sum(target, layer.act, parts, "r" if on and several else "") for target, on, parts in branches])
