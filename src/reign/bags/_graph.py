"""The graph that all subgraphs share: a PyG batch of graphs, with its edges in CSR form, and the edges of all subgraphs.

The graph and its bags have a cache: index maps and sums are computed on first use and then stored. A ``Cached`` stores the values that
are computed through its method ``cache``, and ``@cached`` turns a method into a cached property.
Values are computed outside inference mode, so that they can be used in training even if they were first needed in inference mode. Copies
and pickles hold the same values; an object with other fields (``dataclasses.replace``, ``bag.to(device)``) computes its own.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from reign._validate import check_shapes, check_values
from reign.kernels import ragged

if TYPE_CHECKING:
    from reign.bags._bag import SubgraphBag

# -- the cache -----------------------------------------------------------------------------------------------------------------

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Cached:
    """An object with a cache.

    >>> thing = Cached()
    >>> thing.cache("answer", lambda: 6 * 7), thing.cache("answer", lambda: 1 / 0)
    (42, 42)
    """

    _cache: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)
    _sealed: list[bool] = field(default_factory=list, init=False, repr=False)

    def cache(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value stored under this key; if there is none, it is computed and stored."""
        if key not in self._cache:
            if self._sealed:
                raise RuntimeError(f"{key} was not prepared for a bag of fixed sizes")
            with torch.inference_mode(False):
                self._cache[key] = make()
        return cast(T, self._cache[key])

    def seal(self) -> None:
        """Forbid new values from now on. Stored values are updated in place, but new ones would not be."""
        self._sealed.append(True)


def cached(method: Callable[[Any], T]) -> T:
    """A property whose value is computed once, and stored under the full name of the method."""
    key = method.__qualname__

    def get(self: Any) -> T:
        return self.cache(key, lambda: method(self))

    return cast(T, property(get, doc=method.__doc__))


@dataclass(frozen=True, eq=False)
class Bound:
    """A stored upper bound of something in the graphs of a bag; for several bags together, the largest of their bounds applies."""

    value: int

    def spaces(self, name: str) -> dict[str, tuple[str, str | None, bool]]:
        """A bound has no rows."""
        return {}


@dataclass(frozen=True, eq=False)
class PerRow:
    """Stored values with one row for each node, subgraph ("sub"), pair or graph of a bag."""

    values: Tensor
    rows: str

    def spaces(self, name: str) -> dict[str, tuple[str, str | None, bool]]:
        """The space of the rows. The values are not indices."""
        return {"values": (self.rows, None, False)}


# -- the graph -----------------------------------------------------------------------------------------------------------------


class CSR(NamedTuple):
    """For every node i the neighbours ``node[ptr[i]:ptr[i + 1]]``, and the ids of the edges to them."""

    ptr: Int[Tensor, "bounds"]
    node: Int[Tensor, "entries"]
    edge: Int[Tensor, "entries"]

    def expand(self, node: Int[Tensor, "rows"]) -> tuple[Tensor, Tensor, Tensor]:
        """All entries of the given nodes: the position of the node in the input, the neighbour, and the edge between them."""
        row, entry = ragged.ranges(self.ptr[node], self.ptr[node + 1] - self.ptr[node])
        return row, self.node[entry], self.edge[entry]


@dataclass(frozen=True, eq=False)
class SharedGraph(Cached):
    """A batch of graphs. Directed edges, self-loops and parallel edges have the same meaning as in PyG."""

    x: Shaped[Tensor, "nodes *channels"]
    edge_index: Int[Tensor, "2 edges"]
    edge_attr: Shaped[Tensor, "edges *edge_channels"] | None
    batch: Int[Tensor, "nodes"]
    ptr: Int[Tensor, "bounds"]

    @classmethod
    def build(
        cls,
        x: Any,
        edge_index: Any,
        edge_attr: Any = None,
        batch: Any = None,
        batch_size: int | None = None,
    ) -> "SharedGraph":
        """Check the user's input, and make the graph. ``batch_size`` is needed only if the last graphs have no nodes."""
        check_shapes(x, edge_index, edge_attr, batch)
        if x.device.type == "cpu":
            check_values(x, edge_index, edge_attr, batch)
        if batch is None:
            batch = edge_index.new_zeros(x.size(0))
            graphs = 1
        else:
            graphs = int(batch[-1]) + 1 if batch.numel() else 0
        if batch_size is not None and (type(batch_size) is not int or batch_size < graphs):
            raise ValueError(
                f"batch_size is {batch_size!r}, expected a whole number of at least {graphs}, because batch has the graph {graphs - 1}."
            )
        if max(graphs, batch_size or 0) > 10_000_000 + x.size(0):
            raise ValueError(
                f"batch or batch_size gives {max(graphs, batch_size or 0):,} graphs for {x.size(0):,} nodes, expected ids without "
                "large gaps; renumber them with batch.unique(return_inverse=True)[1]."
            )
        sizes = torch.bincount(batch, minlength=graphs if batch_size is None else batch_size)
        return cls(x, edge_index, edge_attr, batch, ragged.offsets(sizes))

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor, int]:
        """The arguments of a model: x, edge_index, edge_attr, batch and batch_size."""
        return self.x, self.edge_index, self.edge_attr, self.batch, self.num_graphs

    @property
    def num_nodes(self) -> int:
        """The number of nodes in the whole batch."""
        return self.x.size(0)

    @property
    def num_graphs(self) -> int:
        """The number of graphs in the batch, including those without nodes."""
        return self.ptr.numel() - 1

    @property
    def sizes(self) -> Int[Tensor, "graphs"]:
        """The number of nodes of each graph."""
        return self.ptr.diff()

    @cached
    def in_edges(self) -> CSR:
        """For every node i the sources j of its incoming edges j -> i, which carry its messages."""
        source, target = self.edge_index
        edge = torch.argsort(target, stable=True)
        return CSR(ragged.offsets(torch.bincount(target, minlength=self.num_nodes)), source[edge], edge)

    @cached
    def neighbours(self) -> CSR:
        """For every node its distinct neighbours, regardless of the direction of edges. Hop distances use these."""
        source, target = self.edge_index
        n = max(self.num_nodes, 1)
        keep = source != target
        key = torch.cat([source * n + target, target * n + source])[keep.repeat(2)].unique()
        return CSR(ragged.offsets(torch.bincount(key // n, minlength=self.num_nodes)), key % n, key)


# -- edges of subgraphs -------------------------------------------------------------------------------------------------------


class PairEdges(NamedTuple):
    """The edges of all subgraphs, as pairs of rows: a message goes from ``source`` to ``target`` along ``edge``."""

    source: Int[Tensor, "pair_edges"]
    target: Int[Tensor, "pair_edges"]
    edge: Int[Tensor, "pair_edges"]


def pair_edges(bag: "SubgraphBag") -> PairEdges:
    """See ``SubgraphBag.pair_edges``: the edges of the graph between two members, without those that were cut."""
    target = bag.member.nonzero().squeeze(1)
    via, source_node, edge = bag.graph.in_edges.expand(bag.node[target])
    target = target[via]
    source = bag.row_within(bag.sub[target], source_node)
    keep = (source >= 0) & bag.member[source]
    if bag.cut is not None:
        n = bag.num_nodes
        ends = torch.stack([bag.node[target], source_node])
        key = (bag.sub[target] * n + ends.amin(0)) * n + ends.amax(0)
        gone = (bag.cut[:, 0] * n + bag.cut[:, 1:].amin(1)) * n + bag.cut[:, 1:].amax(1)
        keep &= ~ragged.find(gone.sort().values, key)[1]
    return PairEdges(source[keep], target[keep], edge[keep])
