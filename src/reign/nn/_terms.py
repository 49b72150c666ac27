"""The ReIGN(2) table (the paper's Table of expansion rules): one small object per atomic operation.

The target is x[k, i], node i in subgraph k; roots are the pairs with k = i. A term has a value for every target, but only distinct values
are stored: a readout has one row per subgraph, regardless of the number of nodes.

Two extensions that the paper mentions are not included: sums on the connectivity of a subgraph other than the target's, and ReIGN(k).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from jaxtyping import Shaped
from torch import Tensor

from reign.bags import Where
from reign.registry import Registry

if TYPE_CHECKING:
    from reign.nn._state import State

Scope = Literal["pair", "subgraph", "node", "graph"]
Rows = Shaped[Tensor, "rows channels"]
Value = Callable[["State", Where], Rows]


@dataclass(frozen=True)
class Term:
    """One term of a layer: an atomic operation on the values x[k, i], such as a sum over neighbours.

    Args:
        name: name of the term in lists of terms.
        formula: value of the term for the target x[k, i].
        scope: where its values live when all pairs are updated; for roots alone there is one row per subgraph.
        value: computes the term, for all pairs (``where`` is "off") or for the roots alone ("on").
        paper: ids of the term in the paper's table.
        node_based: whether the term needs one subgraph per node.
        formula_on: value for the target x[i, i], if its formula differs.
    """

    name: str
    formula: str
    scope: Scope
    value: Value
    paper: str = ""
    node_based: bool = False
    formula_on: str | None = None

    @property
    def stays_inside(self) -> bool:
        """Whether the value for x[k, i] is made from values of subgraph k alone."""
        return set(re.findall(r"x\[(\w)", self.formula)) == {"k"}

    def __reduce__(self) -> "tuple[Callable[[str], Term], tuple[str]]":
        """Terms are pickled by name."""
        return term, (self.name,)


def _at_roots(scope: Scope) -> Callable[[Callable[["State"], Rows]], Value]:
    """Extend a value on subgraphs, nodes or graphs to the roots: each subgraph looks up its own row."""

    def wrap(value: Callable[["State"], Rows]) -> Value:
        def evaluate(state: "State", where: Where) -> Rows:
            out = value(state)
            if where == "off" or scope == "subgraph":
                return out
            if scope == "graph":
                return state.bag.wiring.sub_to_graph.t(out)
            return out if state.bag.node_based else out.index_select(0, state.bag.root)

        return evaluate

    return wrap


def _term(
    name: str, formula: str, scope: Scope, value: Callable[["State"], Rows], paper: str = "", node_based: bool = False
) -> Term:
    return Term(name, formula, scope, _at_roots(scope)(value), paper, node_based)


def _local(name: str, formula: str, values: str, paper: str = "", neighbours: Literal["Ak", "A", "swap"] = "Ak") -> Term:
    """A sum over neighbours, with a value for every pair."""
    needs_nodes = values != "kj"
    return Term(
        name,
        formula,
        "pair",
        lambda s, where: s.bag.wiring.rows(neighbours, values, where)(s.h),
        paper,
        needs_nodes,
        formula.replace("~_k", "~_i").replace("~ k", "~ i").replace("x[k,", "x[i,").replace(",k]", ",i]"),
    )


def _on_nodes(name: str, formula: str, values: str, paper: str = "") -> Term:
    """A sum over neighbours in the graph that does not depend on the subgraph."""
    return _term(name, formula, "node", lambda s: s.bag.wiring.rows("nodes", values)(s.h), paper, True)


def _folklore(name: str, formula: str, neighbours: Literal["A", "swap"]) -> Term:
    """A sum over neighbours of products of two pairs: a local form of the matrix product x x."""

    def value(s: "State", where: Where) -> Rows:
        parts = s.bag.wiring.folklore(neighbours, where, s.masked)
        return parts.into_targets(s.product(parts.from_subgraph(s.h), parts.from_node(s.h)))

    return Term(name, formula, "pair", value, "", True, formula.replace("~ k", "~ i").replace("x[k,", "x[i,"))


def _non_roots_Ak(s: "State", where: Where) -> Rows:
    local = TERMS["local"]
    if where == "on":
        return s.bag.wiring.nodes("Ak", "on")(s.sum(local, "on"))
    return s.bag.wiring.rows("Ak", "ji")(s.sum(local))


def _non_roots_A(s: "State", where: Where) -> Rows:
    readout = TERMS["readout@A"]
    if where == "on":
        return s.bag.wiring.nodes("nodes")(s.sum(readout, "on"))
    return s.bag.wiring.rows("nodes", "ji")(s.sum(readout))


_ALL = [
    Term("own", "x[k,i]", "pair", lambda s, where: s.root if where == "on" else s.h, formula_on="x[i,i]"),
    Term(
        "transpose",
        "x[i,k]",
        "pair",
        lambda s, where: s.root if where == "on" else s.bag.wiring.transpose(s.h),
        "",
        True,
        "x[i,i]",
    ),
    _term("root", "x[k,k]", "subgraph", lambda s: s.root),
    _term("node_root", "x[i,i]", "node", lambda s: s.root, "", True),
    # 2-IGN's global sums: over all rows, and "strict" ones without the root, as in the table
    _term("readout", "sum_j x[k,j]", "subgraph", lambda s: s.readout, "#2.on #3.off"),
    _term("readout_strict", "sum_{j != k} x[k,j]", "subgraph", lambda s: s.readout - s.root, "#2.on #3.off"),
    _term("needle", "sum_h x[h,i]", "node", lambda s: s.needle, "#3.on #2.off"),
    _term("needle_strict", "sum_{h != i} x[h,i]", "node", lambda s: s.needle - s.root, "#3.on #2.off", True),
    _term("node_readout", "sum_h x[i,h]", "node", lambda s: s.readout, "#4.off", True),
    _term("node_readout_strict", "sum_{h != i} x[i,h]", "node", lambda s: s.readout - s.root, "#4.off", True),
    _term("root_needle", "sum_h x[h,k]", "subgraph", lambda s: s.needle, "#5.off", True),
    _term("root_needle_strict", "sum_{h != k} x[h,k]", "subgraph", lambda s: s.needle - s.root, "#5.off", True),
    _term("roots", "sum_j x[j,j]", "graph", lambda s: s.roots, "#1.on #6.off", True),
    _term("non_roots", "sum_{h != j} x[h,j]", "graph", lambda s: s.total - s.roots, "#4.on #1.off", True),
    _term("total", "sum_{h,j} x[h,j]", "graph", lambda s: s.total, "#4.on #1.off"),
    # local on the subgraph
    _local("local", "sum_{j ~_k i} x[k,j]", "kj", "#2.on #3.off"),
    _local("needle@Ak", "sum_{h ~_k i} x[h,i]", "ji", "#3.on #2.off"),
    _local("node_readout@Ak", "sum_{h ~_k i} x[i,h]", "ij", "#4.off"),
    _local("root_needle@Ak", "sum_{h ~_k i} x[h,k]", "jk", "#5.off"),
    Term(
        "roots@Ak",
        "sum_{j ~_k i} x[j,j]",
        "pair",
        lambda s, where: s.bag.wiring.nodes("Ak", where)(s.root),
        "#1.on #6.off",
        True,
        "sum_{j ~_i i} x[j,j]",
    ),
    Term(
        "non_roots@Ak",
        "sum_{h ~_k i} sum_{j ~_h i} x[h,j]",
        "pair",
        _non_roots_Ak,
        "#4.on #1.off",
        True,
        "sum_{h ~_i i} sum_{j ~_h h} x[h,j]",
    ),
    # local on the graph
    _local("readout@A", "sum_{j ~ i} x[k,j]", "kj", "#2.on #3.off", "A"),
    _on_nodes("needle@A", "sum_{h ~ i} x[h,i]", "ji", "#3.on #2.off"),
    _on_nodes("node_readout@A", "sum_{h ~ i} x[i,h]", "ij", "#4.off"),
    _local("root_needle@A", "sum_{h ~ i} x[h,k]", "jk", "#5.off", "A"),
    _term("roots@A", "sum_{j ~ i} x[j,j]", "node", lambda s: s.bag.wiring.nodes("nodes")(s.root), "#1.on #6.off", True),
    Term(
        "non_roots@A",
        "sum_{h ~ i} sum_{j ~ i} x[h,j]",
        "node",
        _non_roots_A,
        "#4.on #1.off",
        True,
        "sum_{h ~ i} sum_{j ~ h} x[h,j]",
    ),
    # beyond the table
    _term("needle_msg", "sum_{j ~ i} sum_h x[h,j]", "node", lambda s: s.bag.wiring.nodes("nodes")(s.get(TERMS["needle"]))),
    _term(
        "needle_msg@agg",
        "sum_g sum_{j ~_g i} sum_h x[h,j]",
        "node",
        lambda s: s.bag.wiring.nodes("agg")(s.get(TERMS["needle"])),
    ),
    _local("swap_local", "sum_{h ~ k} x[h,i]", "ji", "", "swap"),
    _folklore("folklore", "sum_{j ~ i} x[k,j] x[j,i]", "A"),
    _folklore("swap_folklore", "sum_{j ~ k} x[k,j] x[j,i]", "swap"),
    Term(
        "root_msg",
        "[k ~_k i] x[k,k]",
        "pair",
        lambda s, where: s.bag.wiring.root_messages(where)(s.h),
        formula_on="[i ~_i i] x[i,i]",
    ),
    Term(
        "own_root",
        "[i = k] x[k,k]",
        "pair",
        lambda s, where: s.root if where == "on" else s.h.new_zeros(s.h.shape).index_copy(0, s.bag.wiring.root_row, s.root),
        formula_on="x[i,i]",
    ),
    Term(
        "local_others",
        "sum_{j ~_k i, j != k} x[k,j]",
        "pair",
        lambda s, where: s.sum(TERMS["local"], where) - s.sum(TERMS["root_msg"], where),
        formula_on="sum_{j ~_i i, j != i} x[i,j]",
    ),
]
ALIASES = {"readout@Ak": "local"}
TERMS: Registry[Term] = Registry("term", spelling=str)
for _entry in _ALL:
    TERMS.register(_entry.name, *(alias for alias, name in ALIASES.items() if name == _entry.name))(_entry)


def term(name: str) -> Term:
    """Find a term by name.

    >>> term("needle").formula, term("needle").scope
    ('sum_h x[h,i]', 'node')
    >>> term("readout@Ak").name
    'local'
    >>> term("neddle")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: unknown term 'neddle'; did you mean 'needle' or 'needle@A'? Known: own, transpose, root, ...
    """
    return TERMS[name]


def list_terms() -> list[Term]:
    """List all terms from which layers can be built."""
    return [entry for _, entry in TERMS.items()]
