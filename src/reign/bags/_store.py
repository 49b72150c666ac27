"""The bags of a whole data set. The bag of any batch is assembled from them on the device, without reading sizes back to the CPU.

Everything that a model needs from a bag (index maps, sums, counts) is computed once for all graphs, and split by graph. A ``Frame`` is a
batch of fixed sizes: a bag in which the graphs are followed by padding, as one more graph that is excluded from norms. ``Frame.fill`` writes
other graphs into it in place, so that a computation on it can be captured once and replayed.

For this a bag is a list of columns: tensors with a known space of their rows, and a known space that their values point into. No index of a bag
points from one graph to another. Every index map can therefore be split by graph, and the maps of any batch can be assembled from the pieces:
rows are concatenated, and values are shifted with the rows that they point to.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reign.bags._bag import SubgraphBag
from reign.bags._graph import Bound, SharedGraph
from reign.kernels import Gathered, Sum, gather_columns

# -- columns ------------------------------------------------------------------------------------------------------------------


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
CACHED: dict[Hashable, Column] = {
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
    other = replace(bag, graph=shared, **changed)  # type: ignore[arg-type]
    for key, value in bag._cache.items():
        new = _changed(str(key), CACHED.get(key), value, change)
        if new is not None:
            other._cache[key] = new
    return other


def _changed(name: str, column: Column | None, value: Any, change: Replace) -> Any:
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
        parts = [_changed(f"{name}.{p}", None, part, change) for p, part in enumerate(value)]
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


def all_columns(bag: SubgraphBag) -> list[tuple[str, Tensor, Column]]:
    """Every tensor of a bag, with its name and its column."""
    columns: list[tuple[str, Tensor, Column]] = []

    def note(name: str, value: Tensor, column: Column) -> Tensor:
        columns.append((name, value, column))
        return value

    walk(bag, note)
    return columns


# -- stores and frames --------------------------------------------------------------------------------------------------------

WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # integer types by their number of bytes


@dataclass(eq=False)
class _Piece:
    """A column of the whole data set: indices relative to the start of their graph, or values."""

    column: Column
    data: Tensor
    dtype: torch.dtype
    width: tuple[int, ...]


class BagStore:
    """The bags of a data set, split by graph.

    Args:
        bags: the bags of all graphs in order, a few graphs per bag. ``model.prepare`` must have been called on each.
    """

    def __init__(self, bags: Iterable[SubgraphBag]) -> None:
        parts: dict[str, list[tuple[Tensor, Tensor]]] = {}
        self.columns: dict[str, Column] = {}
        sizes: dict[str, list[Tensor]] = {}
        largest: dict[Hashable, int] = {}
        self.template: SubgraphBag | None = None
        for bag in bags:
            bounds = _Bounds(bag)
            for name, value, column in all_columns(bag):
                if name in self.columns and self.columns[name] != column:
                    raise ValueError(f"the bags of this data set differ in '{name}'.")
                self.columns[name] = column
                parts.setdefault(name, []).append((bounds.local(value, column), value[:0]))
            for space in sorted({c for column in self.columns.values() for c in (column.rows, column.values) if c is not None}):
                sizes.setdefault(space, []).append(bounds.known[space].diff())
            if len(parts) != len(self.columns) or len({len(pieces) for pieces in parts.values()}) > 1:
                raise ValueError("the bags of this data set have different cached values.")
            for key, cached in bag._cache.items():
                if isinstance(cached, Bound):
                    largest[key] = max(largest.get(key, 0), cached.value)
            self.template = bag
        assert self.template is not None
        self.template._cache.update({key: Bound(value) for key, value in largest.items()})
        self.spaces = list(sizes)
        self.sizes = torch.stack([torch.cat(sizes[space]) for space in self.spaces], dim=1).cpu()
        device = self.template.device
        self.pieces = {
            name: _Piece(
                self.columns[name],
                torch.cat([p for p, _ in pieces], dim=1 if self.columns[name].ends else 0),
                pieces[0][1].dtype,
                () if self.columns[name].ends else tuple(pieces[0][1].shape[1:]),
            )
            for name, pieces in parts.items()
        }
        nothing = self.sizes.new_zeros(1, len(self.spaces))
        self._padded_sizes = torch.cat([self.sizes, nothing])
        self._sizes = self._padded_sizes.to(device)
        self._starts = torch.cat([self.sizes.cumsum(0) - self.sizes, nothing]).to(device)

    @property
    def num_graphs(self) -> int:
        """The number of graphs."""
        return self.sizes.size(0)

    def totals(self, ids: Int[Tensor, "*batches graphs"]) -> Int[Tensor, "*batches spaces"]:
        """The sizes of batches, on the CPU: one number for each of ``spaces``. The id ``num_graphs`` stands for no graph."""
        return self._padded_sizes[ids].sum(-2)

    def largest(self, num_graphs: int) -> Int[Tensor, "spaces"]:
        """Sizes that no batch of so many graphs exceeds: the sum of the largest in each space."""
        return self.sizes.sort(0, descending=True).values[:num_graphs].sum(0)

    def frame(self, num_graphs: int, totals: Int[Tensor, "spaces"]) -> "Frame":
        """A batch of fixed sizes: at most this many graphs, and these totals."""
        return Frame(self, num_graphs, totals)


class Frame:
    """A bag of fixed sizes, into which any graphs that fit can be written.

    Args:
        store: the bags of all graphs.
        num_graphs: the largest number of graphs.
        totals: the largest total sizes, one for each space of the store.
    """

    def __init__(self, store: BagStore, num_graphs: int, totals: Int[Tensor, "spaces"]) -> None:
        assert store.template is not None
        self.store, self.num_graphs, self.totals = store, num_graphs, totals.clone()
        device = store.template.device
        padded = {space: _padded(int(total)) for space, total in zip(store.spaces, totals, strict=True)} | {"graph": num_graphs + 1}
        self.ids = torch.full((num_graphs,), store.num_graphs, dtype=torch.long, device=device)
        self.offsets = torch.zeros(num_graphs + 1, len(store.spaces), dtype=torch.long, device=device)
        self._positions: dict[str, Tensor] = {}
        self._wide: list[tuple[Tensor, Tensor, str]] = []
        self._columns: list[Gathered] = []
        number = {space: s for s, space in enumerate(store.spaces)}

        def buffer(name: str, _: Tensor, column: Column) -> Tensor:
            piece = store.pieces[name]
            rows = padded[column.rows] + (1 if column.bounds else 0)
            out = torch.zeros(*((2,) if column.ends else ()), rows, *piece.width, dtype=piece.dtype, device=device)
            if not _is_index(piece.data, column):
                raw = WHOLE.get(out[0].numel() * out.element_size()) if rows else None
                if raw is not None:  # a row of 1, 2, 4 or 8 bytes is copied as one integer
                    data = piece.data.contiguous().view(len(piece.data), -1).view(raw).view(-1)
                    self._columns.append(Gathered("value", data, out.view(rows, -1).view(raw).view(-1), number[column.rows]))
                else:
                    self._wide.append((piece.data, out, column.rows))
                return out
            target = -1 if column.values is None else number[column.values]
            fill = 0 if column.values is None else padded[column.values] - 1
            for data, part in zip(piece.data, out, strict=True) if column.ends else [(piece.data, out.view(-1))]:
                self._columns.append(Gathered("index", data, part, number[column.rows], target, column.bounds, fill))
            return out

        self.bag = walk(store.template, buffer)
        for space in {space for *_, space in self._wide}:
            self._positions[space] = torch.zeros(padded[space], dtype=torch.long, device=device)
            self._columns.append(Gathered("position", None, self._positions[space], number[space]))
        real = {space: torch.zeros(padded[space], dtype=torch.bool, device=device) for space in ("graph", "node", "sub", "pair")}
        self._columns += [Gathered("real", None, rows, number[space]) for space, rows in real.items()]
        _finish(self.bag, real)
        self._gather = gather_columns(self._columns, self.offsets, num_graphs)

    def fits(self, totals: Int[Tensor, "*batches spaces"]) -> Bool[Tensor, "*batches"]:
        """Whether batches of these sizes can be written into it."""
        return (totals <= self.totals).all(-1)

    def fill(self) -> None:
        """Write the graphs ``self.ids`` into the bag. The id ``store.num_graphs`` stands for no graph."""
        self._gather(self.ids, self.store._sizes, self.store._starts)
        for data, out, space in self._wide:
            torch.index_select(data, 0, self._positions[space], out=out)


def _padded(total: int) -> int:
    """The number of rows of a frame: at least one more, and always a multiple of 16, so that kernels, which know this, check whole tiles of rows."""
    return (total // 16 + 1) * 16


def _finish(bag: SubgraphBag, real: dict[str, Tensor]) -> None:
    """Record which rows are real, also for a bag in the cache, and forbid new cached values."""
    for space, rows in real.items():
        bag._cache["real", space] = rows
    for cached in bag._cache.values():
        if isinstance(cached, SubgraphBag):
            _finish(cached, {"graph": real["graph"], "node": real["node"], "sub": real["graph"], "pair": real["node"]})
    bag.seal()
    bag.graph.seal()


def all_real(bag: SubgraphBag) -> SubgraphBag:
    """The same bag with explicit masks that mark all rows as real, as in the bag of a ``Frame``."""
    sizes = {"graph": bag.num_graphs, "node": bag.num_nodes, "sub": bag.num_subgraphs, "pair": bag.num_pairs}
    for space, size in sizes.items():
        bag._cache["real", space] = torch.ones(size, dtype=torch.bool, device=bag.device)
    return bag


def _is_index(data: Tensor, column: Column) -> bool:
    """Whether a column is gathered as indices; so are flags of rows, which are 0 for padding."""
    return data.dtype == torch.int32 and (data.dim() == 1 or column.ends)


class _Bounds:
    """The first row of each graph in every space of a bag, and the end of the last."""

    def __init__(self, bag: SubgraphBag) -> None:
        graph = bag.graph
        graphs = torch.arange(bag.num_graphs + 1, device=bag.device)
        subs = torch.searchsorted(bag.sub_batch.contiguous(), graphs)
        edges = torch.searchsorted(graph.batch[graph.edge_index[1]].contiguous(), graphs)
        self.known = {"graph": graphs, "node": graph.ptr, "edge": edges, "sub": subs, "pair": bag.row_ptr[subs]}
        waiting = [(value[1] if column.ends else value, column) for _, value, column in all_columns(bag)]
        while unknown := [(v, c) for v, c in waiting if c.rows not in self.known or (c.bounds and c.values not in self.known)]:
            before = len(self.known)
            for value, column in unknown:
                self._learn(value, column, graphs)
            assert len(self.known) > before, unknown

    def _learn(self, value: Tensor, column: Column, graphs: Tensor) -> None:
        """Find the graphs of rows: bounds hold the start of the entries of each row; other rows belong to the graph they point to."""
        assert column.values is not None
        if column.bounds and column.rows in self.known:
            self.known[column.values] = value[self.known[column.rows]]
        elif not column.bounds and column.rows not in self.known and column.values in self.known:
            owner = torch.searchsorted(self.known[column.values].contiguous(), value.contiguous(), right=True) - 1
            if owner.numel() and bool((owner.diff() < 0).any()):
                raise ValueError(f"the rows of '{column.rows}' are not in the order of their graphs.")
            self.known[column.rows] = torch.searchsorted(owner, graphs)

    def local(self, value: Tensor, column: Column) -> Tensor:
        """A column with values counted from the first row of their graph. Indices have 32 bits."""
        if column.values is None:
            return value
        if column.ends:
            return torch.stack([self.local(end, column._replace(ends=False)) for end in value])
        rows = self.known[column.rows]
        if column.bounds:
            value = value[:-1]
        if value.dim() == 2 and value.size(1) == 1:
            value = value.squeeze(1)
        owner = torch.repeat_interleave(torch.arange(rows.numel() - 1, device=value.device), rows.diff(), output_size=value.size(0))
        return torch.where(value < 0, value, value - self.known[column.values][owner]).to(torch.int32)
