"""The ReIGN(2) table (the paper's Table of expansion rules): one small object per atomic operation.

The target is x[k, i], node i in subgraph k; roots are the pairs with k = i. A term has a value for every target, but only distinct values
are stored: a readout has one row per subgraph, regardless of the number of nodes.

The paper's extensions to sums over the nodes of a subgraph ("@Vk") and along the edges of subgraph i ("@Ai") are included. Subgraphs with several
roots have these terms along each of their roots.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from jaxtyping import Shaped
from torch import Tensor

from reign.bags import ALL, Neighbours, Where
from reign.registry import Registry

if TYPE_CHECKING:
    from reign.nn._state import State

Scope = Literal["pair", "subgraph", "node", "graph"]
Rows = Shaped[Tensor, "rows channels"]
Value = Callable[["State", Where], Rows]
SUMS = ("readout", "needle", "root", "near")  # what a layer returns along with its new values, as far as the next layer needs it


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
        stays_inside: whether the value for x[k, i] is made from values of subgraph k alone.
        sums: the ``SUMS`` from which it is computed.
        sums_on: the same for the roots alone, if they differ.
        reads: the rows that are summed; "nothing" if values are looked up as they are.
        same_sum: the term whose sum it is, looked up elsewhere or without the root; the term itself if not given.
        over: the term whose values it sums, so that it takes sums of means if that term takes a mean.
        along: for a sum of products of two pairs, the neighbours that it sums over.
        place: for a term along one root of subgraphs that have several: which root, "1", "2", ..., or "*" for the sum over all.
    """

    name: str
    formula: str
    scope: Scope
    value: Value
    paper: str = ""
    node_based: bool = False
    formula_on: str | None = None
    stays_inside: bool = False
    sums: tuple[str, ...] = ()
    sums_on: tuple[str, ...] | None = None
    reads: Literal["pairs", "nodes", "subgraphs", "nothing"] = "pairs"
    same_sum: str | None = None
    over: str | None = None
    along: Neighbours | None = None
    place: str | None = None

    @property
    def along_edges(self) -> bool:
        """Whether it is a sum of messages along edges, which can have edge features."""
        return "~" in self.formula and self.along is None

    def needs(self, where: Where) -> tuple[str, ...]:
        """The ``SUMS`` from which the term is computed."""
        return self.sums if where == "off" or self.sums_on is None else self.sums_on

    def formula_at(self, where: Where) -> str:
        """The formula for the target x[k, i] ("off") or x[i, i] ("on")."""
        if where == "off":
            return self.formula
        if self.formula_on is not None:
            return self.formula_on
        return self.formula.replace("x[k,k]", "x[i,i]").replace("x[k,", "x[i,").replace("j != k", "j != i")

    def __reduce__(self) -> "tuple[Callable[[str], Term], tuple[str]]":
        """Terms are pickled by name."""
        return term, (self.name,)


def _of_roots(formula: str) -> str:
    """A formula with its subgraph k replaced by i."""
    return (
        formula.replace("~_k", "~_i").replace("~ k", "~ i").replace("~_i k", "~_i i").replace("x[k,", "x[i,").replace(",k]", ",i]")
    )


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
    name: str, formula: str, scope: Scope, value: Callable[["State"], Rows], paper: str = "", node_based: bool = False, **facts: Any
) -> Term:
    """A term whose value does not depend on whether roots alone are updated."""
    return Term(name, formula, scope, _at_roots(scope)(value), paper, node_based, **facts)


# sums over all nodes of a subgraph, or over all subgraphs of a node, by what is summed and where they live: the sum, and its summand on the diagonal
_SUMS: dict[tuple[str, Scope], tuple[Callable[["State"], Rows], Callable[["State"], Rows]]] = {
    ("readout", "subgraph"): (lambda s: s.readout, lambda s: s.root),
    ("readout", "node"): (lambda s: s.node_readout, lambda s: s.node_root),
    ("needle", "node"): (lambda s: s.needle, lambda s: s.bag.wiring.scaled(s.bag.to_roots(s.root), "node")),
    ("needle", "subgraph"): (lambda s: s.root_needle, lambda s: s.root),
}


