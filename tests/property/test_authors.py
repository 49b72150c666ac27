"""Peers as published, made of random arrays and all settings of their authors, against plain dense formulas on directed graphs."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch

from property.authors_reference import BONDS, FORMULAS, TYPES, Arrays, Config, dense, hops
from property.directed import directed_graphs
from reign.interop import from_authors
from reign.nn import Model, PPGNPublished

AK: Config = {
    "nfeat_node": None, "nfeat_edge": None, "nhid": 6, "nout": 2, "nlayer_outer": 2, "nlayer_inner": 1, "gnn_types": ["GINEConv"],
    "dropout": 0, "hop_dim": 0, "node_embedding": False, "use_normal_gnn": False, "bn": True, "vn": False, "res": True, "pooling": "add",
    "embs": [0, 1], "embs_combine_mode": "concat", "mlp_layers": 1, "subsampling": False, "online": True,
}  # fmt: skip
OGB: Config = {
    "num_tasks": 2, "num_layer": 2, "emb_dim": 6, "gnn_type": "gin", "virtual_node": True, "residual": False, "drop_ratio": 0.0,
    "JK": "last", "graph_pooling": "mean", "subgraph_pooling": "mean", "use_rd": True, "use_rp": None, "RNI": False,
}  # fmt: skip
ID: Config = {
    "gnn.layers_pre_mp": 1, "gnn.layers_mp": 2, "gnn.layers_post_mp": 2, "gnn.dim_inner": 6, "gnn.stage_type": "stack",
    "gnn.batchnorm": True, "gnn.act": "relu", "gnn.dropout": 0.0, "gnn.agg": "add", "gnn.normalize_adj": False, "gnn.l2norm": True,
    "model.graph_pooling": "add", "dataset.transform": "ego", "dataset.task": "graph", "dataset.node_encoder": False,
}  # fmt: skip
LAYER_TYPES = {"idgnn_idconv": "idconv", "idgnn_gcn": "gcnidconv", "idgnn_gin": "ginidconv"}
DEGREES, DISTANCES = (
    f"{TYPES + 1} channels, loader of the benchmark graphs",
    f"{TYPES + 2 + BONDS} channels, layout of the QM9 loader",
)
TENSOR: Config = {"num_atom_types": TYPES, "num_bond_types": BONDS, "input": DISTANCES}


def ak(depth: int = 2, **options: Any) -> Config:
    return {"constructor": AK | options, "hops": depth}


def swl(layer: list[str], **options: Any) -> Config:
    return {"layer": layer, "num_layer": 2, "dim_embed": 6, "max_dis": 5, "pool": "uG", "constructor": {"encode": True}} | options


def tu(depth: int = 2, label: str = "hop", use_rd: bool = False, **options: Any) -> Config:
    sizes = {"num_features": TYPES, "num_classes": 3, "num_layers": 2, "hidden": 6, "use_z": True, "use_rd": use_rd}
    return {"constructor": sizes | options, "subgraphs": {"h": depth, "node_label": label, "use_rd": use_rd}, "dropout": 0}


def ogb(depth: int = 2, label: str = "spd", **options: Any) -> Config:
    c = OGB | options
    return {"constructor": c, "subgraphs": {"h": depth, "node_label": label, "use_rd": c["use_rd"]}}


def ident(kind: str, depth: int = 2, **options: Any) -> Config:
    given = {name.replace("__", "."): value for name, value in options.items()}
    return {
        "constructor": {"dim_in": TYPES, "dim_out": 2},
        "cfg": ID | {"gnn.layer_type": LAYER_TYPES[kind]} | given,
        "hops": depth,
    }


def power(new: bool, widths: list[int], depth: int = 2, **options: Any) -> Config:
    architecture = {"new_suffix": new, "block_features": widths, "depth_of_mlp": depth}
    return TENSOR | {"config_object": {"architecture": architecture, "num_classes": 2}} | options


def ign(**options: Any) -> Config:
    return TENSOR | {"architecture": [4, 6], "normalization": "inf"} | options


PLUS: Config = {"embs": [0, 1, 2], "hop_dim": 3}
CASES: list[tuple[str, Config]] = [
    ("gnn_ak", ak()),
    ("gnn_ak", ak(1, nlayer_inner=2, nlayer_outer=1, nout=1)),
    ("gnn_ak", ak(3, pooling="mean")),
    ("gnn_ak", ak(embs_combine_mode="add", res=False)),
    ("gnn_ak", ak(embs=[0])),
    ("gnn_ak", ak(embs=[1], pooling="mean", embs_combine_mode="add")),
    ("gnn_ak_ctx", ak(embs=[0, 1, 2])),
    ("gnn_ak_ctx", ak(embs=[2, 0], pooling="mean")),
    ("gnn_ak_ctx", ak(embs=[1, 2], embs_combine_mode="add", nlayer_inner=2)),
    ("gnn_ak_plus", ak(**PLUS)),
    ("gnn_ak_plus", ak(1, **PLUS, nlayer_inner=2, pooling="mean")),
    ("gnn_ak_plus", ak(3, embs=[0, 1], hop_dim=2, res=False)),
    ("gnn_ak_plus", ak(embs=[2], hop_dim=3)),
    ("gnn_ak_plus_molhiv", ak(embs=[0, 2], hop_dim=3, pooling="mean", embs_combine_mode="add")),
    ("gnn_ak_plus_molhiv", ak(**PLUS, embs_combine_mode="add")),
    ("sswl", swl(["uL", "vL"])),
    ("sswl", swl(["vL"], max_dis=1, num_layer=1)),
    ("sswl", swl(["uL", "vv"], max_dis=2)),
    ("sswl_plus", swl(["uL", "vL", "vv"])),
    ("sswl_plus", swl(["vv", "vL", "uL"], num_layer=3)),
    ("sswl_plus", swl(["uL", "vL", "vv", "uu", "vu", "uG", "vG"], pool="vG")),
    ("sswl_plus", swl(["vv"])),
    ("ngnn_tu", tu()),
    ("ngnn_tu", tu(3, "spd", use_rd=True)),
    ("ngnn_tu", tu(1, "spd", num_layers=1)),
    ("ngnn_tu", tu(use_rd=True, num_layers=3)),
    ("ngnn_tu", tu(use_z=False, use_rd=True)),
    ("ngnn_tu", tu(use_z=False)),
    ("ngnn_ogb", ogb()),
    ("ngnn_ogb", ogb(3, "hop", residual=True, num_layer=3)),
    ("ngnn_ogb", ogb(1, virtual_node=False, use_rd=False)),
    ("ngnn_ogb", ogb(virtual_node=False, residual=True, graph_pooling="sum")),
    ("ngnn_ogb", ogb(label="hop", subgraph_pooling="sum", use_rd=False)),
    ("ngnn_ogb", ogb(num_layer=1, graph_pooling="sum", subgraph_pooling="sum")),
    *((kind, ident(kind)) for kind in LAYER_TYPES),
    *((kind, ident(kind, 3, gnn__layers_mp=3, gnn__l2norm=False, model__graph_pooling="mean")) for kind in LAYER_TYPES),
    *((kind, ident(kind, 1, gnn__layers_pre_mp=2, gnn__layers_mp=1, gnn__layers_post_mp=1)) for kind in LAYER_TYPES),
    *((kind, ident(kind, gnn__layers_pre_mp=0, gnn__layers_post_mp=3)) for kind in LAYER_TYPES),
    ("ppgn", power(True, [6, 6], input=DEGREES)),
    ("ppgn", power(True, [4, 7, 5], depth=1)),
    ("ppgn_old_suffix", power(False, [6, 5])),
    ("ppgn_old_suffix", power(False, [4], depth=3, input=DEGREES)),
    ("ign2", ign()),
    ("ign2", ign(normalization=None, architecture=[5], input=DEGREES)),
    ("ign2", ign(normalization=None)),
    ("ign2_port", ign(normalization="inf (default)")),
    ("ign2_port", ign(architecture=[3, 4, 5], input=DEGREES)),
]


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(("name", "config"), CASES)
def test_settings_of_authors(name: str, config: Config) -> None:
    """Outputs and gradients of all weights in evaluation and in training mode, and the running statistics after a step."""
    made, formula = directed_graphs(TYPES, BONDS), FORMULAS[name]
    batch, dense_graphs = Batch.from_data_list(made), [dense(data, hops(config)) for data in made]
    theirs = Arrays()
    with torch.no_grad():
        formula(theirs, dense_graphs, config)
    model = from_authors(theirs.arrays, name, config=config)
    weights = {key: value.requires_grad_() for key, value in theirs.arrays.items() if "running" not in key}
    still = {key: value for key, value in theirs.arrays.items() if "running" in key}
    for training in (False, True):
        theirs.training = training
        out = model.train(training)(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
        expected = formula(theirs, dense_graphs, config)
        close(out, expected)
        assert (out.amax(0) - out.amin(0)).max() > 1e-2
        way = torch.linspace(-1, 2, out.numel(), dtype=torch.float64).view_as(out)
        model.zero_grad()
        (out * way).sum().backward()
        slopes = torch.autograd.grad((expected * way).sum(), list(weights.values()), materialize_grads=True)
        compare(model, from_authors(dict(zip(weights, slopes, strict=True)) | still, name, config=config))
    found, after = model.state_dict(), from_authors(weights | theirs.after, name, config=config).state_dict()
    for key in (key for key in found if "running" in key):
        close(found[key], after[key])


def compare(model: Model, slopes: Model) -> None:
    """The gradients of the weights of a model, and the same out of the authors' arrays."""
    expected = slopes.state_dict()
    for key, weight in model.named_parameters():
        if weight.requires_grad:
            several = isinstance(model, PPGNPublished) and model.jk == "cat" and key == "head.lin1.bias"  # it is the sum of theirs
            close(
                torch.zeros_like(weight) if weight.grad is None else weight.grad,
                expected[key] / (len(model.layers) if several else 1),
            )


