"""Invariant graph networks: stacks of linear equivariant layers between tensors.

An orbit of [n]^k under permutations is an equality pattern of k indices, written with letters: "aab" are the entries (i, i, j)
with i != j. Every linear equivariant map is a combination of maps that read one orbit, sum over some of its indices (Pool), and
copy the result to another orbit (Broad). For example, ``"acc->abb"`` sums x[a, c, c] over c != a and writes the sum to [a, b, b]. Their
number for orders k and l is the number of partitions of a set of k + l elements, the Bell number: 2, 5, 15, 52, 203 for k + l = 2, ..., 6.
"""

from abc import abstractmethod
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import combinations, permutations
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch_geometric.data import Data

from reign.nn import Activation, make_act

# -- orbits, and the maps between them ----------------------------------------------------------------------------------------

LETTERS = "abcdefghij"  # as many as the largest sum of two orders: a map of the basis may need a letter for each index


@cache
def orbits(order: int) -> tuple[str, ...]:
    """The equality patterns of ``order`` indices, as letters in the order of first appearance.

    >>> orbits(2)
    ('aa', 'ab')
    >>> orbits(3)
    ('aaa', 'aab', 'aba', 'abb', 'abc')
    """
    _check_orders(order)
    patterns = [""]
    for _ in range(order):
        patterns = [p + letter for p in patterns for letter in LETTERS[: len(set(p)) + 1]]
    return tuple(sorted(patterns))


@cache
def basis(order_in: int, order_out: int) -> tuple[str, ...]:
    """All pooling-broadcasting maps between tensors of two orders, as strings "source->target".

    >>> basis(1, 1)
    ('b->a', 'a->a')
    >>> [len(basis(k, l)) for k, l in ((3, 3), (3, 4), (4, 4))]
    [203, 877, 4140]
    """
    _check_orders(order_in, order_out)
    return tuple(
        f"{relabelled}->{target}"
        for target in orbits(order_out)
        for source in orbits(order_in)
        for relabelled in _relabelled(source, sorted(set(target)))
    )


def _check_orders(*orders: int) -> None:
    """Raise ``ValueError`` unless the orders are whole numbers from 0, with a sum that there are letters for."""
    if any(type(order) is not int or order < 0 for order in orders) or sum(orders) > len(LETTERS):
        raise ValueError(
            f"orders are {' and '.join(str(order) for order in orders)}, expected whole numbers from 0 whose sum is at most {len(LETTERS)}, "
            "for which there are already 115,975 maps."
        )


def _relabelled(source: str, targets: list[str]) -> Iterator[str]:
    """Every way to identify some letters of a source orbit with letters of the target. The others get new letters."""
    letters = sorted(set(source))
    fresh = [c for c in LETTERS if c not in targets]
    for number in range(min(len(letters), len(targets)) + 1):
        for kept in combinations(letters, number):
            for images in permutations(targets, number):
                names = dict(zip(kept, images, strict=True))
                names |= dict(zip([c for c in letters if c not in kept], fresh, strict=False))
                yield "".join(names[c] for c in source)


def pool_broadcast(x: Float[Tensor, "*nodes channels"], op: str) -> Float[Tensor, "*targets channels"]:
    """Apply one map of the basis to a tensor of shape (n, ..., n, channels).

    >>> x = torch.arange(9.0).view(3, 3, 1)
    >>> pool_broadcast(x, "ab->a").flatten()          # sums over the row, without the diagonal
    tensor([ 3.,  8., 13.])
    """
    source, target = op.split("->")
    n, channels = x.size(0) if x.dim() > 1 else 0, x.size(-1)
    letters = sorted(set(source))
    values = torch.einsum(f"{source}z->{''.join(letters)}z", x) if source else x
    values = values * _distinct(len(letters), n, x.dtype)
    kept = [c for c in letters if c in target]
    if len(kept) < len(letters):
        values = torch.einsum(f"{''.join(letters)}z->{''.join(kept)}z", values)
    free = sorted(set(target))
    if not free:
        return values
    if not source:
        raise ValueError("a map from order 0 needs the number of nodes; start from a tensor of at least order 1.")
    shape = [n if c in kept else 1 for c in free]
    values = values.view([*shape, channels]).expand([n] * len(free) + [channels]) * _distinct(len(free), n, x.dtype)
    out = x.new_zeros([n] * len(target) + [channels])
    index = torch.meshgrid(*[torch.arange(n)] * len(free), indexing="ij")
    out[tuple(index[free.index(c)] for c in target)] = values
    return out


@lru_cache(maxsize=32)
def _distinct(number: int, n: int, dtype: torch.dtype) -> Tensor:
    """1 where all indices are different."""
    mask = torch.ones([n] * number + [1], dtype=dtype)
    for a, b in combinations(range(number), 2):
        shape = [n if d in (a, b) else 1 for d in range(number)]
        mask = mask * (1 - torch.eye(n, dtype=dtype)).view([*shape, 1])
    return mask


