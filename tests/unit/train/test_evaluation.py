"""Several models together: means, spreads and metrics, by hand."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from reign.data import GraphPack, Problem
from reign.testing import random_graphs
from reign.train.engine.callbacks import Callback
from reign.train.predict.ensemble import TrainedModel, forecast
from reign.train.predict.evaluate import measure_models
from reign.train.predict.tables import forecast_columns


def problem(task: str, labels: list[float], **options: object) -> Problem:
    graphs = random_graphs(len(labels))
    for data, label in zip(graphs, labels, strict=True):
        data.y = torch.tensor([[label]])
    return Problem.of(graphs, task=task, **options)


def logit(p: float) -> float:
    return math.log(p / (1 - p))


def test_an_ensemble_of_probabilities() -> None:
    """The mean of probabilities decides, not that of logits: (0.999 + 0.3 + 0.1) / 3 is below a half, the mean of logits above 0."""
    outs = [torch.tensor([[logit(p)], [logit(q)]], dtype=torch.float64) for p, q in ((0.999, 0.2), (0.3, 0.4), (0.1, 0.6))]
    assert sum(float(out[0]) for out in outs) > 0
    ids = [torch.arange(2)] * 3
    found = measure_models(["accuracy"], problem("classification", [0.0, 0.0]), outs, ids)
    assert (found["metric"], found["models"], found["ensemble"]) == ("accuracy", [0.5, 1.0, 0.5], 1.0)
    assert found["all_metrics"] == [{"accuracy": [value]} for value in (0.5, 1.0, 0.5)]
    assert found["ensemble_metrics"] == {"accuracy": [1.0]}
    apart = measure_models(
        ["accuracy"], problem("classification", [0.0, 0.0]), [out[:1] for out in outs], [torch.tensor([g]) for g in (0, 1, 0)]
    )
    assert "ensemble" not in apart  # the models were tested on different graphs


class Known(TrainedModel):
    """A model whose outputs are known."""

    def __init__(self, outs: Tensor) -> None:
        object.__setattr__(self, "num_outputs", outs.size(1))
        object.__setattr__(self, "outs", outs)

    def raw_outputs(self, *args: Any, **options: Any) -> Tensor:
        return vars(self)["outs"]


def columns(outs: Tensor, task: str, targets: list[str], classes: list[str]) -> dict[str, list[Any]]:
    """The columns of the models with these outputs."""
    pack, method = GraphPack.of(random_graphs(outs.size(1))), "ensemble" if len(outs) > 1 else None
    found = forecast([Known(out) for out in outs], pack, torch.arange(outs.size(1)), task, method, Callback())
    return forecast_columns(found, task, targets, classes, {}, 0.1)


def test_columns_of_numbers() -> None:
    outs = torch.tensor([[[1.0, 10.0]], [[3.0, 14.0]]], dtype=torch.float64)
    found = columns(outs, "regression", ["a", "b"], [])
    assert {name: values[0] for name, values in found.items()} == pytest.approx(
        {"a_pred": 2.0, "a_unc": 2**0.5, "b_pred": 12.0, "b_unc": 8**0.5}
    )
    assert list(columns(outs[:1], "regression", ["a", "b"], [])) == ["a_pred", "b_pred"]


def test_columns_of_classes() -> None:
    outs = torch.tensor([[[0.5, 0.25, 0.25]], [[0.1, 0.5, 0.4]]], dtype=torch.float64).log()
    found = columns(outs, "multiclass", ["kind"], ["x", "y", "z"])
    assert found["kind_pred"] == ["y"]
    assert found["kind_unc"] == pytest.approx([0.25 / 2**0.5])
    assert [found[f"kind_prob_{name}"][0] for name in "xyz"] == pytest.approx([0.3, 0.375, 0.325])
    yes = torch.tensor([[[logit(0.2)]], [[logit(0.6)]]], dtype=torch.float64)
    assert columns(yes, "classification", ["toxic"], [])["toxic_pred"] == pytest.approx([0.4])
