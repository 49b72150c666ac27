"""GNN-As-Kernel as its authors published it (Zhao et al. 2022)."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal, Unpack

import reign.nn
import reign.policies as policies
from reign.bags import Domain
from reign.policies import Policy
from reign.published._weights import Config, Weights, allow, head


@reign.nn.MODELS.register("gnnakpublished", "GNN-AK (published)")
class GNNAKPublished(reign.nn.SubgraphGNN):
    """GNN-AK as published: residual connections in and around blocks, and a transform of the subgraph before its sum.

    Args:
        num_layers: number of blocks.
        policy: any node-based policy.
        inner_layers: number of layers in a block.
        parts: the parts of a block, out of "centroid", "subgraph" and "context"; those of GNN-AK, -ctx or + if not given.
        combine: "cat" (and a linear map), or a plain "sum".
        aggregation: "sum" or "mean" over the nodes of a subgraph, over subgraphs, and over the nodes of the graph.
        hop_channels: number of channels of embedded hop distances; 16 in GNN-AK+ and 0 otherwise, if not given.
        remark: whether marks are added before every block, and not only before the first.
        dropout: dropout probability, on nodes where values are those of nodes.
        residual: residual connections in and around blocks: True, False or "identity"; see ``CompositionOptions``.
        domain: whether sums range over "members" of ego nets, as published, or over "all" nodes.
    """

    needs_node_based = True
    drops_input = False
    wl_bound = "3-WL (Corollary: 3-WL upper-bounds node-based Subgraph GNNs)"
    parts: ClassVar[tuple[reign.nn.AKPart, ...]] = ("centroid", "subgraph")
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
        parts: Sequence[reign.nn.AKPart] | None = None,
        combine: Literal["sum", "cat"] = "cat",
        aggregation: reign.nn.Aggregation = "sum",
        hop_channels: int | None = None,
        remark: bool = False,
        residual: reign.nn.Residual = "identity",
        domain: Domain = "members",
        **options: Unpack[reign.nn.PublishedEdgeOptions],
    ) -> None:
        dropout, norm = options.pop("dropout", 0.0), options.get("norm", "batch_norm")
        radius = policies.policy(policy).radius
        block = partial(
            reign.nn.AKKernel,
            inner_layers=inner_layers,
            inner_residual=bool(residual),
            parts=self.parts if parts is None else parts,
            combine=combine,
            aggregation=aggregation,
            hop_channels=self.hop_channels if hop_channels is None else hop_channels,
            max_distance=5 if radius is None else radius,
            dropout=dropout,
        )
        options.setdefault("pooling", partial(reign.nn.RootPooling, roots=aggregation))
        head = {"hidden": [hidden_channels], "norm": norm, "bias": norm is None, "input_dropout": dropout}
        layer = reign.nn.remarked(block, policy) if remark else block
        sizes = in_channels, hidden_channels, num_layers, out_channels
        super().__init__(*sizes, policy=policy, layer=layer, residual=residual, head=head, domain=domain, **options)


@reign.nn.MODELS.register("gnnakctxpublished", "GNN-AK-ctx (published)")
class GNNAKctxPublished(GNNAKPublished):
    """GNN-AK-ctx as published: GNN-AK as published, with the context."""

    parts = ("centroid", "subgraph", "context")


@reign.nn.MODELS.register("gnnakpluspublished", "GNN-AK+ (published)")
class GNNAKPlusPublished(GNNAKctxPublished):
    """GNN-AK+ as published: GNN-AK as published, with the context, embedded hop distances, and gates computed from them."""

    wl_bound = reign.nn.Model.wl_bound
    hop_channels = 16


# -- weights and settings of LingxiaoShawn/GNNAsKernel -------------------------------------------------------------------


def gnn_ak(w: Weights, config: Config, policy: str | None) -> reign.nn.Model:
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
