"""Peers as their authors published them, made of the weights and settings of the authors' code.

Every function makes one of our models of the size of theirs, and says which of their arrays each of our weights is.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from reign.nn._model import Model
from reign.nn.models import (
    GNNAKctxPublished,
    IDGNNPublished,
    IGN2Published,
    NGNNPublished,
    NGNNTUPublished,
    PPGNPublished,
    SSWLPublished,
)

Config = Mapping[str, Any]


class Weights:
    """Our weights by name, out of the arrays of the authors.

    Args:
        theirs: the authors' arrays by name.
    """

    def __init__(self, theirs: dict[str, Tensor]) -> None:
        self.theirs, self.ours, self.used = theirs, dict[str, Tensor](), set[str]()

    def __contains__(self, name: str) -> bool:
        return name in self.theirs

    def get(self, name: str) -> Tensor:
        """One of their arrays, which counts as used."""
        if name not in self.theirs:
            raise ValueError(f"params lack the array {name!r}; got {len(self.theirs)} arrays.")
        self.used.add(name)
        return self.theirs[name]

    def put(self, here: str, there: str, change: Callable[[Tensor], Tensor] = lambda value: value) -> None:
        """Our weight ``here`` is their array ``there``, changed."""
        self.ours[here] = change(self.get(there))

    def linear(self, here: str, there: str) -> None:
        """A linear map, or a convolution of size 1."""
        self.put(f"{here}.weight", f"{there}.weight", lambda value: value.flatten(1))
        if f"{there}.bias" in self:
            self.put(f"{here}.bias", f"{there}.bias")

    def norm(self, here: str, there: str) -> None:
        """A batch norm."""
        for part in ("weight", "bias", "running_mean", "running_var"):
            self.put(f"{here}.{part}", f"{there}.{part}")

    def mlp(self, here: str, lin1: str, norm: str | None, lin2: str) -> None:
        """One of our MLPs."""
        self.linear(f"{here}.lin1", lin1)
        if norm is not None:
            self.norm(f"{here}.norm", norm)
        self.linear(f"{here}.lin2", lin2)

    def rows(self, name: str) -> int:
        """The number of rows of one of their tables."""
        return self.get(name).size(0)


def allow(config: Mapping[str, Any], **allowed: tuple[Any, ...]) -> None:
    """Raise ``ValueError`` for settings that have no counterpart here; one that is not given is the first of those that have."""
    for name, values in allowed.items():
        key = name.replace("__", ".")
        if config.get(key, values[0]) not in values:
            raise ValueError(
                f"config has {key}={config[key]!r}, expected {' or '.join(map(repr, values))}: others are not known here."
            )


def gnn_ak(w: Weights, config: Config, policy: str | None) -> Model:
    """GNN-AK, GNN-AK-ctx and GNN-AK+."""
    c, hops = config["constructor"], config["hops"]
    allow(c, gnn_types=(["GINEConv"],), node_embedding=(False,), use_normal_gnn=(False,), bn=(True,), vn=(False,), mlp_layers=(1,))
    allow(
        c,
        subsampling=(False,),
        nfeat_node=(None,),
        nfeat_edge=(None,),
        embs_combine_mode=("concat", "add"),
        pooling=("add", "mean"),
    )
    atoms, bonds = "input_encoder.embeddings.0.weight", "edge_encoders.{}.embeddings.0.weight"
    names: tuple[Any, ...] = ("centroid", "subgraph", "context")
    parts = [names[part] for part in sorted(c["embs"])]
    width, hop_dim, deep = c["nhid"], c.get("hop_dim", 0), c["nlayer_outer"]
    model = GNNAKctxPublished(
        width,
        width,
        deep,
        c["nout"],
        policy=policy or f"ego:{hops}",
        inner_layers=c["nlayer_inner"],
        parts=parts,
        combine="cat" if c.get("embs_combine_mode", "add") == "concat" else "sum",
        aggregation="sum" if c.get("pooling", "mean") == "add" else "mean",
        hop_channels=hop_dim,
        residual="identity" if c.get("res", True) else False,
        dropout=float(c.get("dropout", 0)),
        node_encoder=w.rows(atoms),
        edge_encoder=w.rows(bonds.format(0)),
    )
    w.put("node_encoder.columns.0.weight", atoms)
    for t in range(deep):
        here, there = f"layers.{t}", f"subgraph_layers.{t}"
        w.put(f"{here}.edge_encoder.columns.0.weight", bonds.format(t))
        for r in range(c["nlayer_inner"]):
            slot, conv = f"{here}.inner.{r}.terms.0", f"{there}.gnns.0.convs.{r}"
            w.put(f"{slot}.encoder.eps", f"{conv}.layer.eps")
            w.mlp(f"{slot}.encoder.mlp", f"{conv}.nn.layers.0", f"{conv}.nn.norms.0", f"{conv}.nn.layers.1")
            w.norm(f"{slot}.norm", f"{there}.gnns.0.norms.{r}")
        if hop_dim:
            w.put(f"{here}.hops.weight", f"{there}.hop_embedder.weight", lambda table: table[1 : hops + 2])
            w.linear(f"{here}.back", f"{there}.gnns.0.output_encoder.layers.0")
        for part in parts:
            if part != "centroid" and len(parts) > 1:
                w.linear(f"{here}.transforms.{part}", f"{there}.{part}_transform.layers.0")
                w.norm(f"{here}.transform_norms.{part}", f"{there}.{part}_transform.norms.0")
            if hop_dim:
                w.linear(f"{here}.gates.{part}", f"{there}.gate_mapper_{part}.0")
        if c.get("embs_combine_mode", "add") == "concat":
            w.linear(f"{here}.mix", f"{there}.out_encoder.layers.0")
        w.norm(f"{here}.norm", f"norms.{t}")
    _head(w, ["output_decoder.layers.0", "output_decoder.layers.1"], ["output_decoder.norms.0"])
    return model


def sswl(w: Weights, config: Config, policy: str | None) -> Model:
    """SSWL and SSWL+."""
    allow(config.get("constructor", {}), encode=(True,))
    names, deep, width = list(config["layer"]), config["num_layer"], config["dim_embed"]
    atoms, bonds = "encode.embed_v.atom_embedding_list.0.weight", "A{}.enc.{}.embed.bond_embedding_list.0.weight"
    edges = next((bonds.format(0, name) for name in names if "L" in name), None)
    model = SSWLPublished(
        width,
        width,
        deep,
        w.get("pool.predict.output.weight").size(0),
        policy=policy or "null",
        aggregations=names,
        pool=config.get("pool", "uG"),
        max_distance=config["max_dis"],
        node_encoder=w.rows(atoms),
        edge_encoder=None if edges is None else w.rows(edges),
    )
    w.put("node_encoder.columns.0.weight", atoms)
    w.put("labels.embedding.weight", "encode.embed_d.weight")
    for t in range(deep):
        for s, name in enumerate(names):
            here, mlp = f"layers.{t}.terms.{s}.encoder", f"A{t}.mlp.{name}"
            w.put(f"{here}.eps", f"A{t}.eps.{name}")
            w.mlp(f"{here}.mlp", f"{mlp}.input", f"{mlp}.input_nr.bn", f"{mlp}.output")
            if "L" in name:
                w.put(f"{here}.edge_encoder.columns.0.weight", bonds.format(t, name))
        w.norm(f"layers.{t}.norm", f"A{t}.nr.bn")
    pool = f"A{deep}.mlp.{config.get('pool', 'uG')}"
    w.mlp(f"layers.{deep}.terms.0.transform", f"{pool}.input", f"{pool}.input_nr.bn", f"{pool}.output")
    w.norm(f"layers.{deep}.norm", f"A{deep}.nr.bn")
    _head(w, ["pool.predict.input", "pool.predict.output"])
    return model


def ngnn_tu(w: Weights, config: Config, policy: str | None) -> Model:
    """NGNN for the TU sets."""
    c, about, dropout = config["constructor"], config["subgraphs"], config.get("dropout", 0)
    model = NGNNTUPublished(
        c["num_features"],
        c["hidden"],
        c["num_layers"],
        c["num_classes"],
        policy=policy or f"ego:{about['h']}",
        label=about["node_label"] if "z_embedding.weight" in w else None,
        resistance=about["use_rd"],
        log_softmax=True,
        head_dropout=float(dropout) if isinstance(dropout, float | int) else 0.0,
        node_encoder="one-hot",
    )
    _nested_labels(w, "", about["h"])
    for t in range(c["num_layers"]):
        here, there = f"layers.{t}.terms.0", "conv1" if t == 0 else f"convs.{t - 1}"
        w.put(f"{here}.encoder.eps", f"{there}.eps")
        w.mlp(f"{here}.encoder.mlp", f"{there}.nn.0", f"{there}.nn.1", f"{there}.nn.3")
        w.norm(f"{here}.norm", f"{there}.nn.4")
    _head(w, ["lin1", "lin2"])
    return model


def ngnn_ogb(w: Weights, config: Config, policy: str | None) -> Model:
    """NGNN for molecules."""
    c, about = config["constructor"], config["subgraphs"]
    allow(c, gnn_type=("gin",), JK=("last",), use_rp=(None, False), RNI=(False,))
    allow(c, graph_pooling=("mean", "sum"), subgraph_pooling=("mean", "sum"))
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
        label=about["node_label"] if f"{inner}.z_embedding.weight" in w else None,
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
    _nested_labels(w, f"{inner}.", about["h"])
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
    _head(w, ["graph_pred_linear"])
    return model


def idgnn(w: Weights, config: Config, policy: str | None) -> Model:
    """ID-GNN, with its three kinds of layers."""
    c = config["cfg"]
    kinds: dict[str, Any] = {"idconv": "id", "gcnidconv": "gcn", "ginidconv": "gin"}
    allow(
        c, gnn__layer_type=tuple(kinds), gnn__stage_type=("stack",), gnn__batchnorm=(True,), gnn__act=("relu",), gnn__agg=("add",)
    )
    allow(c, gnn__normalize_adj=(False,), model__graph_pooling=("add", "mean"), dataset__node_encoder=(False,))
    kind = kinds[c["gnn.layer_type"]]
    pre, deep, post = (c[f"gnn.layers_{part}"] for part in ("pre_mp", "mp", "post_mp"))
    model = IDGNNPublished(
        config["constructor"]["dim_in"],
        c["gnn.dim_inner"],
        deep,
        config["constructor"]["dim_out"],
        policy=policy or f"ego:{config['hops']}",
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
    _head(w, [f"{last}.{r}.layer.model" for r in hidden] + [f"{last}.1.model"], [f"{last}.{r}.post_layer.0" for r in hidden])
    return model


def ppgn(w: Weights, config: Config, policy: str | None) -> Model:
    """PPGN, with its new and its old suffix."""
    a, out = config["config_object"]["architecture"], config["config_object"]["num_classes"]
    widths, depth, new = a["block_features"], a["depth_of_mlp"], a["new_suffix"]
    last = [f"fc_layers.{place}.fc" for place in range(len(widths) if new else 3)]
    model = PPGNPublished(
        config["num_atom_types"],
        widths[-1],
        len(widths),
        out,
        widths=widths,
        depth=depth,
        suffix="new" if new else "old",
        head_channels=[] if new else [w.get(f"{name}.weight").size(0) for name in last[:-1]],
        **_tensor(config),
    )
    for t in range(len(widths)):
        for ours, theirs in (("left", "mlp1"), ("right", "mlp2")):
            for r in range(depth):
                w.linear(f"layers.{t}.{ours}.{r}", f"reg_blocks.{t}.{theirs}.convs.{r}")
        w.linear(f"layers.{t}.skip", f"reg_blocks.{t}.skip.conv")
    if new:  # one linear map of all blocks, the diagonals first; its bias is the sum of theirs
        halves = [w.get(f"{name}.weight").chunk(2, dim=1) for name in last]
        w.ours["head.lin1.weight"] = torch.cat([half for side in zip(*halves, strict=True) for half in side], dim=1)
        w.ours["head.lin1.bias"] = torch.stack([w.get(f"{name}.bias") for name in last]).sum(0)
    else:
        _head(w, last)
    return model


def ign2(w: Weights, config: Config, policy: str | None) -> Model:
    """2-IGN: layers of the port put together as the original is, or as the port is."""
    port, widths = config["model"] == "ign2_port", config["architecture"]
    last = ["fully1", "fully2", "fully3"]
    end = f"equi_layers.{len(widths)}"
    model = IGN2Published(
        config["num_atom_types"],
        widths[-1],
        len(widths),
        w.get("fully3.weight").size(0),
        widths=widths,
        aggregation="mean" if port or config["normalization"] is not None else "sum",
        suffix="nodes" if port else "max",
        pooled_channels=w.get(f"{end}.coeffs").size(1) if port else None,
        head_channels=[w.get(f"{name}.weight").size(0) for name in last[:-1]],
        linear=port,
        log_softmax=port,
        **_tensor(config),
    )
    off = {"root_needle": 5, "readout": 6, "needle": 7, "node_readout": 8, "own": 9, "transpose": 10, "root": 11}
    off |= {"node_root": 12, "roots": 13, "total": 14}
    on = {"own": 0, "roots": 1, "readout": 2, "root_needle": 3, "total": 4}

    def matrix(place: int) -> Callable[[Tensor], Tensor]:
        return lambda coeffs: coeffs[:, :, place].t()

    for t, layer in enumerate(model.layers):
        for branch, places, bias in (("terms", off, "all_bias"), ("root_terms", on, "diag_bias")):
            for s, slot in enumerate(getattr(layer, branch)):
                w.put(f"layers.{t}.{branch}.{s}.transform.weight", f"equi_layers.{t}.coeffs", matrix(places[slot.name]))
            w.put(f"layers.{t}.{branch}.0.transform.bias", f"equi_layers.{t}.{bias}", torch.flatten)
    if port:
        for place in range(len(on)):
            w.put(f"pooling.maps.{place}.weight", f"{end}.coeffs", matrix(place))
        w.put("pooling.maps.0.bias", f"{end}.bias", torch.flatten)
    _head(w, last)
    return model


def _head(w: Weights, linears: list[str], norms: list[str] | None = None) -> None:
    """The layers of a head, and the norms of its hidden ones."""
    for place, there in enumerate(linears, 1):
        w.linear(f"head.lin{place}", there)
    for place, there in enumerate(norms or [], 1):
        w.norm(f"head.norm{place}", there)


def _nested_labels(w: Weights, inner: str, hops: int) -> None:
    """NGNN's labels: of their table only the rows that can occur."""
    if f"{inner}z_embedding.weight" in w:
        w.put("labels.embedding.weight", f"{inner}z_embedding.weight", lambda table: table[: hops + 2])
    if f"{inner}rd_projection.weight" in w:
        w.linear("labels.resistance", f"{inner}rd_projection")


