"""Graphs as input tensors of 2-IGN and PPGN, in the published forms."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reign._validate import check
from reign.bags import SubgraphBag
from reign.nn._encoders import EncoderSpec, make_encoder
from reign.nn._mlp import Activation
from reign.nn._model import SubgraphGNN
from reign.nn._options import DomainOptions, OuterOptions
from reign.nn._pooling import DiagonalPooling
from reign.nn.models._tensors import graph_tensor

Tensors = Literal["degrees", "distances"]
NO_PATH = 2**14  # more hops than any path has


class TensorPublishedOptions(DomainOptions, OuterOptions, total=False):
    """Options of models of tensors as published: ``DomainOptions`` and ``OuterOptions``."""


class TensorPublished(SubgraphGNN):
    r"""A model without a policy, whose input is the graph as a tensor in one of the published forms.

    "degrees": :math:`D^{-1/2} A D^{-1/2}` in every channel, and :math:`[0, x_i]` added on the diagonal. "distances": :math:`x_i` on the
    diagonal, and the hop distance (0 where there is no path), A and edge features off it.

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of layers.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        layer: function that makes a layer.
        jk, widths, head: see ``CompositionOptions``.
        tensor: form of the input tensor, "degrees" or "distances".
        edge_dim: number of channels of continuous or encoded edge features; ``in_channels`` for encoded features if not given.
        edge_encoder: encoder of edge features that are integer types; see ``make_encoder``.
        act: activation.
        options: see ``TensorPublishedOptions``.
    """

    needs_node_based = True
    takes_policy = False
    drops_input = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        layer: Callable[..., nn.Module],
        jk: Literal["cat"] | None = None,
        widths: Sequence[int] | None = None,
        head: dict[str, Any] | None = None,
        tensor: Tensors = "distances",
        edge_dim: int | None = None,
        edge_encoder: EncoderSpec = None,
        act: Activation = "relu",
        **options: Unpack[TensorPublishedOptions],
    ) -> None:
        check("tensor", tensor, tensor in ("degrees", "distances"), "'degrees' or 'distances'")
        edges = edge_dim or (0 if edge_encoder is None else in_channels)
        if edges and tensor == "degrees":
            raise ValueError("tensor='degrees' does not support edge features; leave them out, or use tensor='distances'.")
        self.tensor, self.edge_channels = tensor, edges
        options.setdefault("pooling", DiagonalPooling)
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            policy="null",
            layer=layer,
            jk=jk,
            widths=widths,
            head=head,
            act=act,
            norm=None,
            **options,
        )
        self.edge_encoder = make_encoder(edge_encoder, None, edges) if edges else None

    def lifted_channels(self) -> int:
        """The number of channels of the tensor."""
        return self.in_channels + (1 if self.tensor == "degrees" else 2 + self.edge_channels)

    def lift(self, x: Float[Tensor, "nodes in_channels"], bag: SubgraphBag) -> Float[Tensor, "pairs lifted"]:
        """Turn the graph into a tensor."""
        given, n = bag.graph.edge_attr, x.size(1)
        if self.tensor == "distances":
            encoded = given if self.edge_encoder is None or given is None else self.edge_encoder(given)
            h, hops = graph_tensor(x, bag, self.edge_channels, encoded), bag.hops(NO_PATH)
            distance = hops.masked_fill(hops > NO_PATH, 0).to(x.dtype)[:, None]
            return torch.cat([h[:, :n], distance, h[:, n:]], dim=1)
        h, wiring = graph_tensor(x, bag, 0, None), bag.wiring
        joined = h[:, n:]
        degree = wiring.to_node(joined)
        scale = torch.where(degree > 0, degree.clamp(min=1).rsqrt(), 0)
        return joined * wiring.to_sub.t(scale) * wiring.to_node.t(scale) + torch.cat([torch.zeros_like(joined), h[:, :n]], dim=1)
