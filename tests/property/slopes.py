"""Gradients compared with differences."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def slopes(model: nn.Module, loss: Callable[[], Tensor], step: float) -> tuple[Tensor, Tensor]:
    """The slope of a loss along a random direction of all weights: the gradient times that direction, and by a difference.

    Every weight must have a gradient.
    """
    weights = [p for p in model.parameters() if p.requires_grad]
    start, way = [p.detach().clone() for p in weights], [torch.randn_like(p) for p in weights]

    def at(distance: float) -> Tensor:
        with torch.no_grad():
            for p, value, direction in zip(weights, start, way, strict=True):
                p.copy_(value + distance * direction)
        return loss()

    grads = torch.autograd.grad(at(0.0), weights)
    slope = torch.stack([(g * direction).sum() for g, direction in zip(grads, way, strict=True)]).sum()
    with torch.no_grad():
        return slope, (at(step) - at(-step)) / (2 * step)
