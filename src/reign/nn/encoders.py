"""Encoders of what a user's features are: numbers, types, or columns of types as OGB has them."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

# how many values each integer column of OGB's molecules can take
OGB_ATOM = [119, 5, 12, 12, 10, 6, 6, 2, 2]
OGB_BOND = [5, 6, 2]

EncoderSpec = None | int | list[int] | str | nn.Module | Callable[[int], nn.Module]


class TypeEmbedding(nn.Module):
    """A learned vector for each type; several columns of types are summed.

    Args:
        num_types: how many types there are, in each column.
        channels: size of the vectors.
    """

    def __init__(self, num_types: list[int], channels: int) -> None:
        super().__init__()
        self.columns = nn.ModuleList([nn.Embedding(number, channels) for number in num_types])

    def forward(self, x: Tensor) -> Tensor:
        """Types of shape (rows, columns), or (rows,), as vectors."""
        x = x.long().view(x.size(0), -1)
        if x.size(1) != len(self.columns):
            raise ValueError(f"the encoder has {len(self.columns)} columns of types, got features of shape {tuple(x.shape)}.")
        return torch.stack([embed(x[:, c]) for c, embed in enumerate(self.columns)]).sum(0)


def make_encoder(spec: EncoderSpec, in_channels: int | None, channels: int) -> nn.Module | None:
    """An encoder to ``channels``.

    Args:
        spec: a number of types, a list of numbers (one per column), "atom" or "bond" (OGB's columns), a module, or a function
            that makes one for a number of channels. None: a linear map of ``in_channels`` numbers.
        in_channels: of the features, if they are numbers; None leaves them alone.
        channels: of the result.
    """
    if isinstance(spec, nn.Module):
        return spec
    if spec == "atom":
        return TypeEmbedding(OGB_ATOM, channels)
    if spec == "bond":
        return TypeEmbedding(OGB_BOND, channels)
    if isinstance(spec, bool | str):
        raise ValueError(f"encoder is {spec!r}, expected a number of types, a list of them, 'atom', 'bond' or a module.")
    if isinstance(spec, int):
        return TypeEmbedding([spec], channels)
    if isinstance(spec, list | tuple):
        return TypeEmbedding(list(spec), channels)
    if callable(spec):
        return spec(channels)
    return None if in_channels is None else nn.Linear(in_channels, channels)
