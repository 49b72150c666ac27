"""SAM and ASAM."""

import pytest
import torch
from torch import nn

from reign.train.engine.update import Sharpness


@pytest.mark.parametrize("adaptive", [False, True])
def test_sharpness_is_its_formula(adaptive: bool) -> None:
    """Loss (w . a + b)^2 / 2 at known weights: the step epsilon by hand, and the gradient there."""
    net = nn.Linear(2, 1)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, -2.0]]))
        net.bias.fill_(0.5)
    a, rho, eta = torch.tensor([[3.0, 1.0]]), 0.3, 0.1
    (net(a).square() / 2).sum().backward()
    assert net.weight.grad is not None
    assert net.bias.grad is not None
    scale_w = net.weight.detach().abs() + eta if adaptive else torch.ones(1, 2)
    grad_w, grad_b = net.weight.grad.clone(), net.bias.grad.clone()
    norm = torch.sqrt((scale_w * grad_w).square().sum() + grad_b.square().sum())
    moved_w, moved_b = net.weight.detach() + rho * scale_w**2 * grad_w / norm, net.bias.detach() + rho * grad_b / norm
    before = [p.detach().clone() for p in net.parameters()]
    with Sharpness(net, rho, eta, adaptive).nearby():
        torch.testing.assert_close(net.weight.detach(), moved_w)
        torch.testing.assert_close(net.bias.detach(), moved_b)
        (net(a).square() / 2).sum().backward()
    assert all(torch.equal(p, old) for p, old in zip(net.parameters(), before, strict=True))
    torch.testing.assert_close(net.weight.grad, (moved_w @ a.t() + moved_b) * a)
