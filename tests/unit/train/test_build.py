"""Problems from settings."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import reign
from reign.data import Problem
from reign.train import Recipe, train
from reign.train.engine.execution import make_fabric
from reign.train.runs import build
from reign.train.runs.build import make_model, make_problem
from reign.train.settings.config import DataConfig, ModelConfig


def test_problems_that_differ_in_targets_share_their_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, real = list[dict[str, Any]](), build.load_problem

    def counted(name: str, progress: Any, **options: Any) -> Problem:
        calls.append(options)
        return real(name, progress, **options)

    monkeypatch.setattr(build, "load_problem", counted)
    loaded: dict[str, Problem] = {}

    def made(target: str, number: int) -> Problem:
        config = DataConfig(name="counting", options={"num_graphs": number}, targets=[target])
        return make_problem(config, loaded)[0]

    one, other, larger = made("triangle", 20), made("star", 20), made("star", 30)
    assert [options["num_graphs"] for options in calls] == [20, 30]
    assert one.targets != other.targets
    assert one.graphs.places() == other.graphs.places() != larger.graphs.places()


def test_edges_of_one_type() -> None:
    """All edges get the type 0, so that messages are relu(x_j + e) with a learned vector e; the graphs of all targets are shared."""
    loaded: dict[str, Problem] = {}
    config = DataConfig(name="counting", options={"num_graphs": 20}, one_edge_type=True)
    problem, _ = make_problem(config, loaded)
    attr = problem.graphs.edge_attr
    assert attr is not None
    assert attr.shape == (problem.graphs.edge_index.size(1),)
    assert not attr.any()
    other, _ = make_problem(config.model_copy(update={"targets": ["star"]}), loaded)
    assert other.graphs.places() == problem.graphs.places()
    plain, _ = make_problem(config.model_copy(update={"one_edge_type": False}), loaded)
    assert plain.graphs.edge_attr is None
    recipe = {"name": "mpnn", "hidden_channels": 4, "num_layers": 1}
    model, without = (make_model(ModelConfig.model_validate(recipe), each, 0) for each in (problem, plain))
    assert {name: tuple(p.shape) for name, p in model.named_parameters() if "edge_encoder" in name} == {
        "layers.0.terms.0.encoder.edge_encoder.columns.0.weight": (1, 1)
    }
    assert not any("edge_encoder" in name for name, _ in without.named_parameters())
    with pytest.raises(ValueError, match="counting has edge features, so its edges cannot all get the same type"):
        problem.with_one_edge_type()
    with pytest.raises(ValueError, match="bonds of molecules have types"):
        DataConfig(path="mols.csv", one_edge_type=True)


def test_graphs_to_predict_get_the_type_of_the_training_data(tmp_path: Path) -> None:
    data = {"name": "counting", "options": {"num_graphs": 20}, "targets": ["star"], "one_edge_type": True}
    model = {"name": "mpnn", "hidden_channels": 4, "num_layers": 1}
    train(Recipe.check({"data": data, "model": model, "train": {"epochs": 1}}), tmp_path, fabric=make_fabric(accelerator="cpu"))
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    plain, typed = (Data(x=torch.ones(3, 1), edge_index=edges, edge_attr=attr) for attr in (None, torch.zeros(4, dtype=torch.long)))
    table = reign.load(tmp_path).predict([plain, typed])
    assert table["star_pred"][0] == table["star_pred"][1]
    assert table["warning"].tolist() == ["", ""]  # which are for molecules
