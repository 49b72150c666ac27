"""DS-GNN and DSS-GNN (Bevilacqua et al. 2022), and Reconstruction GNNs (Cotta et al. 2021)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, Unpack

from reign.nn._catalogue import MODELS
from reign.nn._layer import SubgraphConv
from reign.nn._model import SubgraphGNN
from reign.nn._options import LayerOptions, ModelOptions
from reign.nn._pooling import DeepSets, MeanPooling, Pooling
from reign.nn._state import Aggregation
from reign.policies import Policy


class DSConv(SubgraphConv):
    r"""Message passing in every subgraph separately (eq. DSGNN): :math:`X^k \leftarrow \sigma(\gamma(A^k, X^k))`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        aggregation: dict[str, Aggregation] | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(in_channels, out_channels, ["own+local"], aggregation=aggregation, **options)


class DSSConv(SubgraphConv):
    r"""Message passing in every subgraph, and on the sum of all subgraphs (eq. DSSGNN_orig).

    .. math:: X^k \leftarrow \sigma \big( \gamma^0(A^k, X^k) + \gamma^1(A, \textstyle\sum_h X^h) \big)

    By default the sum is replaced by a mean, as in the authors' experiments.

    Args:
        needle: "mean" or "sum" over subgraphs.
        aggregated_adjacency: whether the second encoder runs on the sum of all adjacencies (eq. DSSGNN) in place of A.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        needle: Aggregation = "mean",
        aggregated_adjacency: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        shared = "needle+needle_msg@agg" if aggregated_adjacency else "needle+needle_msg"
        super().__init__(in_channels, out_channels, ["own+local", shared], aggregation={"needle": needle}, **options)


@MODELS.register("ds")
class DS(SubgraphGNN):
    """DS-GNN: message passing in every subgraph, then a set network over the subgraphs.

    Args:
        set_channels: widths of the layers of the set network (``DeepSets``), those of phi; if empty, plain means.
        invariance: whether the set network is invariant "early" or "late"; see ``DeepSets``.
        readout: "mean" or "sum" over the nodes of a subgraph.
        subgraphs: "mean" or "sum" over subgraphs.
        rho_channels: widths of the layers of rho; those of phi if not given.
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
        subgraphs: Aggregation = "mean",
        rho_channels: Sequence[int] | None = None,
        **options: Unpack[ModelOptions],
    ) -> None:
        options.setdefault("pooling", _set_network(set_channels, invariance, readout, subgraphs, rho_channels))
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy=policy, layer=DSConv, **options)


@MODELS.register("dss")
class DSS(SubgraphGNN):
    """DSS-GNN: DS-GNN with information shared between subgraphs.

    Args:
        needle: "mean" or "sum" over subgraphs.
        aggregated_adjacency: whether shared messages follow the sum of the subgraphs' adjacencies in place of the graph's adjacency.
        set_channels: widths of the layers of a set network over the subgraphs; if empty, plain means, as in the experiments.
        invariance: whether the set network is invariant "early" or "late"; see ``DeepSets``.
        readout: "mean" or "sum" over the nodes of a subgraph.
        subgraphs: "mean" or "sum" over subgraphs.
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
        subgraphs: Aggregation = "mean",
        **options: Unpack[ModelOptions],
    ) -> None:
        layer = partial(DSSConv, needle=needle, aggregated_adjacency=aggregated_adjacency)
        options.setdefault("pooling", _set_network(set_channels, invariance, readout, subgraphs))
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy=policy, layer=layer, **options)


@MODELS.register("reconstructiongnn")
class ReconstructionGNN(DS):
    """An (n - 1)-Reconstruction GNN: DS-GNN with node deletion."""

    defaults: ClassVar[dict[str, object]] = {"policy": "nd"}


def _set_network(
    channels: Sequence[int],
    invariance: Literal["early", "late"],
    readout: Aggregation,
    subgraphs: Aggregation,
    rho: Sequence[int] | None = None,
) -> Callable[[int], Pooling]:
    if not channels and not rho:
        return partial(MeanPooling, nodes=readout, subgraphs=subgraphs)
    return partial(DeepSets, hidden=channels, invariance=invariance, nodes=readout, subgraphs=subgraphs, rho=rho)
