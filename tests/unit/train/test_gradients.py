"""A loss or a gradient that is not a number."""

import inspect
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tiny
from learning import CPU, Curve, learn, model
from reign.data import Problem
from reign.disk import read_state
from reign.experiments import find_recipe
from reign.kernels.blocked._norm import Affine, Moments, Norm, back
from reign.nn import SUN, PPGNNodesConv
from reign.train import Callback, fit
from reign.train.engine.engine import Engine
from reign.train.engine.step import NonFiniteLoss
from reign.train.runs.build import make_model, make_problem
from reign.train.settings.config import Recipe


def test_a_loss_that_is_not_a_number_stops_and_keeps_the_last_good_state(tmp_path: Path) -> None:
    problem = tiny.problem()

    made: list[Engine] = []
    original = Engine.__init__

    def remember(self: Engine, *args: Any) -> None:
        inspect.unwrap(original)(self, *args)
        made.append(self)

    net = model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "__init__", remember)

        class Poison(Callback):
            """After the first epoch one target becomes infinite."""

            def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
                made[0].graphs.y[3] = float("inf")  # type: ignore[index]

        with pytest.raises(NonFiniteLoss) as error:
            learn(net, problem, folder=tmp_path, callback=Poison())
    message = str(error.value)
    assert "the loss is inf in epoch 2, batch" in message
    assert "graphs of tiny: " in message
    assert "3" in message.split("tiny: ")[1].split(")")[0].split(", ")
    assert "smaller learning rate" in message
    kept = SUN.from_pretrained(tmp_path / "last_good")
    assert all(value.isfinite().all() for value in kept.state_dict().values())
    for one, other in zip(kept.state_dict().values(), net.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert (tmp_path / "checkpoint.pt").is_file()
    result = learn(model(1), tiny.problem(), folder=tmp_path)  # with the target mended, it goes on
    assert result["epochs"] == 3


def test_a_gradient_that_is_not_a_number_stops_too(tmp_path: Path) -> None:
    """The root of zero has a value and no slope: weights would be lost with the step, and seen only with the next batch."""

    class Root(SUN):
        def forward(self, *args: Any, **kwargs: Any) -> Tensor:
            out: Tensor = super().forward(*args, **kwargs)
            return out + (out - out).abs().sqrt()

    torch.manual_seed(0)
    net = Root(1, 8, 2, 1, policy="ego+:2")
    before = [p.detach().clone() for p in net.parameters()]
    with pytest.raises(NonFiniteLoss, match="the gradient is nan in epoch 1, batch 1"):
        learn(net)
    assert all(torch.equal(p, old) for p, old in zip(net.parameters(), before, strict=True))


# -- the published PPGN, whose blocks multiply without a norm (docs/readings.md) -------------------------------------------


@pytest.fixture
def stars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Recipe, Problem]:
    monkeypatch.setenv("REIGN_CACHE", str(tmp_path / "cache"))
    recipe, _ = find_recipe("counting/ppgn/star", {"data": {"options": {"num_graphs": 40}}, "train": {"epochs": 2}})
    return recipe, make_problem(recipe.data)[0]


def larger(recipe: Recipe, problem: Problem, factor: float) -> nn.Module:
    """The model of seed 1 before training, with all weights of its blocks times a factor."""
    net = make_model(recipe.model, problem, 1)
    with torch.no_grad():
        for parameter in blocks(net).parameters():
            parameter.mul_(factor)
    return net


def blocks(net: nn.Module) -> nn.ModuleList:
    return next(module for module in net.modules() if isinstance(module, PPGNNodesConv)).blocks


