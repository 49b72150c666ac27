"""What every model takes and does: its arguments, modes, bags and loaders."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader

import reign
from model_inputs import batch, run
from reign.nn import DS, DSS, GNNAK, IDGNN, MPNN, NGNN, SUN, GNNAKPublished, SubgraphConv, SubgraphGNN, make_encoder
from reign.policies import NodeMarking, Sampled
from reign.testing import random_graphs

# every flag of every constructor, with two values that must give different models or outputs
FLAGS: list[tuple[type, dict[str, Any], dict[str, Any]]] = [
    *[
        (SUN, {}, other)
        for other in (
            {"transpose": True}, {"readout": False}, {"transform": "linear"}, {"needle": "sum"}, {"policy": "nm"},
            {"conv": "gcn"}, {"act": "silu"}, {"norm": None}, {"norm": "layer_norm"}, {"jk": "cat"}, {"jk": "cat+input"}, {"jk": "max"}, {"jk": "sum"},
            {"residual": True}, {"domain": "members"}, {"expansion": 2}, {"task_level": "node"}, {"task_level": "edge"},
            {"out_channels": 3}, {"num_layers": 3}, {"hidden_channels": 7}, {"edge_dim": 2},
        )
    ],
    *[(DS, {}, other) for other in ({"set_channels": (5,)}, {"invariance": "late"}, {"readout": "sum"}, {"subgraphs": "sum"}, {"set_channels": ()})],
    *[
        (DSS, {"policy": "ego:1"}, {"policy": "ego:1", **other})
        for other in ({"needle": "sum"}, {"aggregated_adjacency": True}, {"set_channels": (5,)}, {"readout": "sum"})
    ],
    *[(NGNN, {}, other) for other in ({"outer_layers": 2}, {"readout": "mean"}, {"graph_pooling": "mean"}, {"domain": "all"})],
    *[(IDGNN, {}, other) for other in ({"graph_pooling": "mean"}, {"policy": "ego+:1"})],
    *[
        (GNNAK, {"policy": "ego+:1"}, {"policy": "ego+:1", **other})
        for other in (
            {"inner_layers": 2}, {"combine": "sum"}, {"combine": "linear"}, {"aggregation": "mean"}, {"remark": True},
            {"graph_pooling": "mean"}, {"domain": "members"}, {"end_norm": True}, {"policy": "ego+single:1"},
        )
    ],
    (GNNAK, {"act": "silu"}, {"act": "silu", "end_act": True}),
    (GNNAKPublished, {"policy": "ego+:1"}, {"policy": "ego+:1", "remark": True}),
    *[(MPNN, {}, other) for other in ({"graph_pooling": "sum"}, {"conv": "graphconv"})],
    (SubgraphGNN, {"terms": ["own", "local"]}, {"terms": ["own", "transpose"]}),
    (SubgraphGNN, {"terms": ["own"]}, {"terms": ["own"], "root_terms": ["readout"]}),
    (SubgraphGNN, {"terms": ["own", "readout"]}, {"terms": ["own", "readout"], "aggregation": {"readout": "mean"}}),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:edge_attr was given")  # which is not what is tested here
@pytest.mark.parametrize(("kind", "one", "other"), FLAGS, ids=lambda v: v.__name__ if isinstance(v, type) else str(v))
def test_every_flag_changes_something(kind: type, one: dict[str, Any], other: dict[str, Any]) -> None:
    """With equal weights where both models have them, so that it is the flag that makes the difference, not the draw."""
    data, sizes = batch(edge_dim=2), {"in_channels": 3, "hidden_channels": 6, "num_layers": 2, "out_channels": 2}
    first, second = (kind(**(sizes | options)) for options in (one, other))
    theirs = second.state_dict()
    shared = {name: value for name, value in first.state_dict().items() if name in theirs and theirs[name].shape == value.shape}
    second.load_state_dict(theirs | shared)
    outs = [run(model, data) for model in (first, second)]
    assert outs[0].shape != outs[1].shape or (outs[0] - outs[1]).abs().max() > 1e-4
    outs[1].pow(2).sum().backward()
    for name, weight in second.named_parameters():  # what the flag adds is used
        assert name in shared or weight.dim() < 2 or weight.grad.abs().max() > 0, name


def test_dropout_acts_in_training_alone() -> None:
    data, model = batch(), SUN(3, 6, 2, 2, dropout=0.5)
    assert not torch.equal(run(model, data), run(model, data))
    model.eval()
    assert torch.equal(run(model, data), run(model, data))


@pytest.mark.parametrize(("jk", "channels"), [(None, 6), ("cat", 12)])
def test_without_a_head_the_pooled_vectors_come_out(jk: str | None, channels: int) -> None:
    whole, pooled = SUN(3, 6, 2, 2, jk=jk).eval(), SUN(3, 6, 2, jk=jk).eval()
    missing, more = pooled.load_state_dict(whole.state_dict(), strict=False)
    assert missing == []
    assert all(name.startswith("head.") for name in more)
    vectors = run(pooled, batch())
    assert vectors.shape == (6, channels)
    assert torch.equal(whole.head(vectors), run(whole, batch()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 0}, "num_layers is 0, expected a whole number of at least 1"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"jk": "lstm"}, "jk is 'lstm', expected None, 'last', 'cat', 'cat\\+input', 'max' or 'sum'"),
        ({"task_level": "graphs"}, "task_level is 'graphs'"),
        ({"domain": "some"}, "domain is 'some'"),
        ({"norm": "group"}, "norm is 'group', expected 'batch_norm', 'layer_norm' or None"),
        ({"transform": "conv"}, "transform is 'conv', expected 'mlp' or 'linear'"),
        ({"terms": []}, "terms is \\[\\], expected a list of at least one name"),
        ({"terms": ["own", "locl"]}, "unknown term 'locl'; did you mean 'local'"),
        ({"terms": ["own+total"]}, "'own\\+total' cannot be merged, expected one of 'own\\+local'"),
        ({"aggregation": {"needle": "max"}}, "aggregation of 'needle' is 'max', expected 'sum' or 'mean'"),
        ({"policy": "ego"}, "needs a depth"),
        ({"node_encoder": "atoms"}, "encoder is 'atoms', expected a number of types"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import inspect

    sizes = {"in_channels": 3, "hidden_channels": 6, "num_layers": 2, "out_channels": 2}
    for kind in (SubgraphGNN, SubgraphConv, reign.nn._modules.Modules):  # as users run it, without the checks of signatures
        monkeypatch.setattr(kind, "__init__", inspect.unwrap(kind.__init__))
    monkeypatch.setattr(reign.nn._modules, "make_encoder", inspect.unwrap(make_encoder))
    with pytest.raises(ValueError, match=message):
        SubgraphGNN(**(sizes | options))


def test_features_that_do_not_fit() -> None:
    data = batch()
    with pytest.raises(ValueError, match="x has 3 channels, expected in_channels=4"):
        run(SUN(4, 6, 2, 2), data)
    data.x = data.x.long()
    with pytest.raises(
        ValueError, match="x has dtype torch.int64, expected floating-point features; for integer types make the model"
    ):
        run(SUN(3, 6, 2, 2), data)
    with pytest.raises(ValueError, match="unknown model 'sunn'; did you mean 'sun'"):
        reign.build_model("sunn", 3, 6, 2)
    with pytest.raises(ValueError, match="edge_attr is None, expected floating-point numbers of shape \\(edges, 2\\)"):
        run(reign.nn.IGN2(3, 6, 2, 2, edge_dim=2), batch())


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
    expected = torch.stack([model(data.x, data.edge_index, bag=draw.from_data(data)) for draw in model.policy.draws()]).mean(0)
    torch.testing.assert_close(run(model, data), expected)


def test_a_prepared_bag_gives_the_same() -> None:
    data = batch(edge_dim=2)
    model = SUN(3, 6, 2, 2, edge_dim=2).eval()
    bag = model.policy.from_data(data)
    assert torch.equal(model(data.x, data.edge_index, bag=bag), run(model, data))


def test_any_pyg_loader() -> None:
    loader = DataLoader(random_graphs(7, min_nodes=2), batch_size=3)
    model = SUN(3, 6, 2, 2).eval()
    assert [len(run(model, data)) for data in loader] == [3, 3, 1]


def test_a_bag_must_be_that_of_the_batch_and_the_policy() -> None:
    data, model = batch(), SUN(3, 6, 2, 2, policy="ego+:2")
    with pytest.raises(ValueError, match="the bag was made by policy 'nm', expected 'ego\\+:2'"):
        model(data.x, data.edge_index, bag=reign.policy("nm").from_data(data))
    with pytest.raises(ValueError, match="made from another batch"):
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
        assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


def test_second_derivatives() -> None:
    data = Batch.from_data_list(random_graphs(2, min_nodes=3, max_nodes=4, dtype=torch.float64))
    model = SUN(3, 4, 2, 1, act="tanh", norm=None).double()
    bag = model.policy.from_data(data)
    assert torch.autograd.gradgradcheck(lambda x: model(x, data.edge_index, bag=bag), data.x.clone().requires_grad_())


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


def test_models_can_be_copied_and_pickled() -> None:
    data, model = batch(), SUN(3, 6, 2, 2).eval()
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(run(again, data), run(model, data))