# -- networks -----------------------------------------------------------------------------------------------------------------


class IGNLinear(nn.Module):
    """A linear equivariant layer from tensors of one order to tensors of another.

    Args:
        order_in: 0, 1, 2, ...
        order_out: 0, 1, 2, ..., but 0 after order 0, which knows no nodes.
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        ops: the maps of the basis to use; all if not given.
    """

    def __init__(
        self, order_in: int, order_out: int, in_channels: int, out_channels: int, ops: tuple[str, ...] | None = None
    ) -> None:
        super().__init__()
        self.ops = basis(order_in, order_out) if ops is None else ops
        self.targets = orbits(order_out) if order_out else ("",)
        scale = (in_channels * max(len(self.ops) // len(self.targets), 1)) ** -0.5
        self.weight = nn.Parameter(scale * torch.randn(len(self.ops), out_channels, in_channels))
        self.bias = nn.Parameter(torch.zeros(len(self.targets), out_channels))

    def forward(self, x: Float[Tensor, "*nodes in_channels"]) -> Float[Tensor, "*targets out_channels"]:
        """Map a tensor of shape (n, ..., n, channels) to another."""
        out: Tensor | None = None
        for op, weight in zip(self.ops, self.weight, strict=True):
            if self.weight.requires_grad or bool((weight != 0).any()):
                value = pool_broadcast(x, op) @ weight.t()
                out = value if out is None else out + value
        for target, bias in zip(self.targets, self.bias, strict=True):
            if self.bias.requires_grad or bool((bias != 0).any()) or out is None:
                value = bias if target == "" else pool_broadcast(x.new_ones(x.size(0), 1), f"f->{target}") / x.size(0) * bias
                out = value if out is None else out + value
        assert out is not None
        return out


class GraphByGraph(nn.Module):
    """A module that predicts for one graph of a batch after another."""

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        edge_index: Int[Tensor, "2 edges"],
        edge_attr: Tensor | None = None,
        batch: Int[Tensor, "nodes"] | None = None,
        **_: Any,
    ) -> Float[Tensor, "rows out_channels"]:
        """Predict for all graphs of a PyG batch."""
        batch = edge_index.new_zeros(x.size(0)) if batch is None else batch
        rows = []
        for g in range(int(batch.max()) + 1):
            mine = (batch == g).nonzero().squeeze(1)
            rows.append(self.of_graph(Data(x=x[mine], edge_index=edge_index[:, batch[edge_index[0]] == g] - int(mine[0]))))
        return torch.cat(rows)

    @abstractmethod
    def of_graph(self, data: Data) -> Float[Tensor, "rows out_channels"]:
        """Predict for one graph."""


class IGN(GraphByGraph):
    """A trainable k-IGN: equivariant layers of the given orders, an invariant layer, and an MLP.

    The input is a graph as a tensor of order 2, with features on the diagonal and the adjacency off it.

    >>> IGN(1, 8, 1, orders=(2, 3, 3))(torch.ones(4, 1), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([1, 1])

    Args:
        in_channels: number of channels of node features.
        hidden_channels: number of channels of the layers.
        out_channels: number of channels of the prediction.
        orders: orders of the tensors, starting with 2 for the input.
        act: activation between layers.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        orders: tuple[int, ...] = (2, 3, 3),
        act: Activation = "relu",
    ) -> None:
        super().__init__()
        if not orders or orders[0] != 2 or max(orders) > 3 or min(orders) < 1:
            raise ValueError(f"orders are {orders}, expected 2 followed by orders from 1 to 3.")
        widths = [in_channels + 1] + [hidden_channels] * (len(orders) - 1)
        steps = zip(orders[:-1], orders[1:], widths[:-1], widths[1:], strict=True)
        self.layers = nn.ModuleList([IGNLinear(*step) for step in steps])
        self.invariant = IGNLinear(orders[-1], 0, widths[-1], hidden_channels)
        self.act = make_act(act)
        self.head = nn.Sequential(
            nn.Linear(hidden_channels, hidden_channels), make_act(act), nn.Linear(hidden_channels, out_channels)
        )

    def of_graph(self, data: Data) -> Float[Tensor, "1 out_channels"]:
        """Predict one row for a graph."""
        h = graph_tensor(data)
        for layer in self.layers:
            h = self.act(layer(h))
        out: Tensor = self.head(self.act(self.invariant(h)))
        return out[None]


def graph_tensor(data: Data) -> Float[Tensor, "n n channels"]:
    """A graph as a tensor of order 2: features on the diagonal in the first channels, the adjacency off it in the last."""
    n = data.num_nodes
    out = data.x.new_zeros(n, n, data.x.size(1) + 1)
    out[torch.arange(n), torch.arange(n), :-1] = data.x
    out[data.edge_index[1], data.edge_index[0], -1] = 1
    return out
