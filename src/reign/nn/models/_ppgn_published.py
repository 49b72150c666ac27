"""Provably powerful graph networks (Maron et al. 2019) as their authors published them."""

from collections.abc import Sequence
from functools import partial
from typing import Literal, Unpack

from reign._validate import check
from reign.nn._catalogue import MODELS
from reign.nn._encoders import EncoderSpec
from reign.nn._mlp import Activation
from reign.nn._options import LayerOptions
from reign.nn.models._tensor_published import TensorPublished, TensorPublishedOptions, Tensors
from reign.nn.models._tensors import PPGN, PPGNBlock


@MODELS.register("ppgnpublished", "PPGN (published)")
class PPGNPublished(TensorPublished):
    """PPGN as published: activations after all layers of the MLPs, a plain product, and max pooling on and off the diagonal.

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of blocks.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        widths: numbers of channels of the blocks; if not given, all have ``hidden_channels``.
        depth: number of layers of the MLPs.
        suffix: how predictions are made: by a linear map of all blocks ("new"), or by an MLP of the last block ("old").
        head_channels: numbers of hidden channels of the MLP at the end.
        tensor, edge_dim, edge_encoder, act: see ``TensorPublished``.
        options: see ``TensorPublishedOptions``.
    """

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
