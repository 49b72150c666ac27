"""Flags, pooling, encoders, files, compilation: what the models can do beside being equivariant."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader

import reign
from reign.nn import (
    DS,
    DSS,
    GNNAK,
    IDGNN,
    MPNN,
    NGNN,
    OGB_ATOM,
    OGB_BOND,
    SUN,
    BatchNorm,
    SubgraphConv,
    SubgraphGNN,
    SUNConv,
    make_encoder,
    make_norm,
    normalise,
)
from reign.policies import NodeMarking, Sampled
from reign.testing import random_graphs


def batch(**options: Any) -> Batch:
    return Batch.from_data_list(random_graphs(6, min_nodes=3, seed=4, **options))


def run(model: nn.Module, data: Batch) -> torch.Tensor:
    return model(data.x, data.edge_index, data.edge_attr if "edge_attr" in data else None, data.batch)


# every flag of every constructor, with two values that must give different models or outputs
FLAGS: list[tuple[type, dict[str, Any], dict[str, Any]]] = [
    *[
        (SUN, {}, other)
        for other in (
            {"transpose": True}, {"readout": False}, {"transform": "linear"}, {"needle": "sum"}, {"policy": "nm"},
            {"conv": "gcn"}, {"act": "silu"}, {"norm": None}, {"norm": "layer_norm"}, {"jk": "cat"}, {"jk": "max"}, {"jk": "sum"},
            {"residual": True}, {"domain": "members"}, {"expansion": 2}, {"task_level": "node"}, {"task_level": "edge"},
            {"out_channels": 3}, {"num_layers": 3}, {"hidden_channels": 7}, {"edge_dim": 2},
        )
    ],
    *[(DS, {}, other) for other in ({"set_channels": (5,)}, {"invariance": "late"}, {"readout": "sum"}, {"set_channels": ()})],
    *[
        (DSS, {"policy": "ego:1"}, {"policy": "ego:1", **other})
        for other in ({"needle": "sum"}, {"aggregated_adjacency": True}, {"set_channels": (5,)}, {"readout": "sum"})
    ],
    *[(NGNN, {}, other) for other in ({"outer_layers": 2}, {"readout": "sum"}, {"graph_pooling": "sum"}, {"domain": "all"})],
    *[(IDGNN, {}, other) for other in ({"graph_pooling": "sum"}, {"policy": "ego+:1"})],
    *[
        (GNNAK, {"policy": "ego+:1"}, {"policy": "ego+:1", **other})
        for other in (
            {"inner_layers": 2}, {"combine": "sum"}, {"aggregation": "sum"}, {"remark": True}, {"graph_pooling": "sum"},
            {"domain": "all"},
        )
    ],
    *[(MPNN, {}, other) for other in ({"graph_pooling": "sum"}, {"conv": "graphconv"})],
    (SubgraphGNN, {"terms": ["own", "local"]}, {"terms": ["own", "transpose"]}),
    (SubgraphGNN, {"terms": ["own"]}, {"terms": ["own"], "root_terms": ["readout"]}),
    (SubgraphGNN, {"terms": ["own", "readout"]}, {"terms": ["own", "readout"], "aggregation": {"readout": "mean"}}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "one", "other"), FLAGS, ids=lambda v: v.__name__ if isinstance(v, type) else str(v))
def test_every_flag_changes_something(kind: type, one: dict[str, Any], other: dict[str, Any]) -> None:
    data = batch(edge_dim=2)
    outs = []
    for options in (one, other):
        sizes = {"in_channels": 3, "hidden_channels": 6, "num_layers": 2, "out_channels": 2}
        torch.manual_seed(0)
        model = kind(**(sizes | options))
        outs.append(run(model, data).detach())
    assert outs[0].shape != outs[1].shape or (outs[0] - outs[1]).abs().max() > 1e-4


def test_dropout_acts_in_training_alone() -> None:
    data, model = batch(), SUN(3, 6, 2, 2, dropout=0.5)
    assert not torch.equal(run(model, data), run(model, data))
    model.eval()
    assert torch.equal(run(model, data), run(model, data))


def test_without_a_head_the_pooled_vectors_come_out() -> None:
    assert run(SUN(3, 6, 2), batch()).shape == (6, 6)
    assert run(SUN(3, 6, 2, jk="cat"), batch()).shape == (6, 12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 0}, "num_layers is 0, expected a whole number of at least 1"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"jk": "lstm"}, "jk is 'lstm', expected None, 'last', 'cat', 'max' or 'sum'"),
        ({"task_level": "graphs"}, "task_level is 'graphs'"),
        ({"domain": "some"}, "domain is 'some'"),
        ({"norm": "group"}, "norm is 'group', expected 'batch_norm', 'layer_norm' or None"),
        ({"transform": "conv"}, "transform is 'conv', expected 'mlp' or 'linear'"),
        ({"terms": []}, "terms is \\[\\], expected a list of at least one name"),
        ({"terms": ["own", "locl"]}, "unknown term 'locl'; did you mean 'local'"),
        ({"terms": ["own+readout"]}, "'own\\+readout' cannot be merged, expected one of 'own\\+local'"),
        ({"aggregation": {"needle": "max"}}, "aggregation of 'needle' is 'max', expected 'sum' or 'mean'"),
        ({"policy": "ego"}, "needs a depth"),
        ({"node_encoder": "atoms"}, "encoder is 'atoms', expected a number of types"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import inspect

    sizes = {"in_channels": 3, "hidden_channels": 6, "num_layers": 2, "out_channels": 2}
    for kind in (SubgraphGNN, SubgraphConv, reign.nn.Model):  # as users run it, without the checks of signatures
        monkeypatch.setattr(kind, "__init__", inspect.unwrap(kind.__init__))
    monkeypatch.setattr(reign.nn._model, "make_encoder", inspect.unwrap(make_encoder))
    with pytest.raises(ValueError, match=message):
        SubgraphGNN(**(sizes | options))


def test_features_that_do_not_fit() -> None:
    data = batch()
    with pytest.raises(ValueError, match="x has 3 channels, expected in_channels=4"):
        run(SUN(4, 6, 2, 2), data)
    data.x = data.x.long()
    with pytest.raises(ValueError, match="x has dtype torch.int64, expected floating-point features; for types give node_encoder"):
        run(SUN(3, 6, 2, 2), data)
    with pytest.raises(ValueError, match="unknown model 'sunn'; did you mean 'sun'"):
        reign.build_model("sunn", 3, 6, 2)
    with pytest.raises(ValueError, match="edge_attr is None, expected floating-point numbers of shape \\(edges, 2\\)"):
        run(reign.nn.IGN2(3, 6, 2, 2, edge_dim=2), batch())


def test_names_of_models() -> None:
    for name in ("GNN-AK", "gnn_ak_ctx", "GNN-AK+", "ReIGN(2)", "SUN"):
        assert reign.build_model(name, 3, 6, 2).in_channels == 3


# -- encoders ------------------------------------------------------------------------------------------------------


def test_encoders_of_types() -> None:
    data = batch()
    data.x = torch.randint(0, 5, (data.num_nodes, 1))
    data.edge_attr = torch.randint(0, 3, (data.num_edges, 1))
    model = SUN(8, 6, 2, 2, node_encoder=5, edge_encoder=3)
    assert run(model, data).shape == (6, 2)
    data.x = torch.stack([torch.randint(0, size, (data.num_nodes,)) for size in OGB_ATOM], dim=1)
    data.edge_attr = torch.stack([torch.randint(0, size, (data.num_edges,)) for size in OGB_BOND], dim=1)
    assert run(SUN(8, 6, 2, 2, node_encoder="atom", edge_encoder="bond"), data).shape == (6, 2)
    with pytest.raises(ValueError, match="the encoder has 1 columns of types, got features of shape"):
        run(model, data)
    own = nn.Linear(9, 8)
    data.x = data.x.float()
    assert SUN(8, 6, 2, 2, node_encoder=own).node_encoder is own
    assert run(SUN(8, 6, 2, 2, node_encoder=lambda channels: nn.Linear(9, channels)), data).shape == (6, 2)


# -- norms ---------------------------------------------------------------------------------------------------------


def test_batch_norm_over_some_rows() -> None:
    norm, plain = BatchNorm(3), nn.BatchNorm1d(3)
    x, rows = torch.randn(6, 3), torch.tensor([0, 2, 3])
    out = normalise(norm, x, rows)
    assert torch.equal(out[rows], plain(x[rows]))
    assert torch.equal(norm.running_mean, plain.running_mean)
    assert (out[[1, 4, 5]] == 0).all()
    before = norm.running_mean.clone()
    assert norm(x[:1]).isfinite().all()
    assert torch.equal(norm.running_mean, before)
    assert norm(x[:0]).shape == (0, 3)
    assert make_norm("LayerNorm", 3)(x).mean(1).abs().max() < 1e-6


# -- sampled bags, prepared bags, loaders -----------------------------------------------------------------------------


def test_sampled_policies_follow_the_mode_of_the_model() -> None:
    data = batch()
    torch.manual_seed(0)
    model = DS(3, 6, 2, 2, policy=Sampled(NodeMarking(), share=0.5))
    assert not torch.equal(run(model, data), run(model, data))
    model.eval()
    full = DS(3, 6, 2, 2, policy="nm").eval()
    full.load_state_dict(model.state_dict())
    assert torch.equal(run(model, data), run(full, data))


def test_evaluation_with_several_draws_is_their_mean() -> None:
    data = batch()
    model = DS(3, 6, 2, 2, policy=Sampled(NodeMarking(), share=0.5, eval_draws=3)).eval()
    expected = torch.stack([model(data.x, data.edge_index, bag=model.policy.from_data(data)) for _ in range(3)]).mean(0)
    torch.testing.assert_close(run(model, data), expected)


def test_sun_with_sampled_roots_says_what_it_needs() -> None:
    with pytest.raises(ValueError, match="SUN needs one subgraph per node, got .* policy 'nm@0.5' is not node-based"):
        run(SUN(3, 6, 2, 2, policy="nm@0.5"), batch())
    assert run(IDGNN(3, 6, 2, 2, policy="ego+:2@0.5"), batch()).shape == (6, 2)
    roots_of_their_own = SubgraphGNN(
        3, 6, 2, 2, policy="nm@0.5", terms=["own+local", "needle"], root_terms=["own", "needle+needle_msg"]
    )
    assert run(roots_of_their_own, batch()).shape == (6, 2)


def test_a_prepared_bag_gives_the_same() -> None:
    data = batch(edge_dim=2)
    model = SUN(3, 6, 2, 2, edge_dim=2).eval()
    bag = model.policy.from_data(data)
    assert torch.equal(model(data.x, data.edge_index, bag=bag), run(model, data))


def test_any_pyg_loader() -> None:
    loader = DataLoader(random_graphs(7, min_nodes=2), batch_size=3)
    model = SUN(3, 6, 2, 2).eval()
    assert [len(run(model, data)) for data in loader] == [3, 3, 1]


def test_layers_on_their_own() -> None:
    bag = reign.policy("nm").from_data(batch())
    layer = SUNConv(5, 7)
    assert layer(bag.x, bag).shape == (bag.num_pairs, 7)
    assert "SUNConv(5 -> 7, terms=['node_root', 'root', 'own', 'readout'" in repr(layer)


# -- describe ------------------------------------------------------------------------------------------------------


def test_describe() -> None:
    model = SUN(64, 64, 6, 1, policy="ego:3", node_encoder=21, edge_encoder=4)
    text = model.describe()
    assert "525,913 parameters" in text  # as many as the authors' model has
    assert "GIN(x[k,i], sum_{j ~_k i} x[k,j])" in text
    assert "GIN(mean_h x[h,i], sum_{j ~ i} mean_h x[h,j])" in text
    assert "node_root, 8,448 parameters, on nodes" in text
    assert "cost: 5 passes over pairs, 2 passes over subgraphs, 3 passes over nodes, 5 passes over roots" in text
    for name in reign.list_models():
        model = reign.build_model(name, 3, 6, 2, 1)
        text = model.describe()
        assert "x[k,i] <- " in text
        assert f"{sum(p.numel() for p in model.parameters()):,} parameters" in text
        assert ("x[i,i] <- " in text) == (name in ("sun", "reign2", "ign2"))


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", reign.list_models())
def test_saved_models_come_back(name: str, tmp_path: Path) -> None:
    data = batch()
    model = reign.build_model(name, 3, 6, 2, 2)
    run(model, data)
    model.eval().save_pretrained(tmp_path / "model")
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == ["config.json", "model.safetensors"]
    again = type(model).from_pretrained(tmp_path / "model")
    assert not again.training
    assert type(again) is type(model)
    assert torch.equal(run(again, data), run(model, data))


def test_options_are_saved_too(tmp_path: Path) -> None:
    data = batch()
    model = SUN(
        3, 6, 2, 2, policy=NodeMarking(mark="distance", max_distance=3), transpose=True, act="silu", jk="cat", residual=True
    )
    model.eval().save_pretrained(tmp_path)
    again = SubgraphGNN.from_pretrained(tmp_path)
    assert type(again) is SUN
    assert torch.equal(run(again, data), run(model, data))
    with pytest.raises(ValueError, match="holds a SUN, expected a DS; use SUN.from_pretrained"):
        DS.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match="holds no config.json and model.safetensors"):
        SUN.from_pretrained(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        SUN(8, 6, 2, node_encoder=nn.Linear(3, 8)).save_pretrained(tmp_path)


def test_models_can_be_copied_and_pickled() -> None:
    data, model = batch(), SUN(3, 6, 2, 2).eval()
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(run(again, data), run(model, data))


# -- learning ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", reign.list_models())
def test_twenty_graphs_can_be_learned_by_heart(name: str) -> None:
    data = Batch.from_data_list(random_graphs(20, min_nodes=4, max_nodes=9, edge_prob=0.4, seed=1))
    torch.manual_seed(0)
    model = reign.build_model(name, 3, 32, 2, 1)
    target = torch.randn(20, 1)
    bag = model.policy.from_data(data, domain=model.domain)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(500):
        loss = (model(data.x, data.edge_index, bag=bag) - target).pow(2).mean()
        if loss < 0.01 * target.var():
            break
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.01 * target.var()


# -- what users stumbled over ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [reign.nn.IGN2, reign.nn.PPGN])
def test_types_of_edges_reach_models_of_tensors(kind: type) -> None:
    torch.manual_seed(0)
    model = kind(3, 6, 2, 1, edge_encoder=4).eval()
    data = reign.testing.random_graphs(1, min_nodes=6, num_features=3)[0]
    types = torch.zeros(data.num_edges, 1, dtype=torch.long)
    plain, other = (model(data.x, data.edge_index, t) for t in (types, types + 3))
    assert (plain - other).abs().max() > 1e-6


def test_options_that_would_be_ignored_are_refused() -> None:
    with pytest.raises(ValueError, match="SUN has layers of its own, got aggregation="):
        SUN(3, 6, 2, aggregation={"readout": "mean"})
    with pytest.raises(ValueError, match="IGN2 has no use for conv='gin'"):
        reign.nn.IGN2(3, 6, 2, conv="gin")
    with pytest.raises(ValueError, match="MPNN has no use for policy='nm'"):
        MPNN(3, 6, 2, policy="nm")
    with pytest.raises(ValueError, match="edge features .* are used by base encoders only"):
        SubgraphGNN(3, 6, 2, terms=["own", "local"], edge_dim=2)
    with pytest.raises(ValueError, match="the mean of \\['local'\\] needs conv='gin' or 'graphconv'"):
        SubgraphGNN(3, 6, 2, terms=["own+local"], aggregation={"local": "mean"}, edge_dim=2)
    with pytest.raises(ValueError, match="remark=True needs a policy with marks"):
        GNNAK(3, 6, 2, remark=True)
    with pytest.raises(ValueError, match="edge_encoder is a module, but every base encoder needs one of its own"):
        SUN(3, 6, 2, edge_encoder=nn.Linear(2, 6))


def test_types_out_of_range_are_named() -> None:
    data = batch()
    model = SUN(8, 6, 2, 2, node_encoder=5)
    with pytest.raises(ValueError, match="types in column 0 go from 7 to 7, expected 0 to 4"):
        model(torch.full((data.num_nodes, 1), 7), data.edge_index, batch=data.batch)
    with pytest.raises(ValueError, match="types must be whole numbers, got 0.5"):
        model(torch.full((data.num_nodes, 1), 0.5), data.edge_index, batch=data.batch)


def test_a_bag_must_be_that_of_the_batch_and_the_policy() -> None:
    data, model = batch(), SUN(3, 6, 2, 2, policy="ego+:2")
    with pytest.raises(ValueError, match="the bag was made by policy 'nm', expected 'ego\\+:2'"):
        model(data.x, data.edge_index, bag=reign.policy("nm").from_data(data))
    with pytest.raises(ValueError, match="made of another batch"):
        model(data.x, data.edge_index[:, 1:], bag=model.policy.from_data(data))
    with pytest.raises(ValueError, match="x has dtype torch.float64 and the model torch.float32"):
        model(data.x.double(), data.edge_index)


def test_a_bag_seen_in_inference_mode_can_be_trained_on() -> None:
    for name in reign.list_models():
        data, model = batch(), reign.build_model(name, 3, 6, 2, 2)
        bag = model.policy.from_data(data, domain=model.domain)
        with torch.inference_mode():
            model.eval()(data.x, data.edge_index, bag=bag)
        model.train()(data.x, data.edge_index, bag=bag).sum().backward()
        assert all(p.grad is not None for p in model.parameters())


def test_second_derivatives() -> None:
    data = Batch.from_data_list(random_graphs(2, min_nodes=3, max_nodes=4, dtype=torch.float64))
    model = SUN(3, 4, 2, 1, act="tanh", norm=None).double()
    bag = model.policy.from_data(data)
    assert torch.autograd.gradgradcheck(lambda x: model(x, data.edge_index, bag=bag), data.x.clone().requires_grad_())


def test_set_networks_of_several_widths() -> None:
    for invariance in ("early", "late"):
        assert run(DS(3, 6, 2, 2, set_channels=(8, 12), invariance=invariance), batch()).shape == (6, 2)


def test_norms_can_be_replaced_by_synchronised_ones() -> None:
    model = nn.SyncBatchNorm.convert_sync_batchnorm(SUN(3, 6, 2, 2)).eval()
    assert run(model, batch()).shape == (6, 2)


def test_bags_go_when_nobody_holds_them() -> None:
    import gc
    import weakref

    data, model = batch(), SUN(3, 6, 2, 2)
    bag = model.policy.from_data(data)
    model(data.x, data.edge_index, bag=bag).sum().backward()
    gone = weakref.ref(bag)
    gc.disable()
    try:
        del bag
        assert gone() is None
    finally:
        gc.enable()


def test_saving_keeps_precision_and_refuses_policies_without_a_name(tmp_path: Path) -> None:
    SUN(3, 6, 2, 2).double().save_pretrained(tmp_path / "double")
    assert next(SUN.from_pretrained(tmp_path / "double").parameters()).dtype == torch.float64
    with pytest.raises(ValueError, match="has no name to be saved under"):
        DS(3, 6, 2, 2, policy=Sampled(NodeMarking(), share=0.5, seed=3)).save_pretrained(tmp_path / "sampled")


def test_distances_beyond_the_cap_are_the_same_in_both_domains() -> None:
    path = torch.stack([torch.arange(9), torch.arange(1, 10)])
    for domain in ("all", "members"):
        bag = NodeMarking()(torch.ones(10, 1), path, domain=domain)
        assert bag.hops(5)[:10].tolist() == [0, 1, 2, 3, 4, 5, 5, 5, 5, 5]
