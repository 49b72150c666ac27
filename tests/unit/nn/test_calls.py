"""Other ways to call, reset, load and export a model."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import reign
from model_inputs import batch
from reign.nn import DSS, IDGNN, MODELS, PPGN, SUN, Head, Model, SubgraphConv, SubgraphGNN, export_program
from reign.policies import Sampled
from reign.transforms import AddHopDistance

# -- model(data) -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_a_model_takes_a_batch_of_pyg(level: str) -> None:
    data = batch(edge_dim=2)
    model = SUN(3, 8, 2, 2, policy="ego+:2", edge_dim=2, task_level=level).eval()
    expected = model(data.x, data.edge_index, data.edge_attr, data.batch, data.num_graphs)
    assert torch.equal(model(data), expected)
    assert torch.equal(model(data, bag=model.policy.from_data(data)), expected)
    data.bag = model.policy.from_data(data)
    assert torch.equal(model(data), expected)
    assert not torch.equal(model(data.x, data.edge_index, 2 * data.edge_attr, data.batch), expected)


def test_a_single_graph_and_stored_distances() -> None:
    data = batch()[2]
    model = SUN(3, 8, 2, 2, policy="nm+distance").eval()
    expected = model(data.x, data.edge_index)
    assert torch.equal(model(data), expected)
    far = AddHopDistance()(data.clone())
    assert torch.equal(model(far), expected)
    far.hop_distance = torch.zeros_like(far.hop_distance)
    assert not torch.equal(model(far), expected)  # they are used


def test_empty_last_graphs_are_counted() -> None:
    data = batch()
    data.batch, data._num_graphs = data.batch, data.num_graphs + 1
    model = SUN(3, 8, 1, 2, policy="ego+:1").eval()
    out = model(data)
    assert out.shape == (7, 2)
    assert torch.equal(out[:6], model(batch()))


@pytest.mark.usefixtures("signatures_unchecked")
def test_mistakes_in_calls() -> None:
    data, model = batch(), SUN(3, 8, 1, 2)
    with pytest.raises(ValueError, match="takes edge_index, edge_attr and batch from data"):
        model(data, data.edge_index)
    with pytest.raises(ValueError, match="edge_index is missing"):
        model(data.x)
    with pytest.raises(ValueError, match="Data or Batch with x and edge_index"):
        model(Data(x=data.x))
    with pytest.raises(ValueError, match=r"with x and edge_index. .* data.x = torch.ones\(data.num_nodes, 1\)"):
        model(Data(edge_index=data.edge_index, num_nodes=data.num_nodes))
    with pytest.raises(ValueError, match="the first argument is"):
        model([1, 2])
    with pytest.raises(
        ValueError,
        match=r"SUN was called with edge_weight, expected only x, .* give them as edge_attr, shape \(edges, 1\), to a model made with edge_dim=1",
    ):
        model(data.x, data.edge_index, edge_weight=torch.ones(data.num_edges))
    with pytest.raises(ValueError, match=r"SUN was called with pos, expected only x, .* edge_label_index\.$"):
        model(data, pos=data.x)


# -- edge_label_index --------------------------------------------------------------------------------------------------


def test_pairs_of_nodes_to_predict_for() -> None:
    data = batch()
    model = SUN(3, 8, 2, 1, policy="ego+:2", task_level="edge").eval()
    of_edges = model(data)
    assert torch.equal(model(data, edge_label_index=data.edge_index), of_edges)
    some = torch.tensor([5, 0, 5])
    torch.testing.assert_close(model(data, edge_label_index=data.edge_index[:, some]), of_edges[some])
    data.edge_label_index = torch.tensor([[0, 1], [1, 0]])
    both = model(data)
    assert both.shape == (2, 1)
    assert not torch.equal(both[0], both[1])  # the source is first
    no_edge = torch.tensor([[0], [0]])
    loss = model(data, edge_label_index=no_edge).sum()
    assert all(g is not None for g in torch.autograd.grad(loss, list(model.layers.parameters()), allow_unused=False))


def test_the_gradient_of_pairs_is_that_of_a_plain_selection() -> None:
    data = batch()
    model = SUN(3, 8, 1, 1, policy="ego+:1", task_level="edge").double()
    data.x = data.x.double()
    pairs = torch.tensor([[0, 0, 2, 1], [0, 1, 0, 0]])
    vectors: list[torch.Tensor] = []
    pool = model.pooling.nodes
    model.pooling.nodes = lambda state: vectors.append(pool(state)) or vectors[-1]  # type: ignore[method-assign]
    out = model(data, edge_label_index=pairs)
    plain = model.head(torch.cat([vectors[0][pairs[0]], vectors[0][pairs[1]]], dim=1))
    assert torch.equal(out, plain)
    (one,) = torch.autograd.grad(out.square().sum(), vectors[0], retain_graph=True)
    (other,) = torch.autograd.grad(plain.square().sum(), vectors[0])
    torch.testing.assert_close(one, other)


@pytest.mark.usefixtures("signatures_unchecked")
def test_wrong_pairs() -> None:
    data = batch()
    for pairs in (
        torch.tensor([[0], [data.num_nodes]]),
        torch.tensor([[-1], [0]]),
        torch.tensor([0, 1]),
        torch.tensor([[0.0], [1.0]]),
    ):
        with pytest.raises(ValueError, match="edge_label_index is .* expected shape \\(2, pairs\\)"):
            SUN(3, 8, 1, 1, task_level="edge")(data, edge_label_index=pairs)
    with pytest.raises(ValueError, match="predicts at node level; make it with task_level='edge'"):
        SUN(3, 8, 1, 1, task_level="node")(data, edge_label_index=data.edge_index)


# -- reset_parameters --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(MODELS))
def test_resetting_draws_what_the_constructor_draws(name: str) -> None:
    torch.manual_seed(7)
    model = MODELS[name](3, 6, 2, 2)
    fresh = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.no_grad():
        for value in model.state_dict().values():
            value.add_(1)
    torch.manual_seed(7)
    model.reset_parameters()
    for key, value in model.state_dict().items():
        assert torch.equal(value, fresh[key]), key
    torch.manual_seed(8)
    model.reset_parameters()
    assert any(not torch.equal(value, fresh[key]) for key, value in model.state_dict().items())


def test_every_part_can_be_reset() -> None:
    options = {
        "virtual_node": True,
        "labels": {"kind": "hop"},
        "encodings": {"pairs": ["hop:3"]},
        "residual": True,
        "node_encoder": [4, 3],
    }
    made = [SubgraphGNN(6, 6, 2, 1, edge_dim=2, conv=conv, **options) for conv in ("gin", "GATConv")]
    made += [SubgraphGNN(6, 6, 2, 1, conv="gcn"), IDGNN(6, 6, 2, 1, conv="gcn", act="prelu")]
    for model in made:
        for name, part in model.named_modules():
            has_own = any(True for _ in part.parameters(recurse=False))
            assert not has_own or callable(getattr(part, "reset_parameters", None)), name
        before = [p.clone() for p in model.parameters()]
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(7)
        model.reset_parameters()
        assert all(not (p == 7).any() for p in model.parameters())
        assert [p.shape for p in before] == [p.shape for p in model.parameters()]
    for part in (SubgraphConv(3, 4, ["own+local"]), Head(3, 2)):
        part.reset_parameters()


def test_parts_that_cannot_be_reset_are_named() -> None:
    class Foreign(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

    model = SUN(3, 8, 1, 1)
    model.extra = Foreign()
    with pytest.raises(ValueError, match="Foreign has the weight 'scale' but no reset_parameters"):
        model.reset_parameters()
    del model.extra
    model.own = nn.Parameter(torch.ones(1))
    with pytest.raises(ValueError, match="SUN has the weight 'own' but no reset_own"):
        model.reset_parameters()


# -- load and export ---------------------------------------------------------------------------------------------------


def test_load_takes_a_folder_of_a_model(tmp_path: Path) -> None:
    data, model = batch(), SUN(3, 8, 1, 2, policy="ego+:1").eval()
    model.save_pretrained(tmp_path / "model")
    same = reign.load(tmp_path / "model")
    assert isinstance(same, SUN)
    assert torch.equal(same(data), model(data))
    with pytest.raises(ValueError):
        reign.load(tmp_path)


FRESH = """
import sys, torch
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("reign", "torch_geometric"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
inputs = torch.load("inputs.pt", weights_only=True)
with torch.no_grad():
    program = torch.export.load("model.pt2").module()
    torch.save([program(x) for x in inputs], "outputs.pt")
assert not [name for name in sys.modules if name.split(".")[0] in ("reign", "torch_geometric")]
"""


@pytest.mark.usefixtures("signatures_unchecked")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (SUN, {"edge_dim": 2, "dropout": 0.5}),
        pytest.param(DSS, {"edge_encoder": None, "task_level": "node"}, marks=pytest.mark.slow),
        pytest.param(PPGN, {"edge_encoder": None}, marks=pytest.mark.slow),
    ],
)
def test_an_exported_model_runs_without_this_library(kind: type[Model], options: dict[str, Any], tmp_path: Path) -> None:
    data = batch(edge_dim=2)
    inputs = [data.x, torch.randn_like(data.x)]
    model = kind(3, 8, 1, 2, **options)
    model(data)  # statistics of norms
    program = export_program(model, data)
    assert model.training  # as before
    torch.export.save(program, tmp_path / "model.pt2")
    torch.save(inputs, tmp_path / "inputs.pt")
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = torch.load(tmp_path / "outputs.pt", weights_only=True)
    model.eval()
    for x, y in zip(inputs, found, strict=True):
        with torch.no_grad():
            torch.testing.assert_close(y, model(x, data.edge_index, data.edge_attr, data.batch))
    assert not torch.equal(found[0], found[1])


def test_what_cannot_be_exported_says_so() -> None:
    model = DSS(3, 8, 1, 2, policy=Sampled(reign.policy("nm"), number=2, eval_draws=3))
    with pytest.raises(ValueError, match="averages several draws"):
        export_program(model, batch())
