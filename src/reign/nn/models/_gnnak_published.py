"""GNN-As-Kernel as its authors published it (Zhao et al. 2022)."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Unpack

import reign.policies as policies
from reign.bags import Domain
from reign.nn._catalogue import MODELS
from reign.nn._model import Model, SubgraphGNN
from reign.nn._options import PublishedEdgeOptions, Residual
from reign.nn._pooling import RootPooling
from reign.nn._state import Aggregation
from reign.nn.models._ak_kernel import AKKernel, Part
from reign.nn.models._gnnak import Combine, remarked
from reign.policies import Policy


@MODELS.register("gnnakpublished", "GNN-AK (published)")
class GNNAKPublished(SubgraphGNN):
    """GNN-AK as published: residual connections in and around blocks, and a transform of the subgraph before its sum.

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of blocks.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        policy: any node-based policy.
        inner_layers: number of layers in a block.
        parts: the parts of a block, out of "centroid", "subgraph" and "context"; those of GNN-AK, -ctx or + if not given.
        combine: "cat" (and a linear map), or a plain "sum".
        aggregation: "sum" or "mean" over the nodes of a subgraph, over subgraphs, and over the nodes of the graph.
        hop_channels: number of channels of embedded hop distances; 16 in GNN-AK+ and 0 otherwise, if not given.
        remark: whether marks are added before every block, and not only before the first.
        residual: residual connections in and around blocks; see ``CompositionOptions``.
        domain: whether sums range over "members" of ego nets, as published, or over "all" nodes.
        options: see ``PublishedEdgeOptions``; dropout is on nodes where values are those of nodes.
    """

    needs_node_based = True
    drops_input = False
    wl_bound = "3-WL (Corollary: 3-WL upper-bounds node-based Subgraph GNNs)"
    parts: ClassVar[tuple[Part, ...]] = ("centroid", "subgraph")
    hop_channels: ClassVar[int] = 0

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "ego:3",
        inner_layers: int = 1,
        parts: Sequence[Part] | None = None,
        combine: Combine = "cat",
        aggregation: Aggregation = "sum",
        hop_channels: int | None = None,
        remark: bool = False,
        residual: Residual = "identity",
        domain: Domain = "members",
        **options: Unpack[PublishedEdgeOptions],
    ) -> None:
        dropout, norm = options.pop("dropout", 0.0), options.get("norm", "batch_norm")
        radius = policies.policy(policy).radius
        block = partial(
            AKKernel,
            inner_layers=inner_layers,
            inner_residual=bool(residual),
            parts=self.parts if parts is None else parts,
            combine=combine,
            aggregation=aggregation,
            hop_channels=self.hop_channels if hop_channels is None else hop_channels,
            max_distance=5 if radius is None else radius,
            dropout=dropout,
        )
        options.setdefault("pooling", partial(RootPooling, roots=aggregation))
        head = {"hidden": [hidden_channels], "norm": norm, "bias": norm is None, "input_dropout": dropout}
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            policy=policy,
            layer=remarked(block, policy) if remark else block,
            residual=residual,
            head=head,
            domain=domain,
            **options,
        )


@MODELS.register("gnnakctxpublished", "GNN-AK-ctx (published)")
class GNNAKctxPublished(GNNAKPublished):
    """GNN-AK-ctx as published: GNN-AK as published, with the context.

    Its arguments are those of ``GNNAKPublished``.
    """

    parts = ("centroid", "subgraph", "context")


@MODELS.register("gnnakpluspublished", "GNN-AK+ (published)")
class GNNAKPlusPublished(GNNAKctxPublished):
    """GNN-AK+ as published: GNN-AK as published, with the context, embedded hop distances, and gates computed from them.

    Its arguments are those of ``GNNAKPublished``.
    """

    wl_bound = Model.wl_bound
    hop_channels = 16
