"""Metrics: their values, what is better, and what is missing."""

import math

import pytest
import torch

from reign.train.settings.metrics import METRICS, measure_all, metric


def test_metrics() -> None:
    out, y = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([[0.0], [2.0], [float("nan")]])
    assert metric("mae", out, y) == 0.5
    assert metric("rmse", out, y) == pytest.approx(0.5**0.5)
    assert metric("log10_mse", out, y) == pytest.approx(torch.tensor(0.5).log10().item())
    scores, labels = torch.tensor([[0.1], [0.4], [0.35], [0.8]]), torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    assert metric("roc_auc", scores, labels) == 0.75
    assert metric("average_precision", scores, labels) == pytest.approx(0.8333333)
    two = torch.cat([labels, torch.zeros(4, 1)], dim=1)  # the second target has one class: it does not count
    assert metric("roc_auc", scores.expand(4, 2), two) == 0.75
    assert metric("accuracy", torch.tensor([[2.0], [-1.0]]), torch.tensor([[1.0], [1.0]])) == 0.5
    assert metric("accuracy", torch.eye(3), torch.tensor([[0.0], [1.0], [0.0]])) == pytest.approx(2 / 3)
    for name in METRICS:
        assert math.isnan(metric(name, out, torch.full((3, 1), float("nan"))))
        assert not METRICS[name].better(float("nan"), 1.0)
        assert METRICS[name].better(1.0, None)
    assert METRICS["mae"].better(0.1, 0.2)
    assert METRICS["roc_auc"].better(0.2, 0.1)


NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mae", (1.0 + 0.5 + 2.0 + 3.0) / 4),
        ("rmse", ((1.0 + 0.25 + 4.0 + 9.0) / 4) ** 0.5),
        ("log10_mse", math.log10((1.0 + 0.25 + 4.0 + 9.0) / 4)),
    ],
)
def test_missing_labels_of_numbers(name: str, expected: float) -> None:
    """Four labels of six are there; what the model says of the others does not matter."""
    y = torch.tensor([[1.0, NAN], [2.0, 0.0], [NAN, 5.0]])
    for other in (0.0, 1e6):
        out = torch.tensor([[2.0, other], [1.5, 2.0], [other, 8.0]])
        assert metric(name, out, y) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # first target: the yes at 0.8 is above both no, that at 0.3 above one of them; second: the yes at 0.5 above one of two
        ("roc_auc", (3 / 4 + 1 / 2) / 2),
        # first: the yes are first and third; second: the yes is second
        ("average_precision", ((1 + 2 / 3) / 2 + 1 / 2) / 2),
        # above 0 is a yes: wrong for the no at 0.4 of the first target, and the one at 0.6 of the second
        ("accuracy", 5 / 7),
    ],
)
def test_missing_labels_of_classes(name: str, expected: float) -> None:
    y = torch.tensor([[0.0, 1.0], [NAN, 0.0], [1.0, NAN], [1.0, NAN], [0.0, 0.0]])
    for other in (-9.0, 9.0):  # as outputs where labels are missing
        out = torch.tensor([[-0.1, 0.5], [other, 0.6], [0.8, other], [0.3, other], [0.4, -0.2]])
        assert metric(name, out, y) == pytest.approx(expected)


def test_missing_labels_of_one_of_several_classes() -> None:
    y = torch.tensor([[0.0], [NAN], [2.0], [1.0]])
    for other in range(3):
        out = torch.zeros(4, 3)
        out[range(4), [0, other, 1, 1]] = 1.0
        assert metric("accuracy", out, y) == pytest.approx(2 / 3)


def test_explained_variance_and_counts_of_yes_by_hand() -> None:
    y, out = torch.tensor([[1.0], [2.0], [3.0], [NAN]]), torch.tensor([[1.0], [2.0], [4.0], [9.0]])
    assert metric("r2", out, y) == pytest.approx(1 - 1 / 2)
    labels = torch.tensor([[1.0], [1.0], [1.0], [0.0], [0.0], [NAN]])
    scores = torch.tensor([[2.0], [0.5], [-1.0], [0.3], [-2.0], [1.0]])  # two of three yes found, one no taken for a yes
    assert metric("f1", scores, labels) == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert metric("mcc", scores, labels) == pytest.approx((2 * 1 - 1 * 1) / (3 * 3 * 2 * 2) ** 0.5)
    assert metric("bce", scores[:2], labels[:2]) == pytest.approx((math.log(1 + math.exp(-2)) + math.log(1 + math.exp(-0.5))) / 2)
    classes, votes = torch.tensor([[0.0], [1.0], [2.0], [2.0]]), torch.eye(3)[[0, 1, 2, 0]]
    assert metric("macro_f1", votes, classes) == pytest.approx((2 / 3 + 1 + 2 / 3) / 3)
    assert metric("multiclass_mcc", torch.eye(3)[[0, 1, 2, 2]], classes) == 1.0
    assert METRICS.name_of(METRICS["roc"]) == "roc_auc"
    assert METRICS.name_of(METRICS["prc"]) == "average_precision"


def test_metrics_of_each_target() -> None:
    y, out = torch.tensor([[0.0, 1.0], [NAN, 1.0]]), torch.tensor([[2.0, 1.0], [5.0, 5.0]])
    assert measure_all(["mae", "rmse"], out, y, ["a", "b"]) == {
        "mae": [2.0, 2.0, 2.0],
        "rmse": [pytest.approx(((4 + 0 + 16) / 3) ** 0.5), 2.0, pytest.approx(8**0.5)],
    }
    assert measure_all(["mae"], out[:, :1], y[:, :1], ["a"]) == {"mae": [2.0]}