DROPOUTS = [
    ("gnn_ak", ak(), "constructor", "dropout"),
    ("ngnn_ogb", ogb(), "constructor", "drop_ratio"),
    ("ngnn_tu", tu(), "", "dropout"),
    ("idgnn_gin", ident("idgnn_gin"), "cfg", "gnn.dropout"),
]


@pytest.mark.parametrize(("name", "config", "part", "key"), DROPOUTS)
def test_dropout_of_authors_is_on_in_training_only(name: str, config: Config, part: str, key: str) -> None:
    made, theirs, dropped = directed_graphs(TYPES, BONDS), Arrays(), deepcopy(config)
    batch = Batch.from_data_list(made)
    FORMULAS[name](theirs, [dense(data, hops(config)) for data in made], config)
    (dropped[part] if part else dropped)[key] = 0.5
    for training in (False, True):
        plain, other = (from_authors(theirs.arrays, name, config=given).train(training) for given in (config, dropped))
        outs = [model(batch.x, batch.edge_index, batch.edge_attr, batch.batch) for model in (plain, other)]
        assert torch.equal(*outs) != training


def test_ngnn_for_tu_sets_has_its_dropout() -> None:
    """The published one is fixed; settings that say in words that it is off have none."""
    made, theirs, config = directed_graphs(TYPES, BONDS), Arrays(), tu()
    FORMULAS["ngnn_tu"](theirs, [dense(data, 2) for data in made], config)
    del config["dropout"]
    assert from_authors(theirs.arrays, "ngnn_tu", config=config).head.dropout.p == 0.5
    assert from_authors(theirs.arrays, "ngnn_tu", config=config | {"dropout": "switched off"}).head.dropout.p == 0


