"""NGNN of muhanzhang/NestedGNN, for the TU sets and for molecules, and ID-GNN of snap-stanford/GraphGym."""

from typing import Any

from torch import Tensor, nn

from reign.nn._model import Model
from reign.nn.authors._weights import Config, Weights, allow, head
from reign.nn.models import IDGNNPublished, NGNNPublished, NGNNTUPublished


def ngnn_tu(w: Weights, config: Config, policy: str | None) -> Model:
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
    _labels(w, "", model)
    for t in range(c["num_layers"]):
        here, there = f"layers.{t}.terms.0", "conv1" if t == 0 else f"convs.{t - 1}"
        w.put(f"{here}.encoder.eps", f"{there}.eps")
        w.mlp(f"{here}.encoder.mlp", f"{there}.nn.0", f"{there}.nn.1", f"{there}.nn.3")
        w.norm(f"{here}.norm", f"{there}.nn.4")
    head(w, ["lin1", "lin2"])
    return model


def ngnn_ogb(w: Weights, config: Config, policy: str | None) -> Model:
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
    _labels(w, f"{inner}.", model)
    for t in range(deep):
        here, there = f"layers.{t}.terms.0", f"{inner}.convs.{t}"
        w.put(f"{here}.encoder.eps", f"{there}.eps")
        w.put(f"{here}.encoder.edge_encoder.columns.0.weight", bonds.format(t))
        w.mlp(f"{here}.encoder.mlp", f"{there}.mlp.0", f"{there}.mlp.1", f"{there}.mlp.3")
        w.norm(f"{here}.norm", f"{inner}.batch_norms.{t}")
        if c["virtual_node"] and t < deep - 1:
            mlp = f"{inner}.mlp_virtualnode_list.{t}"
            w.mlp(f"virtual_node.mlps.{t}", f"{mlp}.0", f"{mlp}.1", f"{mlp}.3")
            w.norm(f"virtual_node.norms.{t}", f"{mlp}.4")
    if c["virtual_node"]:
        w.put("virtual_node.start", f"{inner}.virtualnode_embedding.weight")
    head(w, ["graph_pred_linear"])
    return model


def _labels(w: Weights, inner: str, model: Model) -> None:
    """NGNN's labels: only those rows of their table that can occur."""
    labels = model.labels
    if labels is not None and labels.embedding is not None:
        rows = labels.embedding.num_embeddings

        def cut(table: Tensor) -> Tensor:  # no node of an ego net is out of reach, so the last row of hops may be missing
            return nn.functional.pad(table, (0, 0, 0, 1)) if labels.kind == "hop" and len(table) == rows - 1 else table[:rows]

        w.put("labels.embedding.weight", f"{inner}z_embedding.weight", cut)
    if labels is not None and labels.resistance is not None:
        w.linear("labels.resistance", f"{inner}rd_projection")


def idgnn(w: Weights, config: Config, policy: str | None) -> Model:
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
