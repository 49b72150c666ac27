"""Losses: NaN labels are missing, and every loss knows its tasks."""

import math

import pytest
import torch

from reign.train.settings.losses import LOSSES


def test_losses_leave_out_what_is_missing() -> None:
    out, y = torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.tensor([[0.0, float("nan")], [5.0, 5.0]])
    for name, expected in (("l1", 1.0 + 2.0), ("mse", 1.0 + 4.0)):
        assert float(LOSSES[name].sum(out, y)) == expected
    out.requires_grad_()
    LOSSES["mse"].sum(out, y).backward()
    assert out.grad is not None
    assert out.grad.tolist() == [[2.0, 0.0], [-4.0, 0.0]]
    logits, yes = torch.tensor([[0.3], [-1.0]]), torch.tensor([[1.0], [float("nan")]])
    assert float(LOSSES["bce"].sum(logits, yes)) == pytest.approx(-float(torch.sigmoid(torch.tensor(0.3)).log()))
    even = torch.zeros(3, 4)
    some = LOSSES["cross_entropy"].sum(even, torch.tensor([[1.0], [float("nan")], [3.0]]))
    assert float(some) == pytest.approx(2 * math.log(4))
