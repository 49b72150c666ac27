"""A loss or a gradient that is not a number."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tiny
from learning import learn, model
from reign.nn import SUN
from reign.train import Callback
from reign.train.engine.engine import Engine
from reign.train.engine.step import NonFiniteLoss


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
