"""Nested GNNs (Zhang & Li 2021) and identity-aware GNNs (You et al. 2021) as their authors published them."""

from functools import partial
from typing import Any, Literal, Unpack

from torch import Tensor, nn

import reign.nn
import reign.policies as policies
from reign._validate import check, check_count
from reign.bags import Domain
from reign.policies import Policy
from reign.published._weights import Config, Weights, allow, head

NestedLabel = Literal["hop", "spd"] | None


@reign.nn.MODELS.register("ngnnpublished", "NGNN (published)")
class NGNNPublished(reign.nn.SubgraphGNN):
    """NGNN as published for molecules: embedded labels and resistance distances, a virtual node, no last activation, and means.

    Args:
        policy: any node-based policy.
        label: what is embedded, "hop", "spd" or None; see ``PairLabels``.
        resistance: whether the resistance distance is embedded.
        virtual_node: whether every graph has a virtual node.
        residual: residual connections, also of the virtual node: True, False or "identity"; see ``CompositionOptions``.
        readout: "mean" or "sum" over the nodes of an ego net.
        graph_pooling: "mean" or "sum" over ego nets.
        domain: whether sums range over "members" of ego nets, as published, or over "all" nodes.
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
        residual: reign.nn.Residual = False,
        readout: reign.nn.Aggregation = "mean",
        graph_pooling: reign.nn.Aggregation = "mean",
        domain: Domain = "members",
        **options: Unpack[reign.nn.PublishedEdgeOptions],
    ) -> None:
        check_count("num_layers", num_layers)
        options.setdefault("pooling", partial(reign.nn.MeanPooling, nodes=readout, subgraphs=graph_pooling))
        layer = partial(reign.nn.SubgraphConv, terms=["own+local"])
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


@reign.nn.MODELS.register("ngnntupublished", "NGNN-TU (published)")
class NGNNTUPublished(reign.nn.SubgraphGNN):
    """NGNN as published for the TU sets: embedded labels concatenated with the features, and the concatenated means of all layers.

    Args:
        policy: any node-based policy.
        label: what is embedded, "hop", "spd" or None; see ``PairLabels``.
        resistance: whether the resistance distance is embedded.
        label_channels: number of channels of embedded labels.
        log_softmax: whether predictions are log-probabilities of classes.
        head_dropout: dropout probability in the head; elsewhere it is ``dropout``, 0 as published.
        domain: whether sums range over "members" of ego nets, as published, or over "all" nodes.
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
        **options: Unpack[reign.nn.PublishedOptions],
    ) -> None:
        options.setdefault("pooling", reign.nn.MeanPooling)
        labels = _labels(label, resistance, policy)
        labels = None if labels is None else labels | {"channels": label_channels}
        head = {"hidden": [hidden_channels], "dropout": head_dropout, "log_softmax": log_softmax}
        sizes = in_channels, hidden_channels, num_layers, out_channels
        super().__init__(*sizes, policy=policy, layer=reign.nn.DSConv, labels=labels, jk="cat", head=head, domain=domain, **options)


def _labels(label: NestedLabel, resistance: bool, policy: str | Policy) -> dict[str, Any] | None:
    """What is embedded: labels up to the depth of the ego nets, and resistance distances."""
    if label is None and not resistance:
        return None
    radius = policies.policy(policy).radius
    return {"kind": label, "resistance": resistance, "max_distance": 5 if radius is None else radius}


# -- identity-aware GNNs (You et al. 2021) -------------------------------------------------------------------------------


IDKind = Literal["id", "gcn", "gin"]