def _tensor(config: Config) -> dict[str, Any]:
    """How a graph becomes a tensor: by the number of channels that ``config["input"]`` begins with."""
    atoms, bonds, channels = config["num_atom_types"], config["num_bond_types"], str(config["input"]).split()[0]
    if channels == str(atoms + 1):
        return {"tensor": "degrees", "node_encoder": "one-hot"}
    if channels == str(atoms + 2 + bonds):
        return {"tensor": "distances", "node_encoder": "one-hot", "edge_encoder": "one-hot", "edge_dim": bonds}
    raise ValueError(f"config has input={config['input']!r}, expected '{atoms + 1} channels' or '{atoms + 2 + bonds} channels'.")


PEERS: dict[str, Callable[[Weights, Config, str | None], Model]] = {
    "gnn_ak": gnn_ak,
    "gnn_ak_ctx": gnn_ak,
    "gnn_ak_plus": gnn_ak,
    "gnn_ak_plus_molhiv": gnn_ak,
    "sswl": sswl,
    "sswl_plus": sswl,
    "ngnn_tu": ngnn_tu,
    "ngnn_ogb": ngnn_ogb,
    "idgnn_idconv": idgnn,
    "idgnn_gcn": idgnn,
    "idgnn_gin": idgnn,
    "ppgn": ppgn,
    "ppgn_old_suffix": ppgn,
    "ign2": ign2,
    "ign2_port": ign2,
}
# what a whole state_dict of theirs holds beside what the forward pass uses: tables of further columns, layers that are switched off
UNUSED = (
    r"traditional_gnns\.|vn_aggregators\.|.*\.embeddings\.[1-9]\.|.*\.(atom|bond)_embedding_list\.[1-9]\.|.*\.layer\.nn\.|"
    r"output_decoder\.norms\.1\.|.*(out|output)_encoder\.(norms|layers)\.|.*\.nn\.norms\.1\.|.*\.gate_mapper_|.*\.hop_embedder\.|"
    r".*\.(subgraph|context|centroid)_transform\.|A\d+\.eps\.[uv]G"
)
