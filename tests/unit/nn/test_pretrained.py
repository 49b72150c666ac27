"""Models on disk."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import reign
from model_inputs import batch, run
from reign.nn import DS, MODELS, SUN, Model, SubgraphGNN, todays_options
from reign.policies import NodeMarking, Pairs, Policy, Sampled


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


def test_saving_keeps_precision_and_refuses_policies_without_a_name(tmp_path: Path) -> None:
    SUN(3, 6, 2, 2).double().save_pretrained(tmp_path / "double")
    assert next(SUN.from_pretrained(tmp_path / "double").parameters()).dtype == torch.float64
    with pytest.raises(ValueError, match="cannot be saved because it has no name"):
        DS(3, 6, 2, 2, policy=Sampled(NodeMarking(), share=0.5, seed=3)).save_pretrained(tmp_path / "sampled")


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            lambda: SUN(3, 6, 2),
            '"SUN",\n  "arguments": {\n    "in_channels": 3,\n    "hidden_channels": 6,\n    "num_layers": 2\n  }',
        ),
        (
            lambda: SUN(3, 6, num_layers=2, jk=None, act="silu", policy=NodeMarking(), needle="sum"),
            '"SUN",\n  "arguments": {\n    "in_channels": 3,\n    "hidden_channels": 6,\n    "num_layers": 2,\n    "policy": "nm",\n'
            '    "needle": "sum",\n    "jk": null,\n    "act": "silu"\n  }',
        ),
        (
            lambda: SUN(3, 6, 2, policy=NodeMarking(mark="single")),
            '"SUN",\n  "arguments": {\n    "in_channels": 3,\n    "hidden_channels": 6,\n    "num_layers": 2,\n    "policy": "nm+single"\n  }',
        ),
        (
            lambda: reign.nn.GNNAKPlus(3, 6, 2, 1, norm=None, inner_layers=1),
            '"GNNAKPlus",\n  "arguments": {\n    "in_channels": 3,\n    "hidden_channels": 6,\n    "num_layers": 2,\n'
            '    "out_channels": 1,\n    "inner_layers": 1,\n    "norm": null\n  }',
        ),
        (
            lambda: SubgraphGNN(3, 6, 2, norm=None, conv="gcn", residual=True, terms=("own", "own+local")),
            '"SubgraphGNN",\n  "arguments": {\n    "in_channels": 3,\n    "hidden_channels": 6,\n    "num_layers": 2,\n    "terms": [\n'
            '      "own",\n      "own+local"\n    ],\n    "conv": "gcn",\n    "norm": null,\n    "residual": true\n  }',
        ),
    ],
)
def test_what_was_given_is_saved_and_nothing_else(model: Callable[[], Model], text: str, tmp_path: Path) -> None:
    """What was given, in the order of the signature, and then further options in the order of the call."""
    made = model()
    made.save_pretrained(tmp_path)
    assert (tmp_path / "config.json").read_text() == '{\n  "format": 2,\n  "model": ' + text + "\n}\n"
    assert Model.from_pretrained(tmp_path).policy == made.policy


class Deeper(reign.nn.NGNN):
    """A model of a user, which has a default of its own."""

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int, *, readout: str = "sum", **options: Any
    ) -> None:
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, readout=readout, **options)


def test_defaults_that_have_changed(tmp_path: Path) -> None:
    """A class that is derived from a model has had its defaults, but for those that it declares. Published models have not changed."""
    assert todays_options(Deeper, {}, 1) == {"graph_pooling": "mean"}
    assert todays_options(Deeper, {"graph_pooling": "sum"}, 1) == {"graph_pooling": "sum"}
    assert todays_options(MODELS["GNN-AK-ctx"], {"combine": "cat", "domain": "all"}, 1) == {
        "combine": "linear", "domain": "all", "aggregation": "mean", "end_norm": True, "end_act": True, "graph_pooling": "mean",
    }  # fmt: skip
    assert todays_options(MODELS["gnnak"], {"combine": "sum", "aggregation": None}, 1)["combine"] == "sum"
    assert todays_options(MODELS["gnnak"], {"combine": ["cat"]}, 1)["combine"] == ["cat"]  # refused later, by the model
    assert todays_options(MODELS["gnnak"], {"aggregation": None}, 1)["aggregation"] == "mean"
    assert todays_options(MODELS["gnnakplus"], {"combine": "cat"}, 1) == {"combine": "linear"}
    for name in ("gnnakpublished", "ds"):
        assert todays_options(MODELS[name], {"combine": "cat"}, 1) == {"combine": "cat"}
    assert todays_options(MODELS["gnnak"], {"combine": "cat"}, 2) == {"combine": "cat"}
    Deeper(3, 6, 2, 1).save_pretrained(tmp_path)  # a class that is not registered
    (tmp_path / "config.json").write_text((tmp_path / "config.json").read_text().replace('"format": 2,', ""))
    assert Deeper.from_pretrained(tmp_path).pooling.over_graph == "mean"


def test_copies_can_be_saved(tmp_path: Path) -> None:
    data, model = batch(), SUN(3, 6, 2, 2, policy="nm").eval()
    for number, again in enumerate((copy.deepcopy(model), pickle.loads(pickle.dumps(model)))):
        again.save_pretrained(tmp_path / str(number))
        assert torch.equal(run(SUN.from_pretrained(tmp_path / str(number)), data), run(model, data))


def test_policies_of_ones_own_are_saved_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class First(Policy):
        """Node i is in subgraph k if it does not come after k."""

        def keep(self, pairs: Pairs) -> torch.Tensor:
            return pairs.node <= pairs.anchor[pairs.sub, 0]

        def __str__(self) -> str:
            return "first"

    model = DS(3, 6, 2, 2, policy=First()).eval()
    with pytest.raises(ValueError, match="cannot be saved because it has no name"):
        model.save_pretrained(tmp_path)
    known = reign.policies.policy
    monkeypatch.setattr(reign.policies, "policy", lambda name: First() if name == "first" else known(name))
    model.save_pretrained(tmp_path)
    assert '"policy": "first"' in (tmp_path / "config.json").read_text()
    again = DS.from_pretrained(tmp_path)
    assert again.policy == First()
    assert torch.equal(run(again, batch()), run(model, batch()))
