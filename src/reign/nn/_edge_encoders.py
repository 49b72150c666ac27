"""Encoders of edge features inside base encoders."""

import math

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from reign._validate import kind_of
from reign.nn._encoders import EncoderSpec, make_encoder
from reign.nn._neighbourhood import EdgeAttr


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
