"""Schedules of the learning rate."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from reign.train.settings.config import ScheduleConfig
from reign.train.settings.optim import Schedule


def test_schedules() -> None:
    def rates(schedule: dict[str, Any], losses: list[float], metric: str | None = None) -> list[float]:
        optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        rate = ScheduleConfig.model_validate(schedule).build(optimiser, steps=2 * len(losses), metric=metric)
        out = []
        for loss in losses:
            for _ in range(2):
                optimiser.step()
                rate.after_step()
            out.append(rate.value)
            rate.after_epoch(float(loss))
        return out

    assert rates({"name": "constant"}, [1, 1, 1]) == [1, 1, 1]
    assert rates({"name": "step", "every": 2, "factor": 0.5}, [1] * 5) == [1, 1, 0.5, 0.5, 0.25]
    assert rates({"name": "plateau", "patience": 1, "factor": 0.1}, [1, 1, 1, 0.5]) == pytest.approx([1, 1, 1, 0.1])
    plateau = {"name": "plateau", "patience": 0, "factor": 0.5}
    for metric_name, values in (("accuracy", [0.7] * 3), ("log10_mse", [-3.0] * 3), ("mae", [0.3] * 3), (None, [0.3] * 3)):
        assert rates(plateau, values, metric_name) == [1, 1, 0.5], metric_name
    for metric_name, values in (("accuracy", [0.7, 0.8, 0.9]), ("log10_mse", [-3.0, -4.0, -5.0]), ("mae", [0.3, 0.2, 0.1])):
        assert rates(plateau, values, metric_name) == [1, 1, 1], metric_name
    cosine = rates({"name": "cosine", "warmup": 0.0}, [1] * 10)
    assert all(a > b for a, b in pairwise(cosine))
    assert cosine[-1] == pytest.approx(0.01, abs=0.01)
    assert rates({"name": "cosine", "warmup": 0.0, "floor": 0.3}, [1] * 100)[-1] == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("name", ["constant", "step", "plateau", "cosine"])
def test_schedules_survive_saving(name: str) -> None:
    def make() -> tuple[torch.optim.Optimizer, Schedule]:
        optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        return optimiser, ScheduleConfig.model_validate({"name": name, "every": 2, "patience": 0}).build(optimiser, steps=8)

    def go(optimiser: torch.optim.Optimizer, rate: Schedule) -> float:
        optimiser.step()
        rate.after_step()
        rate.after_epoch(1.0)
        return rate.value

    one = make()
    whole = [go(*one) for _ in range(6)]
    first = make()
    start = [go(*first) for _ in range(3)]
    second = make()
    second[0].load_state_dict(first[0].state_dict())
    second[1].load_state_dict(first[1].state_dict())
    assert start + [go(*second) for _ in range(3)] == whole
