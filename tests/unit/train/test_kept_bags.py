"""Bags that are kept between epochs change nothing but the time."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import tiny
from learning import CPU, Curve, learn, model
from reign.kernels import blocked
from reign.nn import DS, Model
from reign.policies import Policy
from reign.train import Callback, Training
from reign.train.engine import engine
from reign.train.engine.batches import BagCache, BagSource
from reign.train.engine.engine import Engine

SMALL = 8 * 8 * 8 * 3  # layers of fewer numbers run in plain operations: about three graphs, and not five


def learner(net: Model, callback: Callback | None = None, **config: Any) -> Engine:
    settings = Training.model_validate({"batch_size": 5, "metric": "mae", **config})
    return Engine(net, tiny.problem(), settings, 0, CPU, callback or Callback())


def losses(one: Engine, epochs: int = 3) -> list[Any]:
    return [(one.train_epoch(epoch), one.validate()) for epoch in range(epochs)]


def without(one: Engine) -> Engine:
    one.bags = BagSource(one.graphs)
    object.__setattr__(one.inference, "bags", None)
    return one


@pytest.mark.usefixtures("signatures_unchecked")
@pytest.mark.parametrize("worth", [0, SMALL, 10**9])
def test_the_same_bits_as_bags_made_again(worth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all layers in blocks, with the last and smallest batch in plain operations, and with all in plain operations."""
    monkeypatch.setattr(blocked, "LIMITS", replace(blocked.LIMITS, numbers=worth))
    net, twin = model(), model()
    one = learner(net)
    assert losses(one) == losses(without(learner(twin)))
    assert isinstance(one.bags, BagCache)
    assert one.bags._assembly is not None
    for value, other in zip(net.state_dict().values(), twin.state_dict().values(), strict=True):
        assert torch.equal(value, other)


@pytest.mark.usefixtures("signatures_unchecked")
def test_from_the_second_epoch_on_no_bag_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "LIMITS", replace(blocked.LIMITS, numbers=0))
    one, made = learner(model()), list[int]()
    original = Policy.__call__

    def count(self: Policy, x: Tensor, *args: Any, **more: Any) -> Any:
        made.append(x.size(0))
        return original(self, x, *args, **more)

    monkeypatch.setattr(Policy, "__call__", count)
    losses(one, 1)
    assert len(made) == 3 + 2  # batches of training and of validation
    losses(one, 2)
    assert len(made) == 3 + 2
    one.predict("test")
    one.predict("test")
    assert len(made) == 3 + 2 + 2 * 2  # they are needed once, and not kept


@pytest.mark.parametrize(("options", "kept"), [({"policy": "ego+:2"}, True), ({"policy": "ego+:2@0.5"}, False)])
def test_sampled_bags_are_not_kept(options: dict[str, str], kept: bool) -> None:
    torch.manual_seed(0)
    curve = Curve()
    assert isinstance(learner(DS(1, 8, 2, 1, **options), curve).bags, BagCache) == kept
    assert not isinstance(learner(DS(1, 8, 2, 1, **options), curve, eager=True).bags, BagCache)
    assert curve.notes == []


@pytest.mark.usefixtures("signatures_unchecked")
def test_policies_that_cut_edges_make_bags_again() -> None:
    one = learner(DS(1, 8, 2, 1, policy="ed"))
    losses(one, 2)
    assert isinstance(one.bags, BagCache)
    assert one.bags._assembly is None


@pytest.mark.usefixtures("signatures_unchecked")
def test_a_data_set_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bags are made again, one line says so, and nothing else changes."""
    monkeypatch.setattr(engine, "free_memory", lambda device: 1e6)
    curve, usual = Curve(), Curve()
    learn(callback=curve)
    (note,) = curve.notes
    assert note.startswith("bags are made again for every batch: to keep them takes about ")
    assert "\n" not in note
    monkeypatch.undo()
    learn(callback=usual)
    assert usual.notes == []
    assert curve.losses == usual.losses


@pytest.mark.usefixtures("signatures_unchecked")
def test_bags_give_way_if_memory_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    net = model()
    one = learner(net)
    losses(one, 2)
    whole, left = Model.predict, [1]

    def fails_once(self: Model, *args: Any) -> Tensor:
        if left and self.training:
            left.pop()
            raise torch.OutOfMemoryError("no memory")
        return whole(self, *args)

    monkeypatch.setattr(Model, "predict", fails_once)
    one.train_epoch(2)
    assert isinstance(one.bags, BagCache)
    assert one.bags._assembly is None
    assert one.validate()
    assert one.bags._whole == {}
