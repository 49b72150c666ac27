"""Problems from settings."""

from typing import Any

import pytest

from reign.data import Problem
from reign.train import build
from reign.train.build import make_problem
from reign.train.config import DataConfig


def test_problems_that_differ_in_targets_share_their_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, real = list[dict[str, Any]](), build.load_problem

    def counted(name: str, **options: Any) -> Problem:
        calls.append(options)
        return real(name, **options)

    monkeypatch.setattr(build, "load_problem", counted)
    loaded: dict[str, Problem] = {}

    def made(target: str, number: int) -> Problem:
        config = DataConfig(name="counting", options={"num_graphs": number}, targets=[target])
        return make_problem(config, loaded)[0]

    one, other, larger = made("triangle", 20), made("star", 20), made("star", 30)
    assert [options["num_graphs"] for options in calls] == [20, 30]
    assert one.targets != other.targets
    assert one.graphs.places() == other.graphs.places() != larger.graphs.places()
