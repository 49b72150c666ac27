"""The training loop: what it learns, when it stops, and how it continues."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import tiny
from learning import CPU, Curve, learn, model
from reign.data import Problem
from reign.nn import DS
from reign.train import Callback, Training, fit
from reign.train.engine.engine import Engine
from reign.train.engine.execution import make_fabric

pytestmark = pytest.mark.usefixtures("signatures_unchecked")


def test_it_learns() -> None:
    result = learn(config={"epochs": 30, "optimiser": {"lr": 0.01}, "loss": "l1"}, problem=tiny.problem(60))
    assert result["best"]["train"] < 0.3
    assert result["epochs"] == 30
    first = learn(config={"epochs": 1, "loss": "l1"}, problem=tiny.problem(60))
    assert result["best"]["test"] < first["best"]["test"]


def small() -> DS:
    """A model that takes little time."""
    torch.manual_seed(0)
    return DS(1, 4, 1, 1, policy="ego+:1", set_channels=())


@cache
def last(config: str) -> float:
    """The test metric after a short training."""
    settings = Training.model_validate({"epochs": 2, "batch_size": 5, "metric": "mae", **json.loads(config)})
    fabric = make_fabric(settings.precision, accelerator="cpu")
    return float(fit(small(), tiny.problem(), settings, fabric=fabric)[0]["last"]["test"])


SGD = {"name": "sgd", "lr": 0.01}
SAM = {**SGD, "sharpness": "sam", "rho": 0.5}


@pytest.mark.parametrize(
    ("base", "options"),
    [
        ({"optimiser": {"name": "adamw"}}, {"optimiser": {"name": "adamw", "weight_decay": 0.1}}),
        ({"optimiser": SGD}, {"optimiser": {**SGD, "momentum": 0.9}}),
        ({"optimiser": SGD}, {"optimiser": {**SGD, "weight_decay": 0.1}}),
        ({"optimiser": SGD}, {"optimiser": SAM}),
        ({"optimiser": SAM}, {"optimiser": {**SAM, "rho": 0.1}}),
        ({"optimiser": SAM}, {"optimiser": {**SAM, "sharpness": "asam"}}),
        ({"optimiser": {**SAM, "sharpness": "asam"}}, {"optimiser": {**SAM, "sharpness": "asam", "eta": 0.5}}),
        ({}, {"precision": "64-true"}),
        ({}, {"precision": "bf16-mixed"}),
        ({}, {"clip": 0.1}),
        ({}, {"average": 2}),
        ({}, {"accumulate": 2}),
        ({}, {"scale_targets": True}),
        ({}, {"max_pairs": 60}),
        ({}, {"schedule": {"name": "step", "every": 1}}),
    ],
    ids=str,
)
def test_every_option_changes_the_result(base: dict[str, Any], options: dict[str, Any]) -> None:
    """Each option by itself: both runs are the same but for it."""
    plain, other = last(json.dumps(base)), last(json.dumps(options))
    assert other != plain
    assert abs(other) < 10
    if set(options) == {"precision"}:
        assert other == pytest.approx(plain, rel=0.002)


def test_the_same_seed_gives_the_same_curve_and_another_one_another() -> None:
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


class Weights(Callback):
    """Keeps the weights after every epoch."""

    def __init__(self, net: torch.nn.Module) -> None:
        self.net, self.kept, self.improved = net, [], []

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        self.kept.append({name: value.clone() for name, value in self.net.state_dict().items()})
        self.improved.append(improved)


@pytest.mark.parametrize(
    ("metric", "values", "patience", "epochs", "best"),
    [
        ("mae", [5.0, 4.0, 4.5, 4.0, 4.2, 3.0], 3, 5, 1),  # three epochs after the second without a better one; equal is not better
        ("mae", [5.0, 4.0, 4.5, 3.9, 4.2, 3.9], 3, 6, 3),
        ("mae", [5.0, 6.0, 1.0], 1, 2, 0),
        ("mae", [5.0, 4.0, float("nan"), 4.5, 4.4, 1.0], 3, 5, 1),
        ("mae", [5.0, 4.0, 4.5, 4.6], None, 4, 1),
        ("accuracy", [0.5, 0.7, 0.6, 0.7, 0.9], 2, 4, 1),
    ],
)
@pytest.mark.parametrize("report", ["best", "last"])
def test_patience_and_the_best_weights(
    metric: str, values: list[float], patience: int | None, epochs: int, best: int, report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Validation metrics that are written down here: when training stops, which epoch is the best, and whose weights stay."""
    problem = tiny.problem()
    if metric == "accuracy":
        problem = replace(problem, task="classification", graphs=problem.graphs.with_targets((problem.y > 1.5).double()))
    told = iter(values)
    monkeypatch.setattr(Engine, "validate", lambda self: {f"val_{metric}": next(told)})
    net = small()
    kept = Weights(net)
    config = {"epochs": len(values), "patience": patience, "metric": metric, "report": report, "optimiser": {"lr": 0.02}}
    result = learn(net, problem, config=config, callback=kept)
    assert (result["epochs"], result["best_epoch"]) == (epochs, best)
    assert [e for e, better in enumerate(kept.improved) if better][-1] == best
    stays = kept.kept[best if report == "best" else -1]
    assert all(torch.equal(value, stays[name]) for name, value in net.state_dict().items())
    assert not all(torch.equal(value, kept.kept[-1][name]) for name, value in kept.kept[best].items())
    other = Engine(net, problem, Training(batch_size=5, metric=metric), 0, CPU, Callback())  # measured once more, by other objects
    for which, weights in (("best", kept.kept[best]), ("last", kept.kept[-1])):
        net.load_state_dict(weights)
        for split in problem.splits:
            assert result[which][split] == pytest.approx(other.score(split, other.predict(split)), rel=1e-6)
    assert result["best"] != result["last"] or metric == "accuracy"


