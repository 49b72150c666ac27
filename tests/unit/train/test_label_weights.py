"""Weights of rows and of classes in training."""

from dataclasses import replace

import pytest
import torch

import tiny
from reign.data import Problem
from reign.nn import SUN
from reign.train import Training, fit
from reign.train.engine import engine
from reign.train.settings.losses import LOSSES, label_weights

NAN = float("nan")


def classes(labels: list[list[float]], train: int, weights: list[float] | None = None) -> Problem:
    made = tiny.graphs(len(labels))
    for data, y in zip(made, labels, strict=True):
        data.y = torch.tensor([y])
    problem = Problem.of(made[:train], made[train:], name="tiny", task="classification", targets=["a", "b"][: len(labels[0])])
    return replace(problem, weights=None if weights is None else torch.tensor(weights, dtype=torch.float64))


def test_classes_count_alike() -> None:
    """Of three no and one yes in training, the yes counts three times as much; rows that do not train have weights of their class."""
    problem = classes([[0.0], [0.0], [0.0], [1.0], [1.0]], train=4)
    assert label_weights(problem, False) is None
    weights = label_weights(problem, True)
    assert weights is not None
    assert weights.flatten().tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2.0, 2.0])


def test_rows_have_weights_with_mean_one_over_training_labels() -> None:
    problem = classes([[0.0, 1.0], [1.0, NAN], [0.0, 1.0]], train=2, weights=[1.0, 4.0, 100.0])
    weights = label_weights(problem, False)
    assert weights is not None
    assert weights[:2].tolist() == [[0.5, 0.5], [2.0, 2.0]]  # (1 + 1 + 4) / 3 = 2
    assert problem.without([0]).weights is not None
    assert problem.without([0]).weights.tolist() == [4.0, 100.0]


def test_what_cannot_be_weighted() -> None:
    with pytest.raises(ValueError, match="class_balance is for classification and multiclass, but the task is regression"):
        label_weights(tiny.problem(), True)
    with pytest.raises(ValueError, match=r"task_weights has 2 numbers, expected 1, one for each target: y\."):
        label_weights(tiny.problem(), False, [1.0, 2.0])
    with pytest.raises(ValueError, match="weights of all training labels of tiny are 0"):
        label_weights(classes([[0.0], [1.0]], train=2, weights=[0.0, 0.0]), False)


def test_a_weighted_loss() -> None:
    out, y = torch.tensor([[1.0], [2.0], [9.0]]), torch.tensor([[0.0], [0.0], [NAN]])
    assert float(LOSSES["mse"].sum(out, y, torch.tensor([[3.0], [0.5], [7.0]]))) == 3.0 * 1 + 0.5 * 4


def test_a_row_without_weight_teaches_nothing() -> None:
    """A training row whose weight is 0 may have any label."""
    problem = tiny.problem(12)
    first = problem.splits["train"][0]
    rows = torch.ones(12, dtype=torch.float64)
    rows[first] = 0.0

    def weights_after(label: float, weights: torch.Tensor | None) -> torch.Tensor:
        y = problem.y.clone()
        y[first] = label
        torch.manual_seed(0)
        model = SUN(1, 4, 1, 1, policy="ego+:1")
        fit(model, replace(problem, graphs=problem.graphs.with_targets(y), weights=weights), Training(epochs=1, batch_size=3))
        return model.head.lin2.weight.detach()

    assert torch.equal(weights_after(0.0, rows), weights_after(5.0, rows))
    assert not torch.equal(weights_after(0.0, None), weights_after(5.0, None))


def test_targets_have_weights() -> None:
    problem = classes([[0.0, 1.0], [1.0, NAN], [0.0, 1.0]], train=2)
    weights = label_weights(problem, False, [1.0, 4.0])
    assert weights is not None
    assert weights.tolist() == [[0.5, 2.0]] * 3  # (1 + 1 + 4) / 3 = 2
    with pytest.raises(ValueError, match="weights of all training labels of tiny are 0"):
        label_weights(problem, False, [0.0, 0.0])


@pytest.mark.parametrize("resident", [False, True])
def test_weights_of_targets_scale_their_gradients(resident: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a step of SGD, the last layer has moved for each target by its gradient."""
    monkeypatch.setattr(engine, "why_not_captured", lambda _: None if resident else "a test")
    single = tiny.problem(12)
    y = torch.cat([single.y, single.y.square()], dim=1)
    problem = replace(single, graphs=single.graphs.with_targets(y), targets=["a", "b"])

    def step(task_weights: list[float] | None) -> torch.Tensor:
        torch.manual_seed(0)
        model = SUN(1, 4, 1, 2, policy="ego+:1").double()
        before = model.head.lin2.weight.detach().clone()
        config = {"epochs": 1, "batch_size": 100, "precision": "64-true", "report": "last", "task_weights": task_weights}
        fit(model, problem, Training.model_validate({**config, "optimiser": {"name": "sgd", "lr": 1e-4}}))
        return model.head.lin2.weight.detach() - before

    plain, weighted, single_target = step(None), step([1.0, 3.0]), step([1.0, 0.0])
    assert torch.allclose(weighted[0], 0.5 * plain[0])
    assert torch.allclose(weighted[1], 1.5 * plain[1])
    assert torch.allclose(single_target[0], 2.0 * plain[0])
    assert not single_target[1].any()
    assert plain.any(1).all()
