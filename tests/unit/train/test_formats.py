"""Number formats."""

import torch
from torch import nn

from reign.train.formats import number_format
from reign.train.processes import OneProcess

CPU = torch.device("cpu")


def test_bfloat16_sees_weights_that_change() -> None:
    linear, x = nn.Linear(2, 3), torch.ones(4, 2)
    wrapped = OneProcess(CPU, "bf16-mixed").setup(linear)
    with number_format(CPU, "bf16-mixed"):
        for module in (linear, wrapped):
            before = module(x)
            with torch.no_grad():
                linear.weight += 1
            torch.testing.assert_close(module(x), before + 2, atol=0.05, rtol=0.05)


def test_one_process_gives_float32_and_bounds_gradients() -> None:
    linear = nn.Linear(2, 3)
    process = OneProcess(CPU, "bf16-mixed")
    wrapped, optimiser = process.setup(linear, torch.optim.SGD(linear.parameters(), 0.1))
    out = wrapped(torch.full((4, 2), 1e3))
    assert out.dtype == torch.float32
    process.backward(out.sum())
    process.clip_gradients(wrapped, optimiser, max_norm=0.5)
    gradient = torch.cat([p.grad.flatten() for p in linear.parameters() if p.grad is not None])
    assert abs(float(gradient.norm()) - 0.5) < 1e-3
