"""All weights as one tensor: the same numbers as the optimiser itself gives, and a state that is found where it always is."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torch.optim import SGD, Adam, AdamW, Optimizer

from reign.train.engine.update import FlatAdam, clipped


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 70), nn.ReLU(), nn.Linear(70, 1), nn.Linear(1, 1))


def gradients(net: nn.Module, step: int) -> None:
    """Gradients of all weights but those of the last map, which is not used."""
    x = torch.randn(9, 5, generator=torch.Generator().manual_seed(step))
    out: Tensor = net[1](net[0](x))  # type: ignore[index]
    net.zero_grad()
    net[2](out).square().mean().backward()  # type: ignore[index]


def assert_same(value: Tensor, expected: Tensor) -> None:
    """The same but for the last digit: a CPU rounds the ends of tensors in another way than their middle."""
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("kind", [Adam, AdamW])
def test_the_same_numbers(kind: type[Optimizer], before: int) -> None:
    """From a new optimiser, and from one that has made steps; a step that is skipped changes nothing."""
    plain = model()
    reference = kind(plain.parameters(), lr=0.01, weight_decay=0.1, fused=True)  # type: ignore[call-arg]
    for step in range(before):
        gradients(plain, step)
        reference.step()
    net = copy.deepcopy(plain)
    optimiser = kind(net.parameters(), lr=0.01, weight_decay=0.1, fused=True)  # type: ignore[call-arg]
    if before:
        optimiser.load_state_dict(copy.deepcopy(reference.state_dict()))
    flat = None
    for step in range(before, before + 4):
        gradients(plain, step)
        reference.step()
        for skip in (1.0, 0.0):
            gradients(net, step)
            flat = flat or FlatAdam(optimiser, [p for p in net.parameters() if p.grad is not None])
            flat.collect()
            flat.step(torch.tensor(skip))
    for name, value in net.state_dict().items():
        assert_same(value, plain.state_dict()[name])
    for a, b in zip(net.parameters(), plain.parameters(), strict=True):
        assert optimiser.state[a].keys() == reference.state[b].keys()
        for key, value in reference.state[b].items():
            assert_same(optimiser.state[a][key], value)


def test_what_it_takes() -> None:
    weights = list(model().parameters())
    assert FlatAdam.takes(Adam(weights))
    assert FlatAdam.takes(AdamW(weights))
    assert not FlatAdam.takes(SGD(weights))
    assert not FlatAdam.takes(Adam(weights, amsgrad=True))
    assert not FlatAdam.takes(Adam([{"params": weights[:1]}, {"params": weights[1:]}]))


def test_weights_are_aligned_as_tensors_of_their_own() -> None:
    """Libraries choose how to multiply by the alignment of memory, so another alignment may change the last bits."""
    net = model()
    gradients(net, 0)
    optimiser = Adam(net.parameters())
    flat = FlatAdam(optimiser, [p for p in net.parameters() if p.grad is not None])
    start = flat.values.data_ptr()
    assert len(flat.weights) == 4
    for weight, place in zip(flat.weights, flat.places, strict=True):
        assert (weight.data_ptr() - start) % 512 == (place.data_ptr() - flat.grads.data_ptr()) % 512 == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_the_next_gradients_after_some_that_are_no_numbers(value: float) -> None:
    """There are gaps between the weights, whose zeros are clipped with them and must stay zeros."""
    net = model()
    gradients(net, 0)
    optimiser = Adam(net.parameters())
    flat = FlatAdam(optimiser, [p for p in net.parameters() if p.grad is not None])
    assert flat.grads.numel() > sum(p.numel() for p in flat.weights)
    expected = flat.collect()[0].clone()
    for p in flat.weights:
        assert p.grad is not None
        p.grad.fill_(value)
    grads = flat.collect()
    torch._foreach_mul_(grads, clipped(get_total_norm(grads), 1.0))
    gradients(net, 0)
    assert torch.equal(flat.collect()[0], expected)


def test_factors_of_clipping() -> None:
    found = [float(clipped(torch.tensor(norm), 2.0)) for norm in (1.0, 4.0, float("inf"), float("nan"))]
    assert found == pytest.approx([1.0, 0.5, 0.0, 1.0])
