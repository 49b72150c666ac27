"""The bag of any batch, gathered from the bags of all graphs: exactly the bag that the policy makes, with its index maps.

A ``Frame`` has fixed sizes and padding, for the GPU; a bag assembled here has neither. All indices with rows in the same places are one matrix, so
dozens of index maps take a few operations, and maps that are equal (several say which node a pair belongs to) are gathered once.
"""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from reign.bags._bag import SubgraphBag
from reign.bags._graph import Bound
from reign.bags._store import BagStore, Column, all_columns, walk

Group = tuple[int, bool]  # indices with rows of one kind; bounds are apart, because they have one row more


class Assembly:
    """Assembles the bags of batches on a CPU.

    Args:
        store: the bags of all graphs.
    """

    def __init__(self, store: BagStore) -> None:
        assert store.template is not None
        self.template = store.template
        kinds: dict[bytes, int] = {}  # spaces in which all graphs have as many rows are of one kind
        sizes = store.sizes.t()
        self._kind = {
            name: kinds.setdefault(size.numpy().tobytes(), len(kinds)) for name, size in zip(store.spaces, sizes, strict=True)
        }
        numbers = list(self._kind.values())
        self._sizes = sizes[[numbers.index(kind) for kind in range(len(kinds))]]
        self._starts = self._sizes.cumsum(1) - self._sizes
        self._values: dict[str, Tensor] = {}
        self._groups: dict[Group, _Indices] = {}
        self._places: dict[str, _Place] = {}
        for name, piece in store.pieces.items():
            column = piece.column
            if column.values is None:
                self._values[name] = piece.data
            else:
                group = self._kind[column.rows], column.bounds
                row = self._groups.setdefault(group, _Indices(column.bounds)).add(piece.data, self._kind[column.values])
                self._places[name] = _Place(group, row, column.ends, piece.dtype, piece.width)
        for indices in self._groups.values():
            indices.finish()

    def batch(self, ids: Int[Tensor, "graphs"]) -> SubgraphBag:
        """The bag of these graphs, in this order."""
        sizes = self._sizes[:, ids]
        ends = sizes.cumsum(1)
        offsets = torch.cat([ends - sizes, ends[:, -1:]], dim=1)
        rows = [_Rows(*one) for one in zip(sizes, self._starts[:, ids] - offsets[:, :-1], ends[:, -1].tolist(), strict=True)]
        gathered = {group: indices.gather(rows[group[0]], offsets.to(torch.int32)) for group, indices in self._groups.items()}
        converted: dict[_Place, Tensor] = {}

        def column(name: str, _: Tensor, about: Column) -> Tensor:
            if about.values is None:
                return self._values[name].index_select(0, rows[self._kind[about.rows]].places)
            place = self._places[name]
            if place not in converted:
                index = gathered[place.group]
                index = index[place.row : place.row + 2] if place.ends else index[place.row]
                converted[place] = index.to(place.dtype).view(*index.shape, *place.width)
            return converted[place]

        bag = walk(self.template, column)
        for key in [key for key, value in bag._cache.items() if isinstance(value, Bound | bool | int | float | str)]:
            del bag._cache[key]  # that of another batch
        return bag


def maps_of(bag: SubgraphBag) -> list[str]:
    """The names of all tensors of a bag that can be assembled. There are none if edges are cut or subgraphs have several anchors."""
    return sorted(name for name, _, _ in all_columns(bag)) if bag.cut is None and bag.anchor.size(1) == 1 else []


class _Place(NamedTuple):
    """Where an index is, and its form in a bag: both ends of edges, a number format, and perhaps columns."""

    group: Group
    row: int
    ends: bool
    dtype: torch.dtype
    width: tuple[int, ...]


class _Rows:
    """The rows of a batch in spaces of one kind: the graph of each, and its place in the data set."""

    def __init__(self, sizes: Tensor, shifts: Tensor, total: int) -> None:
        self.owner = torch.repeat_interleave(sizes, output_size=total)
        self.places = shifts.index_select(0, self.owner).add_(torch.arange(total))


class _Indices:
    """Different indices with rows of one kind, as the rows of a matrix."""

    def __init__(self, bounds: bool) -> None:
        self.bounds = bounds
        self._found: list[tuple[Tensor, int]] = []

    def add(self, data: Tensor, target: int) -> int:
        """Add indices, or the two ends of edges, that point to rows of a kind. Return their place."""
        if data.dim() == 1:
            for place, (other, kind) in enumerate(self._found):
                if kind == target and torch.equal(other, data):
                    return place
        self._found += [(one, target) for one in data.view(-1, data.size(-1))]
        return len(self._found) - (2 if data.dim() == 2 else 1)

    def finish(self) -> None:
        """Make the matrix."""
        self.data, self.targets = torch.stack([data for data, _ in self._found]), torch.tensor([kind for _, kind in self._found])
        self.nowhere = bool((self.data < 0).any())  # some rows have no index
        del self._found

    def gather(self, rows: _Rows, offsets: Tensor) -> Tensor:
        """The indices of a batch, given the first row of each graph and the end of the last, for each kind."""
        shift = offsets.index_select(0, self.targets)
        index = self.data.index_select(1, rows.places)
        moved = shift.index_select(1, rows.owner).add_(index)
        if self.nowhere:
            moved = torch.where(index < 0, index, moved)
        return torch.cat([moved, shift[:, -1:]], dim=1) if self.bounds else moved
