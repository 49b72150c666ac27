"""Encoders of features of nodes and edges: continuous numbers, integer types, or several columns of types as in OGB."""

import math
import re
from numbers import Integral
from typing import Any, cast

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from reign._validate import kind_of
from reign.nn._mlp import BatchNorm, NormRows, Resettable, normalise

# the number of values of each integer column of OGB's molecules
OGB_ATOM = [119, 5, 12, 12, 10, 6, 6, 2, 2]
OGB_BOND = [5, 6, 2]

EncoderSpec = Any  # see make_encoder
EdgeAttr = Shaped[Tensor, "edges *edge_channels"] | None
FAR = 10.0  # deviations beyond which numbers are not distinguished


class TypeEmbedding(Resettable):
    """A learned vector for each type. With several columns of types, their vectors are summed.

    Args:
        num_types: number of types in each column.
        channels: number of channels of the vectors.
    """

    def __init__(self, num_types: list[int], channels: int) -> None:
        super().__init__()
        self.columns = nn.ModuleList([nn.Embedding(number, channels) for number in num_types])

    def forward(self, x: Shaped[Tensor, "rows *columns"]) -> Float[Tensor, "rows channels"]:
        """Encode types of shape (rows, columns), or (rows,), as vectors."""
        x = _types(x, self.sizes)
        return _add([lookup(weight, x[:, c]) for c, weight in enumerate(self._tables())])

    @property
    def sizes(self) -> list[int]:
        """The number of types in each column."""
        return [weight.size(0) for weight in self._tables()]

    def many_hot(self, x: Shaped[Tensor, "rows *columns"]) -> Float[Tensor, "rows types"]:
        """Types as vectors with a one for each column; ``of_many_hot`` encodes them."""
        sizes = self.sizes
        x = _types(x, sizes)
        return torch.cat([x[:, c, None] == torch.arange(size) for c, size in enumerate(sizes)], dim=1).to(self._tables()[0].dtype)

    def of_many_hot(self, hot: Float[Tensor, "rows types"]) -> Float[Tensor, "rows channels"]:
        """Encode types given by ``many_hot``: a product, for a few rows that are encoded many times.

        >>> encoder, x = TypeEmbedding([3, 2], 4), torch.tensor([[2, 0], [1, 1]])
        >>> torch.allclose(encoder.of_many_hot(encoder.many_hot(x)), encoder(x))
        True
        """
        return hot @ torch.cat(self._tables())

    def _tables(self) -> list[Tensor]:
        return [cast(nn.Embedding, column).weight for column in self.columns]


class TypesAndNumbers(Resettable):
    """Columns of types, then columns of numbers, which go through a linear map; both are summed.

    Numbers are scaled with a mean and a deviation that are kept with the weights. A number that is NaN counts as the mean.

    Args:
        num_types: number of types in each column of types.
        numbers: number of columns of numbers.
        channels: number of channels of the result.
    """

    mean: Float[Tensor, "numbers"]
    deviation: Float[Tensor, "numbers"]

    def __init__(self, num_types: list[int], numbers: int, channels: int) -> None:
        super().__init__()
        self.types = TypeEmbedding(num_types, channels)
        self.lin = nn.Linear(numbers, channels)
        self.register_buffer("mean", torch.zeros(numbers))
        self.register_buffer("deviation", torch.ones(numbers))

    def fit(self, x: Shaped[Tensor, "rows columns"]) -> None:
        """Take the scale from these rows, which have types in their first columns."""
        values = x[:, len(self.types.columns) :].double()
        known = ~values.isnan()
        count = known.sum(0).clamp(min=1)
        mean = values.nan_to_num().sum(0) / count
        spread = ((values - mean).nan_to_num().square().sum(0) / count).sqrt()
        self.mean.copy_(mean)
        self.deviation.copy_(torch.where(spread > 0, spread, torch.ones_like(spread)))

    def reset_own(self) -> None:
        """Forget the scale."""
        self.mean.zero_()
        self.deviation.fill_(1)

    def forward(self, x: Shaped[Tensor, "rows columns"]) -> Float[Tensor, "rows channels"]:
        """Encode rows of types and numbers."""
        first, numbers = len(self.types.columns), self.mean.numel()
        if x.size(1) != first + numbers:
            raise ValueError(f"features have {x.size(1)} columns, expected {first} of types and {numbers} of numbers.")
        scaled = ((x[:, first:] - self.mean) / self.deviation).clamp(-FAR, FAR).nan_to_num()
        return self.types(x[:, :first]) + self.lin(scaled.to(self.lin.weight.dtype))


