"""All weights of a model as one tensor, so that an update needs a few operations in place of dozens."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, AdamW, Optimizer

Weights = Sequence[torch.nn.Parameter]
PIECE = 4096  # numbers that one block of threads updates
ALIGNED = (
    128  # numbers between the starts of weights are a multiple of this: libraries choose how to multiply by the alignment of memory
)


class FlatAdam:
    """Adam or AdamW on weights that are stored contiguously, with the same results as the optimiser itself.

    Weights and the moments of the optimiser become views of a few long tensors, so all other code can use them as before. Each is aligned in memory as if it
    were a tensor of its own, so that products of matrices have the same bits as before.

    Args:
        optimiser: the optimiser, with one group of weights (see ``FlatAdam.takes``).
        weights: the weights that have gradients; the others are never updated.
    """

    def __init__(self, optimiser: Optimizer, weights: Weights) -> None:
        self.group = optimiser.param_groups[0]
        self.weights = list(weights)
        sizes = [-(-weight.numel() // ALIGNED) * ALIGNED for weight in self.weights]
        dtype, device = self.weights[0].dtype, self.weights[0].device
        states = [optimiser.state[weight] for weight in self.weights]
        self.values, self.grads, self.mean, self.square = (torch.zeros(sum(sizes), dtype=dtype, device=device) for _ in range(4))
        self.steps = torch.zeros(len(sizes), device=device)
        self.places = [_of(place, weight) for place, weight in zip(self.grads.split(sizes), self.weights, strict=True)]
        with torch.no_grad():
            parts = zip(self.values.split(sizes), self.mean.split(sizes), self.square.split(sizes), self.steps, strict=True)
            for weight, state, (value, mean, square, step) in zip(self.weights, states, parts, strict=True):
                weight.data = _moved(weight.data, value)
                state["step"] = step.copy_(state["step"]) if "step" in state else step
                for name, moment in (("exp_avg", mean), ("exp_avg_sq", square)):
                    state[name] = _moved(state[name], moment) if name in state else _of(moment, weight)

    @staticmethod
    def takes(optimiser: Optimizer) -> bool:
        """Whether an optimiser is supported: Adam or AdamW, with one group of weights and no variant switched on."""
        plain = type(optimiser) in (Adam, AdamW) and len(optimiser.param_groups) == 1
        return plain and not any(optimiser.param_groups[0].get(name) for name in ("amsgrad", "maximize", "differentiable"))

    def collect(self) -> list[Tensor]:
        """The gradients of all weights in one tensor, as pieces of equal size."""
        torch._foreach_copy_(self.places, [weight.grad for weight in self.weights])  # type: ignore[misc]
        return list(self.grads.split(PIECE))

    def release(self) -> None:
        """Give every weight memory of its own again; otherwise a weight that is pickled takes all others with it."""
        for weight in self.weights:
            weight.data = weight.data.clone()

    def step(self, skip: Tensor) -> None:
        """Update the weights with the collected gradients, unless ``skip`` is 1."""
        options: dict[str, Any] = self.group
        beta1, beta2 = options["betas"]
        update = torch._fused_adamw_ if options.get("decoupled_weight_decay") else torch._fused_adam_
        values, grads, mean, square = (list(flat.split(PIECE)) for flat in (self.values, self.grads, self.mean, self.square))
        self.steps += 1
        update(
            values, grads, mean, square, [], [self.steps[0]] * len(values), lr=options["lr"], beta1=beta1, beta2=beta2,
            weight_decay=options["weight_decay"], eps=options["eps"], amsgrad=False, maximize=False, grad_scale=None, found_inf=skip,
        )  # fmt: skip
        self.steps -= skip


def _of(place: Tensor, weight: Tensor) -> Tensor:
    """The part of a place that a weight takes."""
    return place[: weight.numel()].view_as(weight)


def _moved(old: Tensor, place: Tensor) -> Tensor:
    """The same values in another place."""
    return _of(place, old).copy_(old)
