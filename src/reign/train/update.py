"""The update of the weights, when the gradients of a step have been computed."""

from typing import Any

import torch
from torch import nn
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from reign.train.flat import FlatAdam
from reign.train.processes import Fabric


class Update:
    """Computes the norm of the gradients, clips them, and makes the step of the optimiser.

    On a CPU the weights become one tensor, if the optimiser allows it: a small model has hundreds of weights, and an operation for each takes longer than
    the update itself. If some weight has no gradient in some step, it stays where it is, and from then on the weights are updated one by one.

    Args:
        model: the model whose weights are updated.
        wrapped: the same model, wrapped by the fabric.
        optimiser: the optimiser.
        stepped: the same optimiser, wrapped by the fabric.
        fabric: devices and processes.
    """

    def __init__(self, model: nn.Module, wrapped: nn.Module, optimiser: Optimizer, stepped: Any, fabric: Fabric) -> None:
        self.wrapped, self.optimiser, self.stepped, self.fabric = wrapped, optimiser, stepped, fabric
        self._weights = list(model.parameters())  # listing them takes long
        self._may_be_flat = fabric.device.type == "cpu" and fabric.world_size == 1 and FlatAdam.takes(optimiser)
        self._flat: FlatAdam | None = None
        self._norm, self._skip = 0.0, torch.zeros(())

    def norm(self) -> float:
        """The norm of the gradients; they may not change until the step."""
        if self._may_be_flat:
            self._flatten()
        if self._flat is not None:
            grads = [self._flat.grads]
        else:
            grads = [weight.grad for weight in self._weights if weight.grad is not None]
        self._norm = float(get_total_norm(grads))
        return self._norm

    def _flatten(self) -> None:
        if self._flat is None:
            self._flat = FlatAdam(self.optimiser, [weight for weight in self._weights if weight.grad is not None])
            self._others = [weight for weight in self._weights if weight.grad is None]
            self._may_be_flat = bool((self._flat.steps == self._flat.steps[0]).all())
            self.optimiser._opt_called = True  # type: ignore[attr-defined]  # schedules warn otherwise
        same = all(weight.grad is not None for weight in self._flat.weights) and all(weight.grad is None for weight in self._others)
        if self._may_be_flat and same:
            self._flat.collect()
        else:
            self.release()
            self._may_be_flat = False

    def release(self) -> None:
        """Give every weight memory of its own again."""
        if self._flat is not None:
            self._flat.release()
            self._flat = None

    def step(self, clip: float) -> None:
        """Update the weights.

        Args:
            clip: the largest norm of the gradients; 0 for no bound.
        """
        if self._flat is not None:
            if clip:
                self._flat.grads.mul_(min(1.0, clip / (self._norm + 1e-6)))
            self._flat.step(self._skip)
            return
        if clip:
            self.fabric.clip_gradients(self.wrapped, self.stepped, max_norm=clip)
        self.stepped.step()
