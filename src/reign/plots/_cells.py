"""Which entries of the n x n matrix x[k, i] a formula reads, found by evaluating its sums."""

import re
from dataclasses import dataclass
from itertools import product
from typing import Literal

How = Literal["one", "global", "local"]
_SUM = re.compile(r"\s*(?:sum|mean)_(?:\{([^}]*)\}|(\w))")
_IF = re.compile(r"\s*\[([^\]]*~[^\]]*)\]")
_VALUES = re.compile(r"\s*(?:x\[\w,\w\]\s*)+$")
_ENTRY = re.compile(r"x\[(\w),(\w)\]")
_LETTER = re.compile(r"\b\w\b")
_RELATION = re.compile(r"(\w)\s*(!=|~(?:_\w)?)\s*(\w)")


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
    """
    rest, sums = formula, 0
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
        if all(at[a] != at[b] for a, _, b in conditions):  # no node is its own neighbour
            cells |= {(at[a], at[b]) for a, b in _ENTRY.findall(rest)}
    local = any(sign.startswith("~") for _, sign, _ in conditions)
    return Reading("local" if local else "global" if free else "one", frozenset(cells), sums > 1)