# what the authors' code knows, and nothing here says what it is: a setting, and what is expected in its place
REFUSED: list[tuple[str, Config, str]] = [
    ("gnn_ak", ak(vn=True), "vn=True, expected False"),
    ("gnn_ak", ak(use_normal_gnn=True), "use_normal_gnn=True, expected False"),
    ("gnn_ak", ak(bn=False), "bn=False, expected True"),
    ("gnn_ak", ak(mlp_layers=2), "mlp_layers=2, expected 1"),
    ("gnn_ak", ak(subsampling=True), "subsampling=True, expected False"),
    ("gnn_ak", ak(node_embedding=True), "node_embedding=True, expected False"),
    ("gnn_ak", ak(nfeat_node=9), "nfeat_node=9, expected None"),
    ("gnn_ak", ak(nfeat_edge=4), "nfeat_edge=4, expected None"),
    ("gnn_ak", ak(gnn_types=["GCNConv"]), r"gnn_types=\['GCNConv'\], expected \['GINEConv'\]"),
    ("gnn_ak", ak(embs_combine_mode="max"), "embs_combine_mode='max', expected 'concat' or 'add'"),
    ("gnn_ak", ak(pooling="max"), "pooling='max', expected 'add' or 'mean'"),
    ("gnn_ak", ak(embs=[0, 3]), r"embs=\[0, 3\], expected one or several of 0, 1 and 2"),
    ("sswl", swl(["uL", "uv"]), "layer='uv', expected 'uL' or 'vL' or 'vv' or"),
    ("sswl", swl(["uL"], pool="uL"), "pool='uL', expected 'uG' or 'vG'"),
    ("sswl", swl(["uL"], constructor={"encode": False}), "encode=False, expected True"),
    ("ngnn_tu", tu(label="drnl"), "node_label='drnl', expected 'hop' or 'spd'"),
    ("ngnn_ogb", ogb(label="drnl"), "node_label='drnl', expected 'hop' or 'spd'"),
    ("ngnn_ogb", ogb(gnn_type="gcn"), "gnn_type='gcn', expected 'gin'"),
    ("ngnn_ogb", ogb(JK="sum"), "JK='sum', expected 'last'"),
    ("ngnn_ogb", ogb(graph_pooling="attention"), "graph_pooling='attention', expected 'mean' or 'sum'"),
    ("ngnn_ogb", ogb(subgraph_pooling="max"), "subgraph_pooling='max', expected 'mean' or 'sum'"),
    ("ngnn_ogb", ogb(use_rp=3), "use_rp=3, expected None or False"),
    ("ngnn_ogb", ogb(RNI=True), "RNI=True, expected False"),
    ("idgnn_gin", ident("idgnn_gin", gnn__layer_type="gatidconv"), "gnn.layer_type='gatidconv', expected 'idconv' or 'gcnidconv' or 'gin"),
    ("idgnn_gin", ident("idgnn_gin", gnn__stage_type="skipsum"), "gnn.stage_type='skipsum', expected 'stack'"),
    ("idgnn_gin", ident("idgnn_gin", gnn__batchnorm=False), "gnn.batchnorm=False, expected True"),
    ("idgnn_gin", ident("idgnn_gin", gnn__act="prelu"), "gnn.act='prelu', expected 'relu'"),
    ("idgnn_gin", ident("idgnn_gin", gnn__agg="mean"), "gnn.agg='mean', expected 'add'"),
    ("idgnn_gin", ident("idgnn_gin", gnn__normalize_adj=True), "gnn.normalize_adj=True, expected False"),
    ("idgnn_gin", ident("idgnn_gin", model__graph_pooling="max"), "model.graph_pooling='max', expected 'add' or 'mean'"),
    ("idgnn_gin", ident("idgnn_gin", dataset__transform="none"), "dataset.transform='none', expected 'ego'"),
    ("idgnn_gin", ident("idgnn_gin", dataset__task="node"), "dataset.task='node', expected 'graph'"),
    ("ppgn", power(True, [6], input="9 channels"), "input='9 channels', expected '6 channels' or '10 channels'"),
    ("ign2", ign(normalization="sym"), "normalization='sym', expected 'inf' or None"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "config", "message"), REFUSED)
