"""GNN-As-Kernel (Zhao et al. 2022): a network in every ego net computes a new vector for the root of that ego net."""

from functools import partial
from typing import Any, ClassVar, Unpack

import reign.policies as policies
from reign.bags import Domain
from reign.nn._catalogue import MODELS
from reign.nn._model import Model, SubgraphGNN
from reign.nn._options import MemberModelOptions
from reign.nn._pooling import RootPooling
from reign.nn._state import Aggregation
from reign.nn.models._ak_conv import AKConv, Combine, remarked
from reign.policies import EgoNets, Policy


@MODELS.register("gnnak")
class GNNAK(SubgraphGNN):
    """GNN-AK: blocks of convolutions in every ego net, each followed by a combination of centroid and subgraph encodings.

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of blocks.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        policy: any node-based policy.
        inner_layers: number of convolutions in a block.
        combine: "cat" (followed by a linear map), or a plain "sum" as in the paper's proofs.
        aggregation: "mean" or "sum" over the nodes of a subgraph, and over subgraphs.
        remark: whether marks are added before every block, and not only before the first.
        graph_pooling: "mean" or "sum" over nodes.
        domain: whether sums range over "members" of ego nets, as in the original, or over "all" nodes, as in this paper's formula.
        options: see ``MemberModelOptions``.
    """

    needs_node_based = True
    wl_bound = "3-WL (Corollary: 3-WL upper-bounds node-based Subgraph GNNs)"
    linear_form: ClassVar[dict[str, Any]] = {"conv": "graphconv", "norm": None, "domain": "all", "aggregation": "sum"}
    context: ClassVar[bool] = False
    """Whether to add the sum over the subgraphs that a node is in."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "ego:3",
        inner_layers: int = 1,
        combine: Combine = "cat",
        aggregation: Aggregation = "mean",
        remark: bool = False,
        graph_pooling: Aggregation = "mean",
        domain: Domain = "members",
        **options: Unpack[MemberModelOptions],
    ) -> None:
        block = partial(
            AKConv,
            inner_layers=inner_layers,
            context=self.context,
            combine=combine,
            aggregation=aggregation,
            plus=self._max_distance(policy),
        )
        options.setdefault("pooling", partial(RootPooling, roots=graph_pooling))
        layer = remarked(block, policy) if remark else block
        super().__init__(
            in_channels, hidden_channels, num_layers, out_channels, policy=policy, layer=layer, domain=domain, **options
        )

    def _max_distance(self, policy: str | Policy) -> int | None:
        """The largest hop distance that blocks distinguish; None if they do not use distances."""
        return None

    @classmethod
    def for_separation(cls, layers: int) -> dict[str, Any]:
        """One block with that many inner layers, and sums over all nodes, as in the paper's formula."""
        return {"num_layers": 1, "inner_layers": layers, "domain": "all"}


@MODELS.register("gnnakctx")
class GNNAKctx(GNNAK):
    """GNN-AK-ctx: GNN-AK with the context, which is the sum over the subgraphs that a node is in.

    Its arguments are those of ``GNNAK``.
    """

    context = True


@MODELS.register("gnnakplus", "GNN-AK+")
class GNNAKPlus(GNNAKctx):
    """GNN-AK+: GNN-AK with the context, a hop-distance embedding in every block, gates on centroid, subgraph and context that depend on
    the hop distance, and transforms before pooling.

    Its arguments are those of ``GNNAK``.
    """

    wl_bound = Model.wl_bound
    linear_form: ClassVar[dict[str, Any]] = {}

    def _max_distance(self, policy: str | Policy) -> int:
        made = policies.policy(policy)
        return made.num_hops if isinstance(made, EgoNets) else 5
