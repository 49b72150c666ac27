"""Targets in units that are easy to learn."""

import math

import pytest
import torch

import tiny
from learning import learn
from reign.train.runs.scaler import Scale


@pytest.mark.usefixtures("signatures_unchecked")
@pytest.mark.usefixtures("signatures_unchecked")
def test_targets_far_from_zero() -> None:
    """They are scaled in float64: differences that float32 cannot hold are still learned from."""
    near, far = tiny.problem(), tiny.problem()
    far.y.add_(1e9)
    for precision, tolerance in (("64-true", 1e-5), ("32-true", 0.05)):  # training in 32 bits makes a little more of rounding
        config = {"scale_targets": True, "precision": precision}
        results = [learn(problem=problem, config=config)["last"] for problem in (near, far)]
        assert results[1] == pytest.approx(results[0], rel=tolerance)
    far.y.mul_(1e35)  # beyond float32
    assert all(math.isfinite(value) for value in learn(problem=far, config={"scale_targets": True})["last"].values())


def test_scaling_of_targets() -> None:
    problem = tiny.problem()
    problem.y[0] = float("nan")
    scale = Scale.of(problem, True)
    y = problem.y[problem.splits["train"]][1:]
    torch.testing.assert_close(scale.mean, y.mean(0))
    torch.testing.assert_close(scale.deviation, y.std(0))
    torch.testing.assert_close(scale.up(scale.down(y)), y)
    problem.y.fill_(3.0)
    assert Scale.of(problem, True).deviation.tolist() == [1.0]
