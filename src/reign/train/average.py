"""A moving average of the weights, which often predicts better than the weights after any single step."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class Average:
    r"""The moving average of the trained weights of a model, and of the statistics of its norms.

    .. math:: \bar w_t = \bar w_{t-1} + \frac{1 - d}{1 - d^t} (w_t - \bar w_{t-1}), \qquad
              \text{that is } \bar w_t = \frac{1 - d}{1 - d^t} \sum_{s = 1}^t d^{t - s} w_s

    A step counts the less the older it is, and the weights before the first step do not count at all.

    Args:
        model: the model.
        window: about how many steps are averaged: :math:`d = 1 - 1 / \text{window}`; with up to one step, the weights are those of the last step.
    """

    def __init__(self, model: nn.Module, window: float) -> None:
        self.decay = max(0.0, 1 - 1 / window)
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        self._weights = [*trained, *(buffer for buffer in model.buffers() if buffer.is_floating_point())]
        self._values = [weight.detach().clone() for weight in self._weights]
        self._steps = torch.zeros((), dtype=torch.float64, device=self._values[0].device)

    def update(self) -> None:
        """Take in the weights after a step."""
        self._steps += 1
        rate = (1 - self.decay) / (1 - self.decay**self._steps)
        change = torch._foreach_sub(self._now(), self._values)
        torch._foreach_mul_(change, rate.to(change[0].dtype))
        torch._foreach_add_(self._values, change)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """A context in which the model has the averaged weights."""
        before = [weight.clone() for weight in self._now()]
        torch._foreach_copy_(self._now(), self._values)
        try:
            yield
        finally:
            torch._foreach_copy_(self._now(), before)

    def tensors(self) -> list[Tensor]:
        """Everything that a step changes."""
        return [self._steps, *self._values]

    def state_dict(self) -> dict[str, Any]:
        """The state of the average."""
        return {"steps": self._steps, "values": self._values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state returned by ``state_dict``."""
        self._steps.copy_(state["steps"])
        for value, old in zip(self._values, state["values"], strict=True):
            value.copy_(old)

    def _now(self) -> list[Tensor]:
        return [weight.detach() for weight in self._weights]  # their memory can move during training
