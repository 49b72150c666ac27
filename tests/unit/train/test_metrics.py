"""Metrics: their values, what is better, and what is missing."""

import math

import pytest
import torch

from reign.train.metrics import METRICS, metric


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
