"""2-IGN (Maron et al. 2019) and provably powerful graph networks as their authors published them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reign._validate import check
from reign.bags import SubgraphBag
from reign.nn._conv import SubgraphConv
from reign.nn._encoders import EncoderSpec, make_encoder
from reign.nn._mlp import Activation
from reign.nn._model import MODELS
from reign.nn._options import DomainOptions, LayerOptions, OuterOptions
from reign.nn._pooling import Pooling
from reign.nn._state import Aggregation
from reign.nn._subgraph_gnn import SubgraphGNN
from reign.nn._tensor_pooling import DiagonalPooling, NodePooling
from reign.nn.models._ign2 import IGN2, graph_tensor
from reign.nn.models._ppgn import PPGN, PPGNBlock

Tensors = Literal["degrees", "distances"]
OFF = ["own", "transpose", "root", "node_root", "readout", "needle", "node_readout", "root_needle", "roots", "total"]
ON = ["own", "roots", "readout", "root_needle", "total"]
NO_PATH = 2**14  # more hops than any path here has


class TensorPublishedOptions(DomainOptions, OuterOptions, total=False):
    """Options of models of tensors as published: ``DomainOptions`` and ``OuterOptions``."""


class TensorPublished(SubgraphGNN):
    r"""A model without a policy, which takes a graph as a tensor in one of the published ways.

    "degrees": :math:`D^{-1/2} A D^{-1/2}` in every channel, and :math:`[0, x_i]` added on the diagonal. "distances": :math:`x_i` on the
    diagonal, and the hop distance (0 where there is no path), A and edge features off it.

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of layers.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        layer: makes a layer.
        jk, widths, head: see ``CompositionOptions``.
        tensor: how a graph is taken, "degrees" or "distances".
        edge_dim: number of channels of edge features that are numbers, or of encoded ones; ``in_channels`` for these if not given.
        edge_encoder: encoder of edge features that are types; see ``make_encoder``.
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
            raise ValueError("tensor='degrees' has no place for edge features; leave them out, or use tensor='distances'.")
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
        """Take the graph to a tensor."""
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


@MODELS.register("ppgnpublished", "PPGN (published)")
class PPGNPublished(TensorPublished):
    """PPGN as published: activations after all layers of the MLPs, a plain product, largest values on and off the diagonal.

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of blocks.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        widths: numbers of channels of the blocks; if not given, all have ``hidden_channels``.
        depth: number of layers of the MLPs.
        suffix: what predicts: a linear map of all blocks ("new"), or an MLP of the last ("old").
        head_channels: numbers of hidden channels of the MLP at the end.
        tensor, edge_dim, edge_encoder, act: see ``TensorPublished``.
        options: see ``TensorPublishedOptions``.
    """

    takes_padding = False
    wl_bound = PPGN.wl_bound

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        widths: Sequence[int] | None = None,
        depth: int = 2,
        suffix: Literal["new", "old"] = "old",
        head_channels: Sequence[int] = (512, 256),
        tensor: Tensors = "distances",
        edge_dim: int | None = None,
        edge_encoder: EncoderSpec = None,
        act: Activation = "relu",
        **options: Unpack[TensorPublishedOptions],
    ) -> None:
        check("suffix", suffix, suffix in ("new", "old"), "'new' or 'old'")
        new = suffix == "new"
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            layer=partial(_block, depth),
            widths=widths,
            jk="cat" if new else None,
            head={"hidden": [] if new else list(head_channels)},
            tensor=tensor,
            edge_dim=edge_dim,
            edge_encoder=edge_encoder,
            act=act,
            **options,
        )


def _block(depth: int, in_channels: int, out_channels: int, **options: Unpack[LayerOptions]) -> PPGNBlock:
    return PPGNBlock(in_channels, out_channels, depth=depth, act=options["act"])


@MODELS.register("ign2published", "2-IGN (published)")
class IGN2Published(TensorPublished):
    """2-IGN as published: its 15 linear maps with two biases, means in place of sums, largest values on and off the diagonal.

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of layers.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        widths: numbers of channels of the layers; if not given, all have ``hidden_channels``.
        aggregation: "mean" or "sum" in all linear maps.
        suffix: what is pooled: largest values on and off the diagonal ("max"), or the sum over nodes of a layer from pairs to nodes ("nodes").
        pooled_channels: number of channels of that layer from pairs to nodes.
        head_channels: numbers of hidden channels of the MLP at the end.
        linear: whether the layers have no activation, as in the port to PyTorch, and only the head has one.
        log_softmax: whether predictions are log-probabilities of classes.
        tensor, edge_dim, edge_encoder, act: see ``TensorPublished``.
        options: see ``TensorPublishedOptions``.
    """

    wl_bound = IGN2.wl_bound

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        widths: Sequence[int] | None = None,
        aggregation: Aggregation = "mean",
        suffix: Literal["max", "nodes"] = "max",
        pooled_channels: int | None = None,
        head_channels: Sequence[int] = (512, 256),
        linear: bool = False,
        log_softmax: bool = False,
        tensor: Tensors = "distances",
        edge_dim: int | None = None,
        edge_encoder: EncoderSpec = None,
        act: Activation = "relu",
        **options: Unpack[TensorPublishedOptions],
    ) -> None:
        check("suffix", suffix, suffix in ("max", "nodes"), "'max' or 'nodes'")
        check("aggregation", aggregation, aggregation in ("sum", "mean"), "'sum' or 'mean'")
        how: dict[str, Aggregation] = dict.fromkeys(OFF[4:], aggregation)
        if suffix == "nodes":
            pooling: Callable[[int], Pooling] = partial(NodePooling, terms=ON, out_channels=pooled_channels, aggregation=how)
            options.setdefault("pooling", pooling)
        layer = partial(SubgraphConv, terms=OFF, root_terms=ON, roots="added", transform="linear", bias="first", aggregation=how)
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            layer=partial(layer, end_act=not linear),
            widths=widths,
            head={"hidden": list(head_channels), "log_softmax": log_softmax},
            tensor=tensor,
            edge_dim=edge_dim,
            edge_encoder=edge_encoder,
            act=act,
            **options,
        )
