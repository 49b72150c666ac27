"""Nested GNNs (Zhang & Li 2021) as their authors published them."""

from functools import partial
from typing import Any, Literal, Unpack

import reign.policies as policies
from reign._validate import check_count
from reign.bags import Domain
from reign.nn._catalogue import MODELS
from reign.nn._layer import SubgraphConv
from reign.nn._model import SubgraphGNN
from reign.nn._options import PublishedEdgeOptions, PublishedOptions, Residual
from reign.nn._pooling import MeanPooling
from reign.nn._state import Aggregation
from reign.nn.models._ds import DSConv
from reign.policies import Policy

NestedLabel = Literal["hop", "spd"] | None


@MODELS.register("ngnnpublished", "NGNN (published)")
class NGNNPublished(SubgraphGNN):
    """NGNN as published for molecules: embedded labels and resistance distances, a virtual node, no last activation, and means.

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of layers.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        policy: any node-based policy.
        label: what is embedded, "hop", "spd" or None; see ``PairLabels``.
        resistance: whether the resistance distance is embedded.
        virtual_node: whether every graph has a virtual node.
        residual: residual connections, also of the virtual node; see ``CompositionOptions``.
        readout: "mean" or "sum" over the nodes of an ego net.
        graph_pooling: "mean" or "sum" over ego nets.
        domain: whether sums range over "members" of ego nets, as published, or over "all" nodes.
        options: see ``PublishedEdgeOptions``.
    """

    needs_node_based = True
    drops_input = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "ego:3",
        label: NestedLabel = "spd",
        resistance: bool = True,
        virtual_node: bool = True,
        residual: Residual = False,
        readout: Aggregation = "mean",
        graph_pooling: Aggregation = "mean",
        domain: Domain = "members",
        **options: Unpack[PublishedEdgeOptions],
    ) -> None:
        check_count("num_layers", num_layers)
        options.setdefault("pooling", partial(MeanPooling, nodes=readout, subgraphs=graph_pooling))
        layer = partial(SubgraphConv, terms=["own+local"])
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            policy=policy,
            layer=[layer] * (num_layers - 1) + [partial(layer, end_act=False)],
            labels=_labels(label, resistance, policy),
            virtual_node=virtual_node,
            residual=residual,
            head={"hidden": []},
            expansion=2,
            domain=domain,
            **options,
        )


@MODELS.register("ngnntupublished", "NGNN-TU (published)")
class NGNNTUPublished(SubgraphGNN):
    """NGNN as published for the TU sets: embedded labels concatenated with the features, and the concatenated means of all layers.

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of layers.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        policy: any node-based policy.
        label: what is embedded, "hop", "spd" or None; see ``PairLabels``.
        resistance: whether the resistance distance is embedded.
        label_channels: number of channels of embedded labels.
        log_softmax: whether predictions are log-probabilities of classes.
        head_dropout: dropout probability in the head; elsewhere it is ``dropout``, 0 as published.
        domain: whether sums range over "members" of ego nets, as published, or over "all" nodes.
        options: see ``PublishedOptions``.
    """

    needs_node_based = True
    drops_input = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "ego:3",
        label: NestedLabel = "spd",
        resistance: bool = False,
        label_channels: int = 8,
        log_softmax: bool = False,
        head_dropout: float = 0.5,
        domain: Domain = "members",
        **options: Unpack[PublishedOptions],
    ) -> None:
        options.setdefault("pooling", MeanPooling)
        labels = _labels(label, resistance, policy)
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            policy=policy,
            layer=DSConv,
            labels=None if labels is None else labels | {"channels": label_channels},
            jk="cat",
            head={"hidden": [hidden_channels], "dropout": head_dropout, "log_softmax": log_softmax},
            domain=domain,
            **options,
        )


def _labels(label: NestedLabel, resistance: bool, policy: str | Policy) -> dict[str, Any] | None:
    """What is embedded: labels up to the depth of the ego nets, and resistance distances."""
    if label is None and not resistance:
        return None
    radius = policies.policy(policy).radius
    return {"kind": label, "resistance": resistance, "max_distance": 5 if radius is None else radius}
