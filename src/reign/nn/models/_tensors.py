"""Models whose input is the graph as a tensor, and 2-IGN (eq. 2IGN), which ReIGN(2) extends."""

from typing import Unpack

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from reign.bags import SubgraphBag
from reign.nn._catalogue import MODELS
from reign.nn._encoders import EncoderSpec, make_encoder
from reign.nn._model import SubgraphGNN
from reign.nn._options import LayerOptions, TensorModelOptions
from reign.nn._pooling import IGNPooling
from reign.nn.models._reign2 import IGN2_OFF, IGN2_ON, ReIGN2Conv


class TensorGNN(SubgraphGNN):
    """A model without a policy, whose input is the graph as a tensor: x[i] on the diagonal, [A, edge features] off it.

    Args:
        edge_dim: number of channels of continuous or encoded edge features; ``in_channels`` for encoded features if not given.
        edge_encoder: encoder of edge features that are integer types; see ``make_encoder``.
    """

    needs_node_based = True
    takes_policy = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        edge_dim: int | None = None,
        edge_encoder: EncoderSpec = None,
        **options: Unpack[TensorModelOptions],
    ) -> None:
        self.edge_channels = edge_dim or (0 if edge_encoder is None else in_channels)
        options.setdefault("pooling", IGNPooling)
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy="null", layer=self.make_layer, **options)
        self.edge_encoder = make_encoder(edge_encoder, None, self.edge_channels)

    @staticmethod
    def make_layer(in_channels: int, out_channels: int, **options: Unpack[LayerOptions]) -> nn.Module:
        """Make a layer."""
        raise NotImplementedError

    def lifted_channels(self) -> int:
        """The number of channels of nodes, plus one for the adjacency, plus the number of channels of edges."""
        return self.in_channels + 1 + self.edge_channels

    def lift(self, x: Float[Tensor, "nodes in_channels"], bag: SubgraphBag) -> Float[Tensor, "pairs lifted"]:
        """Turn the graph into a tensor: features on the diagonal, edges off it."""
        given = bag.graph.edge_attr
        return graph_tensor(
            x, bag, self.edge_channels, given if self.edge_encoder is None or given is None else self.edge_encoder(given)
        )


@MODELS.register("ign2")
class IGN2(TensorGNN):
    """2-IGN: the 15 global linear maps."""

    wl_bound = "2-WL: 2-IGNs are as strong as 2-WL (Geerts 2020), which is as strong as 1-WL"

    @staticmethod
    def make_layer(in_channels: int, out_channels: int, **options: Unpack[LayerOptions]) -> ReIGN2Conv:
        """Make a layer."""
        return ReIGN2Conv(in_channels, out_channels, terms=IGN2_OFF, root_terms=IGN2_ON, **options)


def graph_tensor(
    x: Float[Tensor, "nodes channels"],
    bag: SubgraphBag,
    edge_channels: int,
    given: Shaped[Tensor, "edges *edge_channels"] | None,
) -> Float[Tensor, "pairs lifted"]:
    """The input of 2-IGN and PPGN: ``h[i, i] = [x_i, 0, 0]`` and ``h[k, i] = [0, A_ki, e_ki]``."""
    edge = x.new_ones(bag.graph.edge_index.size(1), 1)
    if edge_channels:
        if given is None or given.dim() != 2 or given.size(1) != edge_channels or not given.is_floating_point():
            shape = None if given is None else (tuple(given.shape), given.dtype)
            raise ValueError(f"edge_attr is {shape}, expected floating-point numbers of shape (edges, {edge_channels}).")
        edge = torch.cat([edge, given], dim=1)
    nodes = torch.cat([x, x.new_zeros(x.size(0), edge.size(1))], dim=1)
    edges = torch.cat([edge.new_zeros(edge.size(0), x.size(1)), edge], dim=1)
    return with_edges(on_diagonal(nodes, bag), edges, bag)


def on_diagonal(nodes: Float[Tensor, "nodes channels"], bag: SubgraphBag) -> Float[Tensor, "pairs channels"]:
    """Vectors of nodes on the diagonal, and zeros elsewhere."""
    return nodes.new_zeros(bag.num_pairs, nodes.size(1)).index_copy(0, bag.root_row, nodes)


def with_edges(
    h: Float[Tensor, "pairs channels"], edges: Float[Tensor, "edges channels"], bag: SubgraphBag
) -> Float[Tensor, "pairs channels"]:
    """Values of pairs, with the vectors of edges added at their places."""
    if bag.edge_weight is not None:
        edges = edges * bag.edge_weight.to(edges.dtype)[:, None]
    dtype = torch.promote_types(h.dtype, edges.dtype)  # in mixed precision they may differ
    return h.to(dtype).index_add(0, bag.edge_row, edges.to(dtype))
