"""A frozen encoder: only the head learns, throughout or in the first epochs."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tiny
from learning import Curve
from reign.nn import DS
from reign.train import Callback, Training, fit
from reign.train.engine import engine
from reign.train.engine.execution import make_fabric

pytestmark = pytest.mark.usefixtures("signatures_unchecked")

CONFIG = {"epochs": 5, "batch_size": 6, "freeze_epochs": 2, "schedule": {"name": "cosine"}, "average": 2.0, "report": "last"}


def model(seed: int = 0, dropout: float = 0.2) -> DS:
    torch.manual_seed(seed)
    return DS(1, 4, 1, 1, policy="ego+:1", set_channels=(), dropout=dropout)


def learn(config: dict[str, Any], made: DS | None = None, folder: Path | None = None, callback: Callback | None = None) -> DS:
    made = made or model()
    settings = Training.model_validate({**CONFIG, **config})
    fit(made, tiny.problem(), settings, folder=folder, callback=callback, fabric=make_fabric(settings.precision, "cpu"))
    return made


class Watch(Curve):
    """Keeps the weights and statistics after every epoch, and can stop."""

    def __init__(self, made: DS, stop: int | None = None) -> None:
        super().__init__()
        self.made, self.stop, self.seen = made, stop, list[dict[str, Tensor]]()

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        super().epoch(row, epochs, improved)
        self.seen.append({name: value.clone() for name, value in self.made.state_dict().items()})
        if row["epoch"] == self.stop:
            raise KeyboardInterrupt


def moved(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    return {name.partition(".")[0] for name in before if not before[name].equal(after[name])}


@pytest.mark.parametrize("optimiser", [{}, {"sharpness": "sam", "rho": 0.05}, {"name": "sgd"}], ids=str)
def test_first_the_head_and_then_all_weights(optimiser: dict[str, Any]) -> None:
    made = model()
    start = {name: value.clone() for name, value in made.state_dict().items()}
    watch = Watch(made)
    learn({"optimiser": optimiser}, made, callback=watch)
    assert moved(start, watch.seen[0]) == moved(watch.seen[0], watch.seen[1]) == {"head"}  # and no statistics of norms
    names = [name for name, _ in made.named_parameters()]  # without statistics of norms, which move by themselves
    before, after = ({name: seen[name] for name in names} for seen in watch.seen[1:3])
    assert moved(before, after) == {name.partition(".")[0] for name in names} != {"head"}
    assert all(weight.requires_grad for weight in made.parameters())


def test_the_rate_starts_anew_and_lower() -> None:
    watch = Watch(made := model())
    learn({"optimiser": {"lr": 0.5}, "schedule": {"name": "constant"}, "unfrozen_lr": 0.02}, made, callback=watch)
    assert [row["lr"] for row in watch.rows] == pytest.approx([0.5, 0.5, 0.01, 0.01, 0.01])
    assert any("From epoch 3 on all weights are trained" in note for note in watch.notes)
    cosine = Watch(made := model())
    learn({"optimiser": {"lr": 0.5}, "epochs": 6}, made, callback=cosine)
    rates = [row["lr"] for row in cosine.rows]
    assert rates[1] == pytest.approx(0.005, rel=0.2)  # the floor of the first two epochs
    assert rates[5] == pytest.approx(0.0005, rel=0.2)
    assert rates[2] > 0.02


def test_early_stopping_waits_for_all_weights() -> None:
    watch = Watch(made := model())
    still = {"optimiser": {"name": "sgd", "lr": 1e-30}, "average": 0.0}  # only statistics of norms change, once they are not frozen
    learn({"epochs": 30, "freeze_epochs": 6, "patience": 2, **still}, made, callback=watch)
    values = [row["val_rmse"] for row in watch.rows]
    assert len(set(values[:6])) == 1
    assert len(values) == max(values.index(min(values)), 5) + 3 < 30
    watch = Watch(made := model())
    learn({"freeze_epochs": 3, "stop_lr": 0.2, "optimiser": {"lr": 0.1}}, made, callback=watch)
    assert len(watch.rows) == 4


@pytest.mark.parametrize("resident", [False, True])
def test_a_stopped_run_goes_on_across_the_change(resident: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "why_not_captured", lambda _: None if resident else "a test")
    config = {"checkpoint_seconds": 0.0, "optimiser": {"lr": 0.01}}
    whole = learn(config).state_dict()
    for stop in range(1, 3):
        with pytest.raises(KeyboardInterrupt):
            learn(config, made := model(), tmp_path / str(stop), Watch(made, stop))
        again = model(seed=99)  # other weights: all come from the folder
        learn(config, again, tmp_path / str(stop))
        assert not moved(whole, again.state_dict())


def test_steps_on_the_device_change_the_weights_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for on in (False, True):
        monkeypatch.setattr(engine, "why_not_captured", lambda _, on=on: None if on else "a test")
        watch = Watch(made := model(dropout=0.0))
        learn({"average": 0.0, "precision": "64-true", "optimiser": {"lr": 0.01}}, made, callback=watch)
        found.append(watch.seen)
        assert moved(watch.seen[0], watch.seen[1]) == {"head"}
        assert len(moved(watch.seen[1], watch.seen[2])) > 1
    for directly, resident in zip(*found, strict=True):
        for name, value in directly.items():
            assert torch.allclose(value, resident[name], rtol=1e-6), name


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"freeze_encoder": True}, "set one of them"),
        ({"freeze_epochs": 5}, "freeze_epochs is 5 and epochs is 5"),
        ({"freeze_epochs": 0}, "greater than 0"),
        ({"unfrozen_lr": 0}, "greater than 0"),
    ],
)
def test_wrong_settings(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Training.model_validate({**CONFIG, **wrong})