class NormedNumbers(Resettable):
    """Columns of numbers as vectors: a linear map, batch norm and ReLU.

    Args:
        numbers: number of columns.
        channels: number of channels of the result.
    """

    def __init__(self, numbers: int, channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(numbers, channels, bias=False)
        self.norm = BatchNorm(channels)

    def forward(self, x: Shaped[Tensor, "rows *numbers"], rows: NormRows = None) -> Float[Tensor, "rows channels"]:
        """Encode numbers; the statistics of the norm are taken over ``rows`` only."""
        if x.dim() != 2 or x.size(1) != self.lin.in_features or not x.is_floating_point():
            raise ValueError(f"features are {kind_of(x)}, expected floating-point numbers of shape (rows, {self.lin.in_features}).")
        return normalise(self.norm, self.lin(x.to(self.lin.weight.dtype)), rows).relu()


class OneHot(Resettable):
    """Types as unit vectors, with nothing to learn.

    Args:
        channels: number of types.
    """

    like: Float[Tensor, "0"]

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.register_buffer("like", torch.zeros(0), persistent=False)  # has the dtype and device of the model

    def forward(self, x: Shaped[Tensor, "rows *columns"]) -> Float[Tensor, "rows channels"]:
        """Encode types of shape (rows, 1) or (rows,)."""
        types = torch.arange(self.channels, device=x.device)
        return (_types(x, [self.channels]) == types).to(self.like.dtype)


class _Lookup(torch.autograd.Function):
    """Rows of a small table. The gradient is a product with the one-hot types: it is deterministic, and needs no size from the device."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, types: Tensor) -> Tensor:
        ctx.save_for_backward(types)
        ctx.number = table.size(0)
        return table.index_select(0, types)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (types,) = ctx.saved_tensors
        one_hot = types[None, :] == torch.arange(ctx.number, device=types.device)[:, None]
        return one_hot.to(g.dtype) @ g, None


def lookup(table: Float[Tensor, "types channels"], types: Int[Tensor, "rows"]) -> Float[Tensor, "rows channels"]:
    """The vector of each type. On a GPU the lookup can be captured in a CUDA graph; elsewhere it is that of ``nn.Embedding``."""
    if table.is_cuda:
        out: Tensor = _Lookup.apply(table, types)  # type: ignore[no-untyped-call]
        return out
    return nn.functional.embedding(types, table)


def _types(x: Shaped[Tensor, "rows *columns"], sizes: list[int]) -> Int[Tensor, "rows columns"]:
    """Types as integers, one column for each size. On the CPU, types out of range raise ``ValueError``; on a GPU they are not checked."""
    if x.is_floating_point() and x.device.type == "cpu" and bool((x != x.round()).any()):
        raise ValueError(f"types must be whole numbers, got {x[x != x.round()][0].item()}.")
    x = x.long().view(x.size(0), -1 if x.numel() else len(sizes))
    if x.size(1) != len(sizes):
        raise ValueError(f"the encoder has {len(sizes)} columns of types, got features of shape {tuple(x.shape)}.")
    if x.device.type == "cpu" and x.numel():
        for c, (low, high, size) in enumerate(zip(x.amin(0).tolist(), x.amax(0).tolist(), sizes, strict=True)):
            if low < 0 or high >= size:
                raise ValueError(
                    f"types in column {c} go from {low} to {high}, expected 0 to {size - 1}: the encoder has {size} types."
                )
    return x


def _add(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.stack(values).sum(0)


def make_encoder(spec: EncoderSpec, in_channels: int | None, channels: int) -> nn.Module | None:
    """Make an encoder of node or edge features.

    Args:
        spec: a number of types, a list of numbers of types (one per column), "atom" or "bond" (OGB's columns), "one-hot" (as many types
            as channels), "atom+12" (OGB's columns of atoms, then 12 columns of numbers), "numbers:2" (2 columns of numbers of nodes, with
            a norm and a ReLU), a module, or a function that makes a module for a number of channels. None stands for a linear map of ``in_channels``
            continuous features.
        in_channels: number of channels of continuous features; with None there is no encoder for them.
        channels: number of channels of the result.
    """
    if isinstance(spec, nn.Module):
        return spec
    if spec is None:
        return None if in_channels is None else nn.Linear(in_channels, channels)
    if spec == "one-hot":
        return OneHot(channels)
    if isinstance(spec, str) and (found := re.fullmatch(r"(atom\+|numbers:)([1-9]\d{0,5})", spec)):
        number = int(found[2])
        return TypesAndNumbers(OGB_ATOM, number, channels) if found[1] == "atom+" else NormedNumbers(number, channels)
    sizes: Any = {"atom": OGB_ATOM, "bond": OGB_BOND}.get(spec, []) if isinstance(spec, str) else spec
    sizes = [sizes] if type(sizes) is not bool and isinstance(sizes, Integral) else sizes
    if isinstance(sizes, list | tuple) and sizes and all(isinstance(size, Integral) and int(size) > 0 for size in sizes):
        return TypeEmbedding([int(size) for size in sizes], channels)
    if callable(spec):
        return spec(channels)
    raise ValueError(
        f"encoder is {spec!r}, expected a number of types, a list with one number per column, 'atom', 'atom+12', 'bond', 'one-hot', "
        "'numbers:2', a module or a function."
    )


def make_edge_encoder(spec: EncoderSpec, edge_dim: int | None, channels: int) -> nn.Module | None:
    """Make an encoder of edge features. Every base encoder has its own.

    Args:
        spec: kind of edge features; see ``make_encoder``.
        edge_dim: number of channels of continuous edge features.
        channels: number of channels of the result.
    """
    if isinstance(spec, nn.Module):
        raise ValueError(
            "edge_encoder is a module, but every base encoder needs its own module with its own number of channels; give a function that "
            "makes one, as in edge_encoder=lambda channels: ..."
        )
    if isinstance(spec, str) and spec.startswith("numbers"):
        raise ValueError(f"edge_encoder is {spec!r}, which is for nodes; give the number of channels of edge features as edge_dim.")
    return make_encoder(spec, edge_dim, channels)


def encode_edges(encoder: nn.Module, given: EdgeAttr) -> Float[Tensor, "edges channels"]:
    """Encode edge features as vectors."""
    if given is None:
        raise ValueError(
            "edge_attr is None, but this model was made for edge features (edge_dim or edge_encoder); give edge_attr, or make the model "
            "without them."
        )
    if isinstance(encoder, nn.Linear) and (
        not given.is_floating_point() or given.dim() != 2 or given.size(1) != encoder.in_features
    ):
        raise ValueError(
            f"edge_attr is {kind_of(given)}, expected floating-point numbers of shape (edges, {encoder.in_features}); for integer types "
            "make the model with edge_encoder=<number of types>."
        )
    return encoder(given)


def different_rows(types: Shaped[Tensor, "edges *columns"]) -> tuple[Shaped[Tensor, "kinds *columns"], Int[Tensor, "edges"]]:
    """The different rows of types, and which of them each edge has.

    >>> rows, kind = different_rows(torch.tensor([[2, 0], [1, 7], [2, 0]]))
    >>> rows[kind].tolist()
    [[2, 0], [1, 7], [2, 0]]
    """
    if types.numel() == 0 or types.is_floating_point():
        return types, torch.arange(types.size(0), dtype=torch.int32)
    columns = types.view(types.size(0), -1)
    low = columns.amin(0)
    sizes = (columns.amax(0) - low + 1).tolist()
    steps = [math.prod(sizes[:c]) for c in range(len(sizes))]
    if math.prod(sizes) >= 2**62:  # a row as one number would not fit
        return types, torch.arange(types.size(0), dtype=torch.int32)
    key, kind = ((columns - low) * torch.tensor(steps)).sum(1).unique(return_inverse=True)
    rows = key[:, None] // torch.tensor(steps) % torch.tensor(sizes) + low
    return rows.to(types.dtype).view(-1, *types.shape[1:]), kind.to(torch.int32)
