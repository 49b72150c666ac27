"""The moving average of the weights: its formula, and that it is what is validated, kept and continued."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import reign
from learning import Curve
from reign.data import Problem
from reign.train import fit
from reign.train.engine.update import Average
from reign.train.settings.config import TrainingConfig

pytestmark = pytest.mark.usefixtures("signatures_unchecked")


def problem() -> Problem:
    graphs = reign.testing.random_graphs(20, min_nodes=2, max_nodes=5, edge_prob=0.5)
    for graph in graphs:
        graph.y = torch.tensor([[graph.edge_index.size(1) / 10]])
    return Problem.of(graphs[:12], graphs[12:16], graphs[16:])


def net() -> nn.Module:
    torch.manual_seed(0)
    return reign.build_model("dss", 3, 4, 2, 1)


class Steps(Curve):
    """Keeps the weights after every step, and the validation metric of every epoch."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.weights: list[dict[str, Tensor]] = []
        self.scores: list[float] = []

    def batch(self, what: str, done: int, total: int) -> None:
        if what.startswith("epoch"):
            self.weights.append({name: value.detach().clone() for name, value in self.model.state_dict().items()})

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        super().epoch(row, epochs, improved)
        self.scores.append(row["val_rmse"])


def expected(weights: list[dict[str, Tensor]], decay: float) -> dict[str, Tensor]:
    shares = torch.tensor([decay ** (len(weights) - 1 - s) for s in range(len(weights))], dtype=torch.float64)
    shares /= shares.sum()
    return {name: sum(share * w[name] for share, w in zip(shares, weights, strict=True)) for name in weights[0]}  # type: ignore[misc]


def config(**changes: Any) -> TrainingConfig:
    return TrainingConfig(
        **{"epochs": 3, "batch_size": 5, "average": 2, "precision": "64-true", "metric": "rmse", "report": "last", **changes}
    )


def test_what_is_kept_is_the_average_of_all_steps() -> None:
    model = net()
    steps = Steps(model)
    result, _ = fit(model, problem(), config(), callback=steps)
    average = expected(steps.weights, 1 - 1 / (2 * 3))  # two epochs of three steps
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            assert torch.allclose(value, average[name], rtol=1e-6), name
        else:
            assert torch.equal(value, steps.weights[-1][name]), name
    assert result["last"]["val"] == pytest.approx(steps.scores[-1], rel=1e-9), "the epochs are judged by averaged weights"


def test_training_itself_stays_the_same() -> None:
    curves = []
    for average in (0, 0.01, 2):
        model = net()
        steps = Steps(model)
        fit(model, problem(), config(average=average), callback=steps)
        curves.append((steps.losses, steps.scores))
    assert curves[0] == curves[1], "an average over less than a step is that of one step"
    assert curves[0][0] == curves[2][0]
    assert curves[0][1] != curves[2][1]


def test_a_run_that_was_stopped_goes_on_with_its_average(tmp_path: Path) -> None:
    whole, again = net(), net()
    fit(whole, problem(), config())
    fit(net(), problem(), config(epochs=2), folder=tmp_path)
    fit(again, problem(), config(), folder=tmp_path)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


class OfSizes(nn.Module):
    """A model that is not one of this library: a number for each graph, made from its number of nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(1, 1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor, batch_size: int) -> Tensor:
        out: Tensor = self.lin(torch.bincount(batch, minlength=batch_size)[:, None].to(x.dtype))
        return out


def test_the_files_of_any_model_are_the_weights_that_were_measured(tmp_path: Path) -> None:
    model = OfSizes()
    options = {"report": "best", "epochs": 8, "optimiser": {"name": "sgd", "lr": 0.2}}
    result, _ = fit(model, problem(), config(**options), folder=tmp_path)
    best, last = (load_file(tmp_path / which / "model.safetensors") for which in ("best", "last"))
    assert result["best_epoch"] < 7
    assert all(torch.equal(best[name], value) for name, value in model.state_dict().items())
    assert not torch.equal(best["lin.weight"], last["lin.weight"])


def test_weights_that_are_not_trained_stay_as_they_are() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).requires_grad_(False)
    average, before = Average(model, 10), {name: value.clone() for name, value in model.state_dict().items()}
    for _ in range(5):
        average.update()
    with average.shown():
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("window", [0.5, 1, 10, 1e9])
def test_any_window(window: float) -> None:
    """Also a very long window, over which all steps count equally."""
    model = nn.Linear(3, 1)
    average, seen = Average(model, window), []
    for step in range(20):
        with torch.no_grad():
            model.weight.fill_(step)
        seen.append({"weight": model.weight.detach().clone()})
        average.update()
    with average.shown():
        assert torch.allclose(model.weight.double(), expected(seen, max(0.0, 1 - 1 / window))["weight"].double(), rtol=1e-5)


@pytest.mark.parametrize("window", [-1, float("inf"), float("nan")])
def test_windows_that_are_refused(window: float) -> None:
    with pytest.raises(ValueError, match="average"):
        config(average=window)
