"""Encoders of edge features inside of base encoders."""

from jaxtyping import Float
from torch import Tensor, nn

from reign._validate import kind_of
from reign.nn._encoders import EncoderSpec, make_encoder
from reign.nn._neighbourhood import EdgeAttr


def make_edge_encoder(spec: EncoderSpec, edge_dim: int | None, channels: int) -> nn.Module | None:
    """Make an encoder of edge features; every base encoder has one of its own.

    Args:
        spec: what edge features are; see ``make_encoder``.
        edge_dim: number of channels of edge features that are numbers.
        channels: number of channels of the result.
    """
    if isinstance(spec, nn.Module):
        raise ValueError(
            "edge_encoder is a module, but every base encoder needs one of its own, for its own number of channels; give a function that "
            "makes one, as edge_encoder=lambda channels: ..."
        )
    return make_encoder(spec, edge_dim, channels)


def encode_edges(encoder: nn.Module, given: EdgeAttr) -> Float[Tensor, "edges channels"]:
    """Encode edge features as vectors."""
    if given is None:
        raise ValueError("this model was made for edge features (edge_dim or edge_encoder), got edge_attr=None.")
    if isinstance(encoder, nn.Linear) and (
        not given.is_floating_point() or given.dim() != 2 or given.size(1) != encoder.in_features
    ):
        raise ValueError(
            f"edge_attr is {kind_of(given)}, expected floating-point numbers of shape (edges, {encoder.in_features}); for types give "
            "edge_encoder=<their number>."
        )
    return encoder(given)
