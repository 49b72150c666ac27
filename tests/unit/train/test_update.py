"""The update of the weights: the same as that of the optimiser, whatever gradients there are."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, Adam, Optimizer

from learning import learn, model
from reign.nn import Model
from reign.train.engine.update import FlatAdam, Update


def gradients(net: Model, step: int, without: int | None) -> None:
    """Some gradients for all weights but one."""
    generator = torch.Generator().manual_seed(step)
    for place, weight in enumerate(net.parameters()):
        weight.grad = None if place == without else torch.randn(weight.shape, generator=generator)


@pytest.mark.parametrize("clip", [0.0, 0.5])
@pytest.mark.parametrize(("kind", "flat"), [(Adam, True), (SGD, False)])
@pytest.mark.parametrize("missing", [(None, None, None), (3, 3, 3), (None, 3, None), (3, None, 3)])
def test_the_steps_of_the_optimiser(kind: type[Optimizer], flat: bool, clip: float, missing: tuple[Any, ...]) -> None:
    """A weight that has no gradient in some steps is not moved by them."""
    nets = [model(), model()]
    mine, theirs = (kind(net.parameters(), lr=0.01, weight_decay=0.1) for net in nets)  # type: ignore[call-arg]
    update = Update(nets[0], mine, clip, flat=True)
    assert update._may_be_flat == flat
    for step, without in enumerate(missing):
        for net in nets:
            gradients(net, step, without)
        norm = torch.nn.utils.clip_grad_norm_(nets[1].parameters(), clip or float("inf"))
        theirs.step()
        grads = update.collect()
        assert float(torch.nn.utils.get_total_norm(grads)) == pytest.approx(float(norm))
        update(grads)
    for value, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(value, other, rtol=1e-5, atol=1e-7)


def test_weights_that_have_made_fewer_steps_are_updated_one_by_one() -> None:
    """As in a run that goes on from a checkpoint."""
    net = model()
    optimiser = Adam(net.parameters())
    for step, without in enumerate((None, 3)):
        gradients(net, step, without)
        optimiser.step()
    gradients(net, 2, None)
    update = Update(net, optimiser, flat=True)
    grads = update.collect()
    assert update._flat is None
    update(grads)
    assert {float(state["step"]) for state in optimiser.state.values()} == {2.0, 3.0}


def test_other_number_formats() -> None:
    net = model().double()
    optimiser = Adam(net.parameters())
    for weight in net.parameters():
        weight.grad = torch.ones_like(weight)
    flat = FlatAdam(optimiser, list(net.parameters()))
    flat.collect()
    assert {value.dtype for value in (flat.values, flat.grads, flat.mean, *net.parameters())} == {torch.float64}
    before: list[Tensor] = [weight.detach().clone() for weight in net.parameters()]
    flat.step(torch.zeros(()))
    for weight, old in zip(net.parameters(), before, strict=True):
        torch.testing.assert_close(weight, old - 0.001)


def test_after_training_weights_have_memory_of_their_own() -> None:
    net = model()
    learn(net)
    assert len({weight.untyped_storage().data_ptr() for weight in net.parameters()}) == len(list(net.parameters()))