def _global(name: str, formula: str, scope: Scope, of: Literal["readout", "needle"], paper: str, **facts: Any) -> Term:
    """A sum over all nodes of a subgraph, or over all subgraphs of a node; "strict" ones leave out the root, as in the paper's table."""
    strict, facts = facts.pop("strict", False), {"node_based": True} | facts
    total, diagonal = _SUMS[of, scope]

    def value(s: "State") -> Rows:
        return total(s) - diagonal(s) if strict else total(s)

    return _term(name, formula, scope, value, paper, sums=(of, "root") if strict else (of,), same_sum=of, **facts)


def _local(
    name: str, formula: str, values: str, paper: str = "", neighbours: Literal["Ak", "Ai", "A", "swap"] = "Ak", **facts: Any
) -> Term:
    """A sum over neighbours, with a value for every pair."""

    def value(s: "State", where: Where) -> Rows:
        wiring = s.wiring
        total = wiring.rows(neighbours, values, where)(s.h)
        return (
            s.filled(total, s.bag.node, lambda mean: wiring.nodes(neighbours)(mean)) if values == "ij" and where == "off" else total
        )

    return Term(name, formula, "pair", value, paper, values != "kj", _of_roots(formula), **facts)


def _on_nodes(name: str, formula: str, values: str, paper: str = "") -> Term:
    """A sum over neighbours in the graph that does not depend on the subgraph."""

    def value(s: "State") -> Rows:
        wiring = s.wiring
        total = wiring.rows("nodes", values)(s.h)
        return s.filled(total, None, lambda mean: wiring.nodes("nodes")(mean)) if values == "ij" else total

    return _term(name, formula, "node", value, paper, True, reads="nodes")


def _folklore(name: str, formula: str, neighbours: Literal["A", "swap"]) -> Term:
    """A sum over neighbours of products of two pairs: a local form of the matrix product x x."""

    def value(s: "State", where: Where) -> Rows:
        parts = s.bag.wiring.folklore(neighbours, where, s.masked)
        return parts.into_targets(s.product(parts.from_subgraph(s.h), parts.from_node(s.h)))

    return Term(name, formula, "pair", value, "", True, _of_roots(formula), along=neighbours)


def _non_roots_Ak(s: "State", where: Where) -> Rows:
    local = TERMS["local"]
    if where == "on":
        return s.wiring.roots("Ak", "on")(s.sum(local, "on"))
    return s.wiring.rows("Ak", "ji")(s.sum(local))


def _non_roots_A(s: "State", where: Where) -> Rows:
    readout = TERMS["readout@A"]
    if where == "on":
        return s.wiring.roots("nodes" if s.bag.node_based else "A", "on")(s.sum(readout, "on"))
    return s.wiring.rows("nodes", "ji")(s.sum(readout))


def _needle_msg_agg(s: "State") -> Rows:
    out = s.wiring.nodes("agg")(s.get(TERMS["needle"]))
    return out if s.aggregation.get("needle") == "mean" else s.wiring.over_two(out, s.h)


def _needle_Ai(s: "State") -> Rows:
    s.bag.require_node_based("term 'needle@Ai'")  # the edges of a subgraph that is missing are not known
    return s.sum(TERMS["needle@Ak"], "on")


def _own_root(s: "State", where: Where) -> Rows:
    return s.root if where == "on" else s.h.new_zeros(s.h.shape).index_copy(0, s.bag.wiring.root_row, s.root)


