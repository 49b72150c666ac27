"""The training loop: what it learns, when it stops, and how it continues."""

from pathlib import Path
from typing import Any

import pytest
import torch

import tiny
from learning import CPU, learn, model
from reign.nn import DS
from reign.train import Callback, Training, fit
from reign.train.devices import make_fabric


def test_it_learns() -> None:
    result = learn(config={"epochs": 30, "optimiser": {"lr": 0.01}, "loss": "l1"}, problem=tiny.problem(60))
    assert result["best"]["train"] < 0.3
    assert result["best"]["val"] <= result["last"]["val"]
    assert result["epochs"] == 30
    first = learn(config={"epochs": 1, "loss": "l1"}, problem=tiny.problem(60))
    assert result["best"]["test"] < first["best"]["test"]


@pytest.mark.parametrize(
    "options",
    [
        {"optimiser": {"name": "adamw", "weight_decay": 0.1}},
        {"optimiser": {"name": "sgd", "momentum": 0.9, "lr": 0.01}},
        {"optimiser": {"name": "sgd", "lr": 0.01, "sharpness": "sam", "rho": 0.05}},
        {"optimiser": {"name": "adam", "sharpness": "asam"}},
        {"precision": "64-true"},
        {"precision": "bf16-mixed"},
        {"clip": 0.1},
        {"accumulate": 2},
        {"scale_targets": True},
        {"max_pairs": 60},
        {"schedule": {"name": "plateau", "patience": 0}},
    ],
    ids=str,
)
def test_every_option_changes_the_result(options: dict[str, Any]) -> None:
    fabric = make_fabric(options.get("precision", "32-true"), accelerator="cpu")
    base = {"epochs": 2, "batch_size": 5, "metric": "mae"}
    if "schedule" in options:
        base["epochs"] = 6
    plain = fit(model(), tiny.problem(), Training.model_validate(base), fabric=CPU)[0]
    other = fit(model(), tiny.problem(), Training.model_validate(base | options), fabric=fabric)[0]
    assert other["last"]["test"] != plain["last"]["test"]
    assert abs(other["last"]["test"]) < 10
    if options.get("precision", "32-true") != "32-true":
        assert other["last"]["test"] == pytest.approx(plain["last"]["test"], rel=0.05)


def test_the_same_seed_gives_the_same_curve_and_another_one_another() -> None:
    class Curve(Callback):
        def __init__(self) -> None:
            self.rows: list[dict[str, Any]] = []

        def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
            self.rows.append(row)

    curves = []
    for seed in (0, 0, 1):
        curve = Curve()
        learn(model(dropout=0.2, policy="ego+:2"), seed=seed, callback=curve)
        curves.append(curve.rows)
    assert curves[0] == curves[1]
    assert curves[0] != curves[2]


@pytest.mark.parametrize("policy", ["ego+:2", "ego+:2@0.5"])
def test_going_on_is_as_if_never_stopped(policy: str, tmp_path: Path) -> None:
    """Stopped after any epoch, with dropout, sampled subgraphs, a schedule and momentum: the same bits at the end."""
    config = {"epochs": 4, "optimiser": {"sharpness": "sam", "rho": 0.05}, "schedule": {"name": "cosine"}}

    def make() -> DS:
        torch.manual_seed(0)
        return DS(1, 8, 2, 1, policy=policy, dropout=0.3)

    whole = make()
    expected = learn(whole, config=config, folder=tmp_path / "whole")

    class Stop(Callback):
        def __init__(self, last: int) -> None:
            self.last = last

        def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
            if row["epoch"] == self.last:
                raise KeyboardInterrupt

    for last in range(3):
        with pytest.raises(KeyboardInterrupt):
            learn(make(), config=config, folder=tmp_path / str(last), callback=Stop(last))
        torch.manual_seed(99)
        again = DS(1, 8, 2, 1, policy=policy, dropout=0.3)  # other weights: all come from the folder
        result = learn(again, config=config, folder=tmp_path / str(last))
        assert {k: v for k, v in result.items() if k != "seconds"} == {k: v for k, v in expected.items() if k != "seconds"}
        for one, other in zip(again.state_dict().values(), whole.state_dict().values(), strict=True):
            assert torch.equal(one, other)


def test_stopping_early() -> None:
    assert learn(config={"epochs": 50, "patience": 2, "optimiser": {"lr": 1e-12}})["epochs"] <= 20
    stopped = learn(
        config={"epochs": 50, "stop_lr": 0.2, "optimiser": {"name": "sgd", "lr": 1.0}, "schedule": {"name": "step", "every": 1}}
    )
    assert stopped["epochs"] == 3  # 1, 0.5, 0.25, then 0.125


def test_a_finished_run_is_not_trained_further(tmp_path: Path) -> None:
    config = {"epochs": 50, "patience": 2, "optimiser": {"lr": 1e-12}}
    first = learn(config=config, folder=tmp_path)
    assert learn(config=config, folder=tmp_path) == first


def test_without_validation_the_last_epoch_counts() -> None:
    problem = tiny.problem()
    problem.splits.pop("val")
    result = learn(problem=problem)
    assert result["best_epoch"] == 2
    assert set(result["best"]) == {"train", "test"}
    problem.splits.pop("train")
    with pytest.raises(ValueError, match="has no training graphs"):
        learn(problem=problem)


def test_a_metric_that_means_nothing_counts_as_none() -> None:
    """With no label in the validation graphs the last epoch is reported."""
    problem = tiny.problem()
    problem.y[problem.splits["val"]] = float("nan")
    assert learn(problem=problem)["best_epoch"] == 2