@pytest.mark.usefixtures("signatures_unchecked")
@pytest.mark.parametrize(
    ("factor", "expected"), [(1, [2, 0.6, 0.3, 0.1, 0.1, 0.2]), (2, [7, 4e1, 2e3, 1e7, 3e14, 4e29]), (3, [3e1, 8e3, 1e9, 3e19])]
)
def test_products_without_a_norm_grow_unseen_until_the_loss_is_nan(
    stars: tuple[Recipe, Problem], factor: float, expected: list[float]
) -> None:
    recipe, problem = stars
    net, found = larger(recipe, problem, factor), []
    for block in blocks(net):
        block.register_forward_hook(lambda _, __, out: found.append(float(out.detach().abs().max())))
    batch = problem.graphs.batch(problem.splits["train"])
    loss = (net(batch.x, batch.edge_index, batch.edge_attr, batch.batch, batch.size) - batch.y).abs().mean()
    assert found[: len(expected)] == pytest.approx(expected, rel=0.5)
    if factor == 3:
        assert not any(map(math.isfinite, found[4:]))
        assert math.isnan(float(loss.detach()))
        with pytest.raises(
            NonFiniteLoss, match=r"the loss is nan in epoch 1, batch 1 \(12 graphs of counting: .*train\.precision=32-ieee"
        ):
            fit(net, problem, recipe.train, fabric=CPU)
        return
    grads = torch.autograd.grad(loss, [parameter for parameter in net.parameters() if parameter.requires_grad])
    assert float(loss.detach()) == pytest.approx(3.9, abs=0.1)  # whatever the values are
    assert all(grad.isfinite().all() for grad in grads)
    assert max(float(grad.abs().max()) for grad in grads) < 100


@pytest.mark.usefixtures("signatures_unchecked")
def test_no_model_of_nan_is_kept_as_the_best(stars: tuple[Recipe, Problem], tmp_path: Path) -> None:
    """The weights of the first epoch stay the best ones when those of the second one grow."""
    recipe, problem = stars
    net = make_model(recipe.model, problem, 1)

    class Grows(Curve):
        def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
            super().epoch(row, epochs, improved)
            with torch.no_grad():
                for parameter in blocks(net).parameters():
                    parameter.mul_(3)

    with pytest.raises(NonFiniteLoss, match="the loss is nan in epoch 2, batch 1"):
        fit(net, problem, recipe.train, folder=tmp_path / "run", fabric=CPU, callback=Grows())
    kept = read_state(tmp_path / "run" / "checkpoint.pt")
    assert (kept["best_epoch"], len(kept["rows"])) == (0, 1)
    net.load_state_dict(kept["best_weights"])
    batch = problem.graphs.batch(problem.splits["val"])
    assert bool(net.eval()(batch.x, batch.edge_index, batch.edge_attr, batch.batch, batch.size).isfinite().all())


def test_predictions_that_are_not_finite_are_noted_and_their_epoch_is_not_the_best() -> None:
    """The norms of training hide what the running statistics of validation do not."""

    class Breaks(SUN):
        epoch = 0

        def forward(self, *args: Any, **kwargs: Any) -> Tensor:
            out: Tensor = super().forward(*args, **kwargs)
            Breaks.epoch += not self.training
            return out * math.nan if not self.training and Breaks.epoch == 3 else out

    torch.manual_seed(0)
    curve = Curve()
    result = learn(Breaks(1, 8, 2, 1, policy="ego+:2"), callback=curve, config={"batch_size": 100, "max_pairs": 10_000})
    assert [math.isnan(row["val_mae"]) for row in curve.rows] == [False, False, True]
    assert result["best_epoch"] in (0, 1)
    assert curve.notes.count("some predictions for validation graphs are NaN or infinite, although the training loss is not.") == 1


def test_numbers_that_overflow_in_blocks_print_no_warnings_of_numpy() -> None:
    big = torch.full((4, 2), 1e38)
    moments = Moments(2, big)
    norm = Norm(torch.ones(2), torch.ones(2), torch.zeros(2), torch.ones(2), 0.1, 1e-5)
    moments.add(0, big, None)
    moments.add(1, big * 1e10, None)  # infinity
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not moments.finish(norm, True).mean.isfinite().any()
        ordinary = Affine.make(np.zeros(2), np.ones(2), np.ones(2), np.ones(2), 1e-5, torch.float32, 8)
        assert not back(ordinary, (np.ones(2), np.full(2, np.inf))).lam.isfinite().any()  # type: ignore[union-attr]