# fmt: off
_ALL = [
    Term(
        "own", "x[k,i]", "pair", lambda s, where: s.root if where == "on" else s.h,
        formula_on="x[i,i]", stays_inside=True, sums_on=("root",), reads="nothing",
    ),
    Term(
        "transpose", "x[i,k]", "pair", lambda s, where: s.root if where == "on" else s.transpose,
        node_based=True, formula_on="x[i,i]", sums_on=("root",),
    ),
    _term("root", "x[k,k]", "subgraph", lambda s: s.root, stays_inside=True, sums=("root",), reads="nothing"),
    _term("node_root", "x[i,i]", "node", lambda s: s.node_root, node_based=True, sums=("root",), reads="nothing"),
    # 2-IGN's global sums
    _global("readout", "sum_j x[k,j]", "subgraph", "readout", "#2.on #3.off", node_based=False, stays_inside=True),
    _global(
        "readout_strict", "sum_{j != k} x[k,j]", "subgraph", "readout", "#2.on #3.off", strict=True, node_based=False, stays_inside=True
    ),
    _global("needle", "sum_h x[h,i]", "node", "needle", "#3.on #2.off", node_based=False),
    _global("needle_strict", "sum_{h != i} x[h,i]", "node", "needle", "#3.on #2.off", strict=True),
    _global("node_readout", "sum_h x[i,h]", "node", "readout", "#4.off"),
    _global("node_readout_strict", "sum_{h != i} x[i,h]", "node", "readout", "#4.off", strict=True),
    _global("root_needle", "sum_h x[h,k]", "subgraph", "needle", "#5.off"),
    _global("root_needle_strict", "sum_{h != k} x[h,k]", "subgraph", "needle", "#5.off", strict=True),
    _term("roots", "sum_j x[j,j]", "graph", lambda s: s.roots, "#1.on #6.off", True, sums=("root",), reads="subgraphs"),
    _term(
        "non_roots", "sum_{h != j} x[h,j]", "graph", lambda s: s.total - s.roots, "#4.on #1.off", True,
        sums=("readout", "root"), same_sum="total",
    ),
    _term("total", "sum_{h,j} x[h,j]", "graph", lambda s: s.total, "#4.on #1.off", sums=("readout",), reads="subgraphs"),
    _term(
        "readout@Vk", "sum_{j in V^k} x[k,j]", "subgraph", lambda s: s.readout if s.domain == "members" else s.bag.wiring.to_sub(s.h * s.bag.member[:, None]),
        formula_on="sum_{j in V^i} x[i,j]", stays_inside=True,
    ),
    # local on the subgraph
    _local("local", "sum_{j ~_k i} x[k,j]", "kj", "#2.on #3.off", stays_inside=True),
    _local("needle@Ak", "sum_{h ~_k i} x[h,i]", "ji", "#3.on #2.off"),
    _local("node_readout@Ak", "sum_{h ~_k i} x[i,h]", "ij", "#4.off"),
    _local("root_needle@Ak", "sum_{h ~_k i} x[h,k]", "jk", "#5.off"),
    Term(
        "roots@Ak", "sum_{j ~_k i} x[j,j]", "pair", lambda s, where: s.wiring.roots("Ak", where)(s.root), "#1.on #6.off", True, "sum_{j ~_i i} x[j,j]",
    ),
    Term(
        "non_roots@Ak", "sum_{h ~_k i} sum_{j ~_h i} x[h,j]", "pair", _non_roots_Ak, "#4.on #1.off", True, "sum_{h ~_i i} sum_{j ~_h h} x[h,j]",
    ),
    # local on the graph
    _local("readout@A", "sum_{j ~ i} x[k,j]", "kj", "#2.on #3.off", "A", stays_inside=True),
    _on_nodes("needle@A", "sum_{h ~ i} x[h,i]", "ji", "#3.on #2.off"),
    _on_nodes("node_readout@A", "sum_{h ~ i} x[i,h]", "ij", "#4.off"),
    _local("root_needle@A", "sum_{h ~ i} x[h,k]", "jk", "#5.off", "A"),
    _term(
        "roots@A", "sum_{j ~ i} x[j,j]", "node", lambda s: s.wiring.roots("nodes")(s.root), "#1.on #6.off", True, reads="nodes"
    ),
    Term(
        "non_roots@A", "sum_{h ~ i} sum_{j ~ i} x[h,j]", "node", _non_roots_A, "#4.on #1.off", True, "sum_{h ~ i} sum_{j ~ h} x[h,j]",
        reads="nodes",
    ),
    # beyond the table
    _term(
        "needle_msg", "sum_{j ~ i} sum_h x[h,j]", "node", lambda s: s.wiring.nodes("nodes")(s.get(TERMS["needle"])),
        sums=("needle",), reads="nodes", over="needle",
    ),
    _term(
        "needle_msg@agg", "sum_g sum_{j ~_g i} sum_h x[h,j]", "node", _needle_msg_agg,
        over="needle",
    ),
    _local("swap_local", "sum_{h ~ k} x[h,i]", "ji", "", "swap"),
    # along the edges of subgraph i
    _term("needle@Ai", "sum_{h ~_i i} x[h,i]", "node", _needle_Ai, "", True, same_sum="needle@Ak"),
    _local("swap_local@Ai", "sum_{h ~_i k} x[h,i]", "ji", "", "Ai"),
    _folklore("folklore", "sum_{j ~ i} x[k,j] x[j,i]", "A"),
    _folklore("swap_folklore", "sum_{j ~ k} x[k,j] x[j,i]", "swap"),
    Term(
        "root_msg", "[k ~_k i] x[k,k]", "pair", lambda s, where: s.wiring.root_messages(where)(s.h),
        formula_on="[i ~_i i] x[i,i]", stays_inside=True,
    ),
    Term("own_root", "[i = k] x[k,k]", "pair", _own_root, formula_on="x[i,i]", stays_inside=True),
    Term(
        "local_others", "sum_{j ~_k i, j != k} x[k,j]", "pair", lambda s, where: s.sum(TERMS["local"], where) - s.sum(TERMS["root_msg"], where),
        formula_on="sum_{j ~_i i, j != i} x[i,j]", stays_inside=True,
    ),
]
# fmt: on
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

    Subgraphs with several roots, such as those of pairs of nodes, have the terms along each root, and the sum of these over all roots:

    >>> term("needle:2").formula, term("root:*").formula
    ('sum_h x[h,i] along root 2', 'x[k,k] along all roots')
    """
    return _along(*name.split(":", 1)) if isinstance(name, str) and ":" in name else TERMS[name]


SAME = ("own", "readout", "local", "readout@A")  # terms that read no root


@cache
def _along(name: str, place: str) -> Term:
    """A term along a root: the other roots stay fixed, and k, h and i stand for this one."""
    base = TERMS[name]
    if not re.fullmatch(r"[1-9]|\*", place):
        raise ValueError(
            f"'{name}:{place}' ends in ':{place}', expected the place of a root, as in '{name}:1', or '{name}:*' for all roots."
        )
    if base.name in SAME:
        raise ValueError(f"'{name}:{place}' does not depend on a root; write '{name}'.")
    words = " along all roots" if place == ALL else f" along root {place}"
    return replace(
        base,
        name=f"{base.name}:{place}",
        formula=base.formula + words,
        formula_on=base.formula_at("on") + words,
        scope="pair" if base.scope in ("pair", "node") else "subgraph",
        value=lambda s, where: s.along(base, place, where),
        paper="",
        node_based=False,
        sums=(),
        sums_on=(),
        reads="pairs",
        same_sum=None,
        over=None if base.over is None else f"{base.over}:{place}",
        stays_inside=False,
        place=place,
    )


def list_terms() -> list[Term]:
    """List all terms from which layers can be built."""
    return [entry for _, entry in TERMS.items()]


@dataclass(frozen=True)
class Merge:
    """Terms that a base encoder merges.

    Args:
        own: the values that are updated.
        others: sums over their neighbours, or other terms.
        neighbours: the neighbours that messages come from; None if no messages are passed.
        passes: whether the encoder uses the values and the sums over their neighbours unchanged.
    """

    own: Term
    others: tuple[Term, ...]
    neighbours: Neighbours | None = None
    passes: bool = False

    @property
    def terms(self) -> tuple[Term, ...]:
        """All of them."""
        return self.own, *self.others


_MERGES: list[tuple[str, Neighbours | None, bool]] = [
    ("own+local", "Ak", True),
    ("own+local_others+root_msg", "Ak", False),
    ("own+swap_local", "swap", True),
    ("own+folklore", "A", True),
    ("own+swap_folklore", "swap", True),
    ("own+folklore+swap_folklore", "A", False),
    ("own_root+root_msg", "Ak", False),
    ("needle+needle_msg", "nodes", True),
    ("needle+needle_msg@agg", "agg", True),
    *((f"own+{name}", None, False) for name in ("transpose", "root", "node_root", "readout", "needle")),
]
MERGED: dict[str, Merge] = {}  # by their names, joined by "+"
for _names, _neighbours, _passes in _MERGES:
    _own, *_others = (TERMS[_name] for _name in _names.split("+"))
    MERGED[_names] = Merge(_own, tuple(_others), _neighbours, _passes)
ALONG: dict[str, Neighbours] = {name: entry.along for name, entry in TERMS.items() if entry.along is not None}
FOLKLORE = {name for name, merge in MERGED.items() if merge.others[0].along is not None}