def test_settings_that_are_refused_by_name(name: str, config: Config, message: str) -> None:
    arrays = {"pool.predict.output.weight": torch.zeros(2, 12)}
    arrays |= {"encode.embed_v.atom_embedding_list.0.weight": torch.zeros(5, 6), "fully3.weight": torch.zeros(2, 4)}
    arrays |= {"A0.enc.uL.embed.bond_embedding_list.0.weight": torch.zeros(3, 6)}
    with pytest.raises(ValueError, match=message):
        from_authors(arrays, name, config=config)


def test_arrays_that_the_settings_have_no_use_for() -> None:
    def made(name: str, config: Config) -> dict[str, Tensor]:
        theirs = Arrays()
        FORMULAS[name](theirs, [dense(data, hops(config)) for data in directed_graphs(TYPES, BONDS)], config)
        return theirs.arrays

    with pytest.raises(
        ValueError, match="params hold 2 arrays that a 'ngnn_tu' does not have, the first is 'rd_projection.weight'"
    ):
        from_authors(made("ngnn_tu", tu(use_rd=True)), "ngnn_tu", config=tu())
    with pytest.raises(ValueError, match="params hold 1 arrays that a 'ngnn_tu' does not have, the first is 'z_embedding.weight'"):
        from_authors(made("ngnn_tu", tu()), "ngnn_tu", config=tu(use_z=False))
    with pytest.raises(ValueError, match="params lack the array 'gnn_node.rd_projection.weight'"):
        from_authors(made("ngnn_ogb", ogb(use_rd=False)), "ngnn_ogb", config=ogb())
    bias, deep = "subgraph_layers.0.out_encoder.layers.0.bias", "subgraph_layers.0.subgraph_transform.layers.1.weight"
    for extra in (bias, deep):
        with pytest.raises(ValueError, match=f"params hold 1 arrays that a 'gnn_ak' does not have, the first is '{extra}'"):
            from_authors(made("gnn_ak", ak()) | {extra: torch.zeros(6)}, "gnn_ak", config=ak())
    with pytest.raises(ValueError, match="policy is 'ego:2', expected None: PPGN and 2-IGN take all pairs of nodes"):
        from_authors(made("ign2", ign()), "ign2", "ego:2", config=ign())