def test_the_rate_follows_the_validation_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([3.0, 2.0, 2.5, 2.5, 1.0])
    monkeypatch.setattr(Engine, "validate", lambda self: {"val_mae": next(told)})
    rates: list[float] = []
    watch = Callback()
    watch.epoch = lambda row, epochs, improved: rates.append(row["lr"])  # type: ignore[method-assign]
    config = {"epochs": 5, "optimiser": {"lr": 1.0, "name": "sgd"}, "schedule": {"name": "plateau", "patience": 0}, "clip": 0.001}
    learn(small(), config=config, callback=watch)
    assert rates == [1.0, 1.0, 1.0, 0.5, 0.25]


def test_stopping_at_a_small_rate() -> None:
    stopped = learn(
        config={"epochs": 50, "stop_lr": 0.2, "optimiser": {"name": "sgd", "lr": 1.0}, "schedule": {"name": "step", "every": 1}}
    )
    assert stopped["epochs"] == 3  # 1, 0.5, 0.25, then 0.125


def test_settings_and_problems_that_are_none() -> None:
    with pytest.raises(
        ValueError, match=r"^there is no setting 'lr'; did you mean .* as in optimiser=\{\"lr\": 0.1\}\? Known: accumulate, [^\[]*$"
    ):
        Training(epochs=1, lr=0.1)
    with pytest.raises(ValueError, match=r"^optimiser.lr: input should be .* \(got -1\)$"):
        Training(optimiser={"lr": -1})
    with pytest.raises(
        ValueError, match=r"problem is of type list, expected a reign.data.Problem; make one with Problem.of\(graphs\)"
    ):
        fit(small(), tiny.graphs())  # type: ignore[arg-type]
    assert repr(tiny.problem()) == "Problem('tiny', 24 graphs, train: 12, val: 6, test: 6, regression of y)"


def test_patience_needs_a_validation_split() -> None:
    with pytest.raises(ValueError, match="patience is 2, but .* has no validation split, which would say when to stop"):
        fit(small(), Problem.of(tiny.graphs()), Training(patience=2))


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
