"""DS-GNN and DSS-GNN (Bevilacqua et al. 2022), and Reconstruction GNNs (Cotta et al. 2021)."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal

from reign.nn._conv import SubgraphConv
from reign.nn._pooling import DeepSets, MeanPooling
from reign.nn._state import Aggregation
from reign.nn._subgraph_gnn import SubgraphGNN
from reign.policies import Policy


class DSConv(SubgraphConv):
    r"""Every subgraph by itself (eq. DSGNN): :math:`X^k \leftarrow \sigma(\gamma(A^k, X^k))`."""

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(in_channels, out_channels, ["own+local"], **options)


class DSSConv(SubgraphConv):
    r"""Every subgraph, and their sum (eq. DSSGNN_orig).

    .. math:: X^k \leftarrow \sigma \big( \gamma^0(A^k, X^k) + \gamma^1(A, \textstyle\sum_h X^h) \big)

    As in the authors' experiments the sum is a mean. With ``aggregated_adjacency`` the second encoder runs on the sum of all
    adjacencies (eq. DSSGNN) in place of A.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        needle: Aggregation = "mean",
        aggregated_adjacency: bool = False,
        **options: Any,
    ) -> None:
        shared = "needle+needle_msg@agg" if aggregated_adjacency else "needle+needle_msg"
        super().__init__(in_channels, out_channels, ["own+local", shared], aggregation={"needle": needle}, **options)


class DS(SubgraphGNN):
    """DS-GNN: message passing in every subgraph, then a set network over the subgraphs.

    Args:
        in_channels: of node features, after ``node_encoder`` if there is one.
        hidden_channels: of the layers.
        num_layers: of them.
        out_channels: of the prediction; None gives the pooled vectors themselves.
        policy: any policy.
        set_channels: widths of the layers of the set network (``DeepSets``); none: plain means.
        invariance: of the set network, "early" or "late".
        readout: "mean" or "sum" over the nodes of a subgraph.
        options: all others of ``SubgraphGNN``.
    """

    wl_bound = "3-WL (Corollary: 3-WL upper-bounds node-based Subgraph GNNs)"
    linear_form: ClassVar[dict[str, Any]] = {"conv": "graphconv", "norm": None, "domain": "all"}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "ego+:3",
        set_channels: Sequence[int] = (64,),
        invariance: Literal["early", "late"] = "early",
        readout: Aggregation = "mean",
        **options: Any,
    ) -> None:
        options.setdefault("pooling", _set_network(set_channels, invariance, readout))
        options.setdefault("layer", DSConv)
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy=policy, **options)


class DSS(SubgraphGNN):
    """DSS-GNN: as DS-GNN, with information shared between subgraphs.

    Args:
        in_channels: of node features, after ``node_encoder`` if there is one.
        hidden_channels: of the layers.
        num_layers: of them.
        out_channels: of the prediction; None gives the pooled vectors themselves.
        policy: any policy.
        needle: "mean" or "sum" over subgraphs.
        aggregated_adjacency: share along the sum of the subgraphs' adjacencies in place of the graph's.
        set_channels: widths of the layers of a set network over the subgraphs; none: plain means, as in the experiments.
        invariance: of the set network, "early" or "late".
        readout: "mean" or "sum" over the nodes of a subgraph.
        options: all others of ``SubgraphGNN``.
    """

    wl_bound = "3-WL (Corollary: 3-WL upper-bounds node-based Subgraph GNNs)"
    linear_form: ClassVar[dict[str, Any]] = {"conv": "graphconv", "norm": None, "domain": "all", "needle": "sum"}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "ego+:3",
        needle: Aggregation = "mean",
        aggregated_adjacency: bool = False,
        set_channels: Sequence[int] = (),
        invariance: Literal["early", "late"] = "early",
        readout: Aggregation = "mean",
        **options: Any,
    ) -> None:
        layer = partial(DSSConv, needle=needle, aggregated_adjacency=aggregated_adjacency)
        options.setdefault("pooling", _set_network(set_channels, invariance, readout))
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy=policy, layer=layer, **options)


class ReconstructionGNN(DS):
    """An (n - 1)-Reconstruction GNN: DS-GNN with node deletion. Options as for ``DS``."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "nd",
        **options: Any,
    ) -> None:
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy=policy, **options)


def _set_network(channels: Sequence[int], invariance: Literal["early", "late"], readout: Aggregation) -> Any:
    if not channels:
        return partial(MeanPooling, nodes=readout)
    return partial(DeepSets, hidden=channels, invariance=invariance, nodes=readout)
