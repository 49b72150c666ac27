"""Concatenated graphs in a few tensors, on any device. A batch is made by one gather, without a loop over graphs."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int, Shaped
from torch import Tensor
from torch_geometric.data import Data

from reign._validate import kind_of, validate
from reign.kernels import ragged


@dataclass(frozen=True, eq=False)
class MiniBatch:
    """The inputs of a model and a loss for some graphs. ``ids`` are the indices of the graphs in the data set."""

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor
    y: Tensor | None
    ids: Tensor

    @property
    def size(self) -> int:
        """The number of graphs."""
        return self.ids.numel()


@dataclass(frozen=True, eq=False)
class GraphPack:
    """A data set: the concatenated node and edge rows of all graphs, with node ids local to each graph, and one row of targets per graph."""

    x: Shaped[Tensor, "nodes channels"]
    edge_index: Int[Tensor, "2 edges"]
    edge_attr: Shaped[Tensor, "edges ..."] | None
    y: Shaped[Tensor, "graphs targets"] | None
    node_ptr: Int[Tensor, "ends"]
    edge_ptr: Int[Tensor, "ends"]

    @classmethod
    def of(cls, graphs: Sequence[Data]) -> "GraphPack":
        """Pack PyG graphs. All must have the same kinds of features, and targets if the first graph has targets."""
        if not graphs:
            raise ValueError("there are no graphs, expected at least one.")
        first = graphs[0]
        for g, data in enumerate(graphs):
            try:
                validate(data)
                _check_alike(data, first)
            except ValueError as error:
                raise ValueError(f"graph {g}: {error}") from None
        y = None
        if getattr(first, "y", None) is not None:
            y = torch.stack([torch.as_tensor(data.y, dtype=torch.float64).flatten() for data in graphs])
        device = first.x.device
        return cls(
            x=torch.cat([data.x for data in graphs]),
            edge_index=torch.cat([data.edge_index for data in graphs], dim=1),
            edge_attr=None if first.edge_attr is None else torch.cat([data.edge_attr for data in graphs]),
            y=y,
            node_ptr=ragged.offsets(torch.tensor([data.num_nodes for data in graphs], device=device)),
            edge_ptr=ragged.offsets(torch.tensor([data.num_edges for data in graphs], device=device)),
        )

    def __len__(self) -> int:
        return self.node_ptr.numel() - 1

    @property
    def sizes(self) -> Int[Tensor, "graphs"]:
        """The number of nodes of each graph."""
        return self.node_ptr.diff()

    def batch(self, ids: Sequence[int] | Tensor) -> MiniBatch:
        """A batch of some graphs, in this order. Without ids the batch is empty."""
        ids = torch.as_tensor(ids, dtype=torch.long, device=self.x.device)
        sizes = self.sizes[ids]
        graph, rows = ragged.ranges(self.node_ptr[ids], sizes)
        owner, edges = ragged.ranges(self.edge_ptr[ids], self.edge_ptr.diff()[ids])
        return MiniBatch(
            x=self.x[rows],
            edge_index=self.edge_index[:, edges] + ragged.offsets(sizes)[owner],
            edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
            batch=graph,
            y=None if self.y is None else self.y[ids],
            ids=ids,
        )

    def select(self, ids: Int[Tensor, "chosen"]) -> "GraphPack":
        """A pack of some graphs, in this order."""
        nodes, edges = self.sizes[ids], self.edge_ptr.diff()[ids]
        _, rows = ragged.ranges(self.node_ptr[ids], nodes)
        _, columns = ragged.ranges(self.edge_ptr[ids], edges)
        return GraphPack(
            x=self.x[rows],
            edge_index=self.edge_index[:, columns],
            edge_attr=None if self.edge_attr is None else self.edge_attr[columns],
            y=None if self.y is None else self.y[ids],
            node_ptr=ragged.offsets(nodes),
            edge_ptr=ragged.offsets(edges),
        )

    def fingerprint(self) -> str:
        """A hash of all graphs and targets, to distinguish data sets."""
        found = hashlib.sha256()
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value is not None:
                found.update(value.cpu().contiguous().numpy().tobytes())
        return found.hexdigest()[:16]

    def places(self) -> tuple[Any, ...]:
        """Where the graphs are in memory. Packs that exist at the same time and have the same places have the same graphs, perhaps with other targets."""
        values = (self.x, self.edge_index, self.edge_attr, self.node_ptr, self.edge_ptr)
        return tuple(None if value is None else (value.data_ptr(), value.shape, value.stride(), value.dtype) for value in values)

    def with_targets(self, y: Shaped[Tensor, "graphs targets"]) -> "GraphPack":
        """The same graphs with other targets."""
        return replace(self, y=y)

    def to(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> "GraphPack":
        """The pack on a device, with floating-point features and targets in a dtype."""

        def move(value: Tensor | None) -> Tensor | None:
            if value is None:
                return None
            return value.to(device, dtype if value.is_floating_point() else None)

        return GraphPack(*(move(getattr(self, name)) for name in self.__dataclass_fields__))  # type: ignore[arg-type]


def _check_alike(data: Any, first: Any) -> None:
    for name in ("x", "edge_attr", "y"):
        one, other = getattr(data, name, None), getattr(first, name, None)
        if (one is None) != (other is None):
            raise ValueError(f"{name} is {kind_of(one)}, but graph 0 has {kind_of(other)}; all graphs need the same.")
    if data.x.shape[1:] != first.x.shape[1:] or data.x.dtype != first.x.dtype:
        raise ValueError(f"x is {kind_of(data.x)}, but graph 0 has {kind_of(first.x)}; all graphs need the same columns.")
    if first.edge_attr is not None and data.edge_attr.shape[1:] != first.edge_attr.shape[1:]:
        raise ValueError(
            f"edge_attr is {kind_of(data.edge_attr)}, but graph 0 has {kind_of(first.edge_attr)}; all graphs need the same columns."
        )
    if getattr(first, "y", None) is not None:
        one, other = (torch.as_tensor(d.y).numel() for d in (data, first))
        if one != other:
            raise ValueError(
                f"y holds {one} targets, but graph 0 has {other}; every graph needs one row with the same number of targets."
            )
