"""A bag as a list of columns: tensors with a known space of their rows, and a known space that their values point into.

No index of a bag points from one graph to another. Every index map can therefore be split by graph, and the maps of any batch can be assembled
from the pieces: rows are concatenated, and values are shifted with the rows that they point to.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

from torch import Tensor

from reign.bags._bag import SubgraphBag
from reign.bags._graph import SharedGraph
from reign.kernels import Sum


class Column(NamedTuple):
    """The space of the rows of a tensor ("node", "pair", ...), and the space that its values point into.

    Args:
        rows: the space of the rows.
        values: the space that the values point into; None if they are not indices.
        bounds: whether the values are bounds, so that there is one more value than rows.
        ends: whether the tensor holds two such columns as its rows, like ``edge_index``.
    """

    rows: str
    values: str | None = None
    bounds: bool = False
    ends: bool = False


BAG = {
    "anchor": Column("sub", "node"),
    "sub_batch": Column("sub", "graph"),
    "row_ptr": Column("sub", "pair", True),
    "sub": Column("pair", "sub"),
    "node": Column("pair", "node"),
    "member": Column("pair"),
    "mark": Column("pair"),
}
GRAPH = {
    "x": Column("node"),
    "edge_attr": Column("edge"),
    "batch": Column("node", "graph"),
    "ptr": Column("graph", "node", True),
}
KEPT: dict[Hashable, Column] = {
    "SubgraphBag.root_row": Column("sub", "pair"),
    "Wiring.root_row": Column("sub", "pair"),
    "SubgraphBag.transpose": Column("pair", "pair"),
    "SubgraphBag.pair_batch": Column("pair", "graph"),
    "SubgraphBag.edge_row": Column("edge", "pair"),
}
Replace = Callable[[str, Tensor, Column], Tensor]


def walk(bag: SubgraphBag, change: Replace) -> SubgraphBag:
    """The same bag with every tensor replaced. Cached values are replaced if their columns are known, and dropped otherwise."""

    def tensor(name: str, value: Tensor | None, column: Column) -> Tensor | None:
        return None if value is None else change(name, value, column)

    graph = bag.graph
    ends = change("edge_index", graph.edge_index, Column("edge", "node", ends=True))
    given = {name: tensor(name, getattr(graph, name), column) for name, column in GRAPH.items()}
    shared = SharedGraph(edge_index=ends, **given)  # type: ignore[arg-type]
    own = BAG if bag.anchor.size(1) == 1 else BAG | {"anchor": Column("sub")}  # no sum reads more than one anchor
    changed = {name: tensor(name, getattr(bag, name), column) for name, column in own.items()}
    made = replace(bag, graph=shared, **changed)  # type: ignore[arg-type]
    for key, value in bag._kept.items():
        new = _kept(str(key), KEPT.get(key), value, change)
        if new is not None:
            made._kept[key] = new
    return made


def _kept(name: str, column: Column | None, value: Any, change: Replace) -> Any:
    """A cached value with all its tensors replaced; None if its columns are not known."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        return None if column is None else change(name, value, column)
    if isinstance(value, Sum):
        return _replaced(value, _spaces_of_sum(value, name), name, change)
    if isinstance(value, SubgraphBag):
        return _nested(name, value, change)
    if isinstance(value, tuple):
        parts = [_kept(f"{name}.{p}", None, part, change) for p, part in enumerate(value)]
        if any(part is None for part in parts):
            return None
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if is_dataclass(value) and hasattr(value, "spaces"):
        return _replaced(value, value.spaces(name), name, change)
    return None


def _nested(name: str, bag: SubgraphBag, change: Replace) -> SubgraphBag:
    """A bag cached by another bag: each graph as a bag with one subgraph, so that its subgraphs are graphs and its pairs are nodes."""
    known = {"sub": "graph", "pair": "node", "graph": "graph", "node": "node", "edge": "edge", None: None}

    def inside(field: str, value: Tensor, column: Column) -> Tensor:
        rows, values = (known.get(space, f"{name}/{space}") for space in column[:2])
        assert rows is not None
        return change(f"{name}/{field}", value, Column(rows, values, column.bounds, column.ends))

    assert bag.num_subgraphs == bag.num_graphs
    assert bag.num_pairs == bag.num_nodes
    return walk(bag, inside)


def _replaced(value: Any, spaces: dict[str, Any], name: str, change: Replace) -> Any:
    parts = {f.name: getattr(value, f.name) for f in fields(value)}
    new = {
        field: change(f"{name}.{field}", part, Column(*spaces[field])) if isinstance(part, Tensor) else part
        for field, part in parts.items()
    }
    return type(value)(**new)


def _spaces_of_sum(value: Sum, name: str) -> dict[str, Column]:
    entries = value.target if value.ptr is None else f"{name}>"
    entries_t = value.source if value.ptr_t is None else f"{name}<"
    return {
        "index": Column(entries, value.source),
        "ptr": Column(value.target, entries, True),
        "index_t": Column(entries_t, value.target),
        "ptr_t": Column(value.source, entries_t, True),
    }


def all_columns(bag: SubgraphBag) -> Iterator[tuple[str, Tensor, Column]]:
    """Every tensor of a bag, with its name and its column."""
    found: list[tuple[str, Tensor, Column]] = []

    def note(name: str, value: Tensor, column: Column) -> Tensor:
        found.append((name, value, column))
        return value

    walk(bag, note)
    return iter(found)