@reign.nn.MODELS.register("idgnnpublished", "ID-GNN (published)")
class IDGNNPublished(reign.nn.SubgraphGNN):
    r"""ID-GNN as published: layers with a second set of weights for roots, pre-layers, and roots of unit length.

    .. math:: \text{id:}  \quad & x^k_i \leftarrow \sigma \big( \textstyle\sum_{j \sim_k i} W x^k_j + [k \sim_k i] W' x^k_k \big) \\
              \text{gcn:} \quad & \text{the same with weights } 1 / \sqrt{d_i d_j}, \text{ and i among its neighbours} \\
              \text{gin:} \quad & x^k_i \leftarrow \sigma \big( f(m^k_i) + [i = k] f'(m^k_k) \big), \quad m^k_i = x^k_i + \textstyle\sum_{j \sim_k i} x^k_j

    Args:
        num_layers: number of layers, and depth of the ego nets if ``policy`` is not given.
        policy: any policy with roots; if not given "ego:T" with T layers, or the whole graph with more than 4.
        kind: "id", "gcn" or "gin".
        pre_layers: number of layers before the first one, applied to every value separately.
        post_layers: number of layers of the head.
        unit: whether the vectors of roots are divided by their length before they are pooled.
        graph_pooling: "sum" or "mean" over the roots.
        domain: whether norms range over "members" of ego nets, as published, or over "all" nodes.
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
        graph_pooling: reign.nn.Aggregation = "sum",
        domain: Domain = "members",
        **options: Unpack[reign.nn.PublishedOptions],
    ) -> None:
        check_count("num_layers", num_layers)
        check("kind", kind, kind in _ID_LAYERS, "'id', 'gcn' or 'gin'")
        check_count("pre_layers", pre_layers, 0)
        check_count("post_layers", post_layers)
        options.setdefault("pooling", partial(reign.nn.RootPooling, roots=graph_pooling, unit=unit))
        layer = partial(reign.nn.SubgraphConv, **_ID_LAYERS[kind])
        pre = partial(reign.nn.SubgraphConv, terms=["own"], transform="linear", bias=False)
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


# -- weights and settings of muhanzhang/NestedGNN, for the TU sets and for molecules, and of snap-stanford/GraphGym ------


def ngnn_tu(w: Weights, config: Config, policy: str | None) -> reign.nn.Model:
    """NGNN for the TU sets."""
    c, about, dropout = config["constructor"], config["subgraphs"], config.get("dropout", 0.5)
    allow(about, node_label=("hop", "spd"))
    model = NGNNTUPublished(
        c["num_features"],
        c["hidden"],
        c["num_layers"],
        c["num_classes"],
        policy=policy or f"ego:{about['h']}",
        label=about["node_label"] if c.get("use_z", True) else None,
        resistance=about["use_rd"],
        log_softmax=True,
        head_dropout=float(dropout) if isinstance(dropout, float | int) else 0.0,
        node_encoder="one-hot",
    )
    _put_labels(w, "", model)
    for t in range(c["num_layers"]):
        here, there = f"layers.{t}.terms.0", "conv1" if t == 0 else f"convs.{t - 1}"
        w.put(f"{here}.encoder.eps", f"{there}.eps")
        w.sequential(f"{here}.encoder.mlp", f"{there}.nn")
        w.norm(f"{here}.norm", f"{there}.nn.4")
    head(w, ["lin1", "lin2"])
    return model


def ngnn_ogb(w: Weights, config: Config, policy: str | None) -> reign.nn.Model:
    """NGNN for molecules."""
    c, about = config["constructor"], config["subgraphs"]
    allow(c, gnn_type=("gin",), JK=("last",), use_rp=(None, False), RNI=(False,))
    allow(c, graph_pooling=("mean", "sum"), subgraph_pooling=("mean", "sum"))
    allow(about, node_label=("hop", "spd"))
    inner, deep = "gnn_node", c["num_layer"]
    atoms, bonds = (
        f"{inner}.node_encoder.atom_embedding_list.0.weight",
        inner + ".convs.{}.edge_encoder.bond_embedding_list.0.weight",
    )
    model = NGNNPublished(
        c["emb_dim"],
        c["emb_dim"],
        deep,
        c["num_tasks"],
        policy=policy or f"ego:{about['h']}",
        label=about["node_label"],
        resistance=about["use_rd"],
        virtual_node=c["virtual_node"],
        residual="identity" if c["residual"] else False,
        readout=c["subgraph_pooling"],
        graph_pooling=c["graph_pooling"],
        dropout=float(c["drop_ratio"]),
        node_encoder=w.rows(atoms),
        edge_encoder=w.rows(bonds.format(0)),
    )
    w.put("node_encoder.columns.0.weight", atoms)
    _put_labels(w, f"{inner}.", model)
    for t in range(deep):
        here, there = f"layers.{t}.terms.0", f"{inner}.convs.{t}"
        w.put(f"{here}.encoder.eps", f"{there}.eps")
        w.put(f"{here}.encoder.edge_encoder.columns.0.weight", bonds.format(t))
        w.sequential(f"{here}.encoder.mlp", f"{there}.mlp")
        w.norm(f"{here}.norm", f"{inner}.batch_norms.{t}")
        if c["virtual_node"] and t < deep - 1:
            mlp = f"{inner}.mlp_virtualnode_list.{t}"
            w.sequential(f"virtual_node.mlps.{t}", mlp)
            w.norm(f"virtual_node.norms.{t}", f"{mlp}.4")
    if c["virtual_node"]:
        w.put("virtual_node.start", f"{inner}.virtualnode_embedding.weight")
    head(w, ["graph_pred_linear"])
    return model


def _put_labels(w: Weights, inner: str, model: reign.nn.Model) -> None:
    """NGNN's labels: only those rows of their table that can occur."""
    labels = model.labels
    if labels is not None and labels.embedding is not None:
        rows = labels.embedding.num_embeddings

        def cut(table: Tensor) -> Tensor:  # no node of an ego net is out of reach, so the last row of hops may be missing
            return nn.functional.pad(table, (0, 0, 0, 1)) if labels.kind == "hop" and len(table) == rows - 1 else table[:rows]

        w.put("labels.embedding.weight", f"{inner}z_embedding.weight", cut)
    if labels is not None and labels.resistance is not None:
        w.linear("labels.resistance", f"{inner}rd_projection")


