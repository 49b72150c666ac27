"""GNN-AK, GNN-AK-ctx and GNN-AK+ of LingxiaoShawn/GNNAsKernel."""

from typing import Any

from reign.nn._model import Model
from reign.nn.authors._weights import Config, Weights, allow, head
from reign.nn.models import GNNAKctxPublished, GNNAKPlusPublished, GNNAKPublished


def gnn_ak(w: Weights, config: Config, policy: str | None) -> Model:
    """GNN-AK, GNN-AK-ctx and GNN-AK+."""
    c = config["constructor"]
    if not set(c["embs"]) <= {0, 1, 2}:
        raise ValueError(f"config has embs={c['embs']!r}, expected one or several of 0, 1 and 2.")
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
    kind = GNNAKPlusPublished if hop_dim else GNNAKctxPublished if "context" in parts else GNNAKPublished
    model = kind(
        width,
        width,
        deep,
        c["nout"],
        policy=policy or f"ego:{config['hops']}",
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
    rows = model.state_dict()["layers.0.hops.weight"].size(0) if hop_dim else 0
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
            w.put(f"{here}.hops.weight", f"{there}.hop_embedder.weight", lambda table: table[1 : rows + 1])  # type 0 never occurs
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
    head(w, ["output_decoder.layers.0", "output_decoder.layers.1"], ["output_decoder.norms.0"])
    return model
