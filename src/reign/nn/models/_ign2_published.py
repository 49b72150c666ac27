"""2-IGN (Maron et al. 2019) as its authors published it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, Unpack

from reign._validate import check
from reign.nn._catalogue import MODELS
from reign.nn._encoders import EncoderSpec
from reign.nn._layer import SubgraphConv
from reign.nn._mlp import Activation
from reign.nn._pooling import NodePooling, Pooling
from reign.nn._state import Aggregation
from reign.nn.models._tensor_published import TensorPublished, TensorPublishedOptions, Tensors
from reign.nn.models._tensors import IGN2

OFF = ["own", "transpose", "root", "node_root", "readout", "needle", "node_readout", "root_needle", "roots", "total"]
ON = ["own", "roots", "readout", "root_needle", "total"]


@MODELS.register("ign2published", "2-IGN (published)")
class IGN2Published(TensorPublished):
    """2-IGN as published: its 15 linear maps with two biases, means in place of sums, and max pooling on and off the diagonal.

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of layers.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        widths: numbers of channels of the layers; if not given, all have ``hidden_channels``.
        aggregation: "mean" or "sum" in all linear maps.
        suffix: how values are pooled: "max" takes maxima on and off the diagonal, "nodes" applies a layer from pairs to nodes and sums
            over nodes.
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
