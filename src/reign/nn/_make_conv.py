"""Base encoders by name, and any PyG convolution used as a base encoder."""

from collections.abc import Callable
from typing import ClassVar, Unpack

import torch
import torch_geometric.nn as pyg
from jaxtyping import Float
from torch import Tensor, nn

from reign.bags import Messages, SubgraphBag
from reign.nn._base_encoders import CONVS, BaseEncoder
from reign.nn._edge_encoders import encode_edges, make_edge_encoder
from reign.nn._encoders import EncoderSpec
from reign.nn._folklore import FOLKLORE, Folklore
from reign.nn._neighbourhood import MERGED, Neighbourhood
from reign.nn._options import BaseEncoderOptions, Conv


class Expanded(BaseEncoder):
    """Any PyG convolution, applied to the disjoint union of all subgraphs. This is slow, but works for every convolution.

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        merged: which terms are merged, one of ``MERGED``.
        make: function that makes the convolution, given the numbers of input and output channels, and ``edge_dim`` if there are edge
            features.
        edge_dim, edge_encoder: see ``MessageOptions``.
    """

    takes_edges: ClassVar[bool] = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        merged: str = "own+local",
        *,
        make: Callable[..., nn.Module],
        edge_dim: int | None = None,
        edge_encoder: EncoderSpec = None,
        **_: object,
    ) -> None:
        super().__init__(in_channels, merged)
        if len(MERGED[merged][1]) > 1:
            raise ValueError("separate weights for messages from roots need a native conv: 'gin', 'gine', 'gcn' or 'graphconv'.")
        self.with_edges = edge_dim is not None or edge_encoder is not None
        edge_dim = edge_dim or in_channels
        self.edge_encoder = make_edge_encoder(edge_encoder, None, edge_dim)
        try:
            self.conv = make(in_channels, out_channels, **({"edge_dim": edge_dim} if self.with_edges else {}))
        except (TypeError, ValueError, AssertionError) as error:
            what = "the numbers of channels and edge_dim" if self.with_edges else "the numbers of channels"
            raise ValueError(f"conv {make!r} cannot be made from {what} alone ({error}); give a function that makes it.") from None
        for layer in self.conv.modules():
            if isinstance(layer, pyg.MessagePassing):
                layer.explain = False  # its edges are those of all subgraphs, so the model sets the mask and not the explainer

    def forward(self, n: Neighbourhood) -> Float[Tensor, "rows channels"]:
        """Update all rows, and select the requested ones."""
        everywhere = n.state.bag.wiring.messages(n.neighbours)
        edge_index = torch.stack([everywhere.from_rows.index, everywhere.into_targets.index_t])
        args = [n.source, edge_index]
        if self.with_edges:
            args.append(everywhere.from_edges(encode_edges(self.edge_encoder or nn.Identity(), n.edge_attr)))
        out: Tensor = self._explained(args, everywhere, n.state.bag) if n.state.bag.edge_weight is not None else self.conv(*args)
        return out if n.where == "off" else out.index_select(0, n.state.bag.wiring.root_row)

    def _explained(self, args: list[Tensor], everywhere: Messages, bag: SubgraphBag) -> Tensor:
        """The convolution with edge weights, which PyG's layers take as a mask."""
        assert bag.edge_weight is not None
        layers = [module for module in self.conv.modules() if isinstance(module, pyg.MessagePassing)]
        for layer in layers:
            layer.explain = True
            layer._edge_mask = bag.edge_weight[everywhere.from_edges.index]
            layer._loop_mask, layer._apply_sigmoid = args[1][0] != args[1][1], False
        try:
            out: Tensor = self.conv(*args)
        finally:
            for layer in layers:
                layer.explain, layer._edge_mask = False, None
        return out


def make_conv(conv: Conv, in_channels: int, out_channels: int, merged: str, **options: Unpack[BaseEncoderOptions]) -> BaseEncoder:
    """Make a base encoder: one of ours by name, or any PyG convolution by its class or class name.

    Args:
        conv: a name, a class, or a function that makes a PyG convolution.
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        merged: which terms are merged, one of ``MERGED``.
        options: see ``BaseEncoderOptions``.
    """
    if merged in FOLKLORE:
        if str(conv).lower() not in ("gin", "gine"):
            raise ValueError(f"'{merged}' needs conv='gin', got conv={conv!r}.")
        return Folklore(in_channels, out_channels, merged, **options)
    has_edges = options.get("edge_dim") is not None or options.get("edge_encoder") is not None
    if isinstance(conv, str) and conv in CONVS:
        kind = CONVS[conv]
        if has_edges and not kind.takes_edges:
            raise ValueError(f"conv '{conv}' takes no edge features, got edge_dim or edge_encoder; use conv='gin'.")
        if conv.lower() == "gine" and not has_edges:
            raise ValueError("conv 'gine' needs edge features: give edge_dim or edge_encoder, or use conv='gin'.")
        ours: Callable[..., BaseEncoder] = kind
        return ours(in_channels, out_channels, merged, **options)
    if isinstance(conv, nn.Module):
        raise ValueError(
            f"conv is the module {conv!r}, expected its class or a function, because every layer makes its own module."
        )
    make = getattr(pyg, conv, None) if isinstance(conv, str) else conv
    if not callable(make) or (isinstance(conv, str) and not (isinstance(make, type) and issubclass(make, nn.Module))):
        raise ValueError(f"conv is '{conv}', expected {', '.join(map(repr, CONVS))}, a class of torch_geometric.nn or its name.")
    if not options.get("bias", True):
        raise ValueError(f"conv {conv!r} has its own biases; for a layer without biases use {', '.join(map(repr, CONVS))}.")
    return Expanded(in_channels, out_channels, merged, make=make, **options)