def test_a_table_of_hops_may_end_with_those_of_ego_nets() -> None:
    made, theirs, config = directed_graphs(TYPES, BONDS), Arrays(), tu()
    FORMULAS["ngnn_tu"](theirs, [dense(data, 2) for data in made], config)
    table = theirs.arrays["z_embedding.weight"]
    batch, outs = Batch.from_data_list(made), []
    for rows in (4, 3):  # hops 0, 1 and 2 can occur
        model = from_authors(theirs.arrays | {"z_embedding.weight": table[:rows]}, "ngnn_tu", config=config)
        outs.append(model(batch.x, batch.edge_index, None, batch.batch))
    assert torch.equal(*outs)
    with pytest.raises(ValueError, match=r"params have shape \(2, 8\) for our 'labels.embedding.weight', expected \(4, 8\)"):
        from_authors(theirs.arrays | {"z_embedding.weight": table[:2]}, "ngnn_tu", config=config)


def test_ego_nets_of_id_gnn_are_as_deep_as_its_layers() -> None:
    """If the settings do not say more; beyond 4 hops it is the whole graph."""
    for layers, policy in ((2, "ego:2"), (4, "ego:4"), (5, "null")):
        theirs, config = Arrays(), ident("idgnn_gin", gnn__layers_mp=layers)
        FORMULAS["idgnn_gin"](theirs, [dense(data, layers) for data in directed_graphs(TYPES, BONDS)], config)
        assert str(from_authors(theirs.arrays, "idgnn_gin", config=config).policy) == "ego:2"
        del config["hops"]
        assert str(from_authors(theirs.arrays, "idgnn_gin", config=config).policy) == policy