def idgnn(w: Weights, config: Config, policy: str | None) -> reign.nn.Model:
    """ID-GNN, with its three kinds of layers."""
    c = config["cfg"]
    kinds: dict[str, Any] = {"idconv": "id", "gcnidconv": "gcn", "ginidconv": "gin"}
    allow(
        c, gnn__layer_type=tuple(kinds), gnn__stage_type=("stack",), gnn__batchnorm=(True,), gnn__act=("relu",), gnn__agg=("add",)
    )
    allow(c, gnn__normalize_adj=(False,), model__graph_pooling=("add", "mean"), dataset__node_encoder=(False,))
    allow(c, dataset__transform=("ego",), dataset__task=("graph",))
    kind = kinds[c["gnn.layer_type"]]
    pre, deep, post = (c[f"gnn.layers_{part}"] for part in ("pre_mp", "mp", "post_mp"))
    model = IDGNNPublished(
        config["constructor"]["dim_in"],
        c["gnn.dim_inner"],
        deep,
        config["constructor"]["dim_out"],
        policy=policy or (f"ego:{config['hops']}" if "hops" in config else None),  # None: by the number of layers
        kind=kind,
        pre_layers=pre,
        post_layers=post,
        unit=c["gnn.l2norm"],
        graph_pooling="sum" if c["model.graph_pooling"] == "add" else "mean",
        dropout=float(c.get("gnn.dropout", 0)),
        node_encoder="one-hot",
    )
    for t in range(pre):
        w.linear(f"layers.{t}.terms.0.transform", f"pre_mp.Layer_{t}.layer.model")
        w.norm(f"layers.{t}.norm", f"pre_mp.Layer_{t}.post_layer.0")
    for t in range(deep):
        here, there = f"layers.{pre + t}", f"mp.layer{t}.layer.model"
        if kind == "gin":
            for branch, name in (("terms", "nn"), ("root_terms", "nn_id")):
                w.put(f"{here}.{branch}.0.encoder.eps", f"{there}.eps", lambda value: value.reshape(1))
                w.mlp(f"{here}.{branch}.0.encoder.mlp", f"{there}.{name}.0", None, f"{there}.{name}.2")
        else:
            ours = "transform" if kind == "id" else "encoder.lin"
            for s, name in enumerate(("weight", "weight_id")):
                w.put(f"{here}.terms.{s}.{ours}.weight", f"{there}.{name}", lambda value: value.t())
        w.norm(f"{here}.norm", f"mp.layer{t}.post_layer.0")
    last, hidden = "post_mp.layer_post_mp.model", [f"0.Layer_{r}" for r in range(post - 1)]
    head(w, [f"{last}.{r}.layer.model" for r in hidden] + [f"{last}.1.model"], [f"{last}.{r}.post_layer.0" for r in hidden])
    return model
