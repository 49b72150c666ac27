"""Encoders of edge features inside base encoders."""

from jaxtyping import Float
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
