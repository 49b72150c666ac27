"""Nested GNNs (Zhang & Li 2021) and identity-aware GNNs (You et al. 2021) as their authors published them."""

from functools import partial
from typing import Any, Literal, Unpack

import reign.policies as policies
from reign._validate import check
from reign.bags import Domain
from reign.nn._conv import SubgraphConv
from reign.nn._model import MODELS
from reign.nn._options import PublishedEdgeOptions, PublishedOptions, Residual
from reign.nn._pooling import MeanPooling, RootPooling
from reign.nn._state import Aggregation
from reign.nn._subgraph_gnn import SubgraphGNN
from reign.nn.models._ds_dss import DSConv
from reign.policies import Policy

NestedLabel = Literal["hop", "spd"] | None
IDKind = Literal["id", "gcn", "gin"]


@MODELS.register("ngnnpublished", "NGNN (published)")
class NGNNPublished(SubgraphGNN):
    """NGNN as published for molecules: labels and resistance distances added, a virtual node, no activation after the last layer, means.

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
    """NGNN as published for the TU sets: embedded labels beside the features, and the means of all layers side by side.

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
        head_dropout: dropout probability in the head; there is none elsewhere.
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


@MODELS.register("idgnnpublished", "ID-GNN (published)")
class IDGNNPublished(SubgraphGNN):
    r"""ID-GNN as published: layers with second weights for roots, pre-layers, and roots of unit length.

    .. math:: \text{id:}  \quad & x^k_i \leftarrow \sigma \big( \textstyle\sum_{j \sim_k i} W x^k_j + [k \sim_k i] W' x^k_k \big) \\
              \text{gcn:} \quad & \text{the same with weights } 1 / \sqrt{d_i d_j}, \text{ and i among its neighbours} \\
              \text{gin:} \quad & x^k_i \leftarrow \sigma \big( f(m^k_i) + [i = k] f'(m^k_k) \big), \quad m^k_i = x^k_i + \textstyle\sum_{j \sim_k i} x^k_j

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of layers, and depth of the ego nets if ``policy`` is not given.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        policy: any policy with roots; if not given "ego:T" with T layers, or the whole graph with more than 4.
        kind: "id", "gcn" or "gin".
        pre_layers: number of layers before, of every value by itself.
        post_layers: number of layers of the head.
        unit: whether the vectors of roots are divided by their length before they are pooled.
        graph_pooling: "sum" or "mean" over the roots.
        domain: whether norms range over "members" of ego nets, as published, or over "all" nodes.
        options: see ``PublishedOptions``.
    """

    drops_input = False
    wl_bound = "3-WL (Corollary: 3-WL upper-bounds node-based Subgraph GNNs)"

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy | None = None,
        kind: IDKind = "gin",
        pre_layers: int = 1,
        post_layers: int = 3,
        unit: bool = True,
        graph_pooling: Aggregation = "sum",
        domain: Domain = "members",
        **options: Unpack[PublishedOptions],
    ) -> None:
        check("kind", kind, kind in _ID_LAYERS, "'id', 'gcn' or 'gin'")
        check("pre_layers", pre_layers, type(pre_layers) is int and pre_layers >= 0, "a whole number of at least 0")
        check("post_layers", post_layers, type(post_layers) is int and post_layers >= 1, "a whole number of at least 1")
        options.setdefault("pooling", partial(RootPooling, roots=graph_pooling, unit=unit))
        layer = partial(SubgraphConv, **_ID_LAYERS[kind])
        pre = partial(SubgraphConv, terms=["own"], transform="linear", bias=False)
        norm = options.get("norm", "batch_norm")
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            policy=(f"ego:{num_layers}" if num_layers <= 4 else "null") if policy is None else policy,
            layer=[pre] * pre_layers + [layer] * num_layers,
            head={"hidden": [hidden_channels] * (post_layers - 1), "norm": norm, "bias": norm is None},
            conv="gcn" if kind == "gcn" else "gin",
            train_eps=False,
            domain=domain,
            **options,
        )


_ID_LAYERS: dict[str, dict[str, Any]] = {
    "id": {"terms": ["local", "root_msg"], "transform": "linear", "bias": False},
    "gcn": {"terms": ["own+local", "own_root+root_msg"], "bias": False, "norm_at": "end"},
    "gin": {"terms": ["own+local"], "root_terms": ["own+local"], "roots": "added", "norm_at": "end"},
}


def _labels(label: NestedLabel, resistance: bool, policy: str | Policy) -> dict[str, Any] | None:
    """What is embedded: labels up to the depth of the ego nets, and resistance distances."""
    if label is None and not resistance:
        return None
    radius = policies.policy(policy).radius
    return {"kind": label, "resistance": resistance, "max_distance": 5 if radius is None else radius}
