"""The update of the weights, when the gradients of a step have been computed."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torch.optim import Adam, AdamW, Optimizer

from reign.disk import StateDict

# -- All weights of a model as one tensor, so that an update needs a few operations in place of dozens -----------------


Weights = Sequence[torch.nn.Parameter]
PIECE = 4096  # numbers that one block of threads updates
# the numbers between the starts of weights are a multiple of this: libraries choose how to multiply by the alignment of memory
ALIGNED = 128


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
        """The gradients of all weights in one tensor; on a GPU, as pieces of equal size."""
        torch._foreach_copy_(self.places, [weight.grad for weight in self.weights])  # type: ignore[misc]
        return list(self.grads.split(PIECE)) if self.grads.is_cuda else [self.grads]

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


# -- The update of the weights, when the gradients of a step have been computed ----------------------------------------


def clipped(norm: Tensor, most: float) -> Tensor:
    """The factor for gradients of a norm; 1 if it is not a number. NaN would stay in the gaps between flat gradients, which are zeros, for ever."""
    return (most / (norm + 1e-6)).clamp(max=1.0).nan_to_num(nan=1.0)


class Update:
    """Clips the gradients of a step, and lets the optimiser update the weights.

    The weights become one tensor, if that is wanted and the optimiser allows it: a small model has hundreds of weights, and an operation for each takes
    longer than the update itself. If some weight has no gradient in some step, it stays where it is, and from then on the weights are updated one by one.

    Args:
        model: the model whose weights are updated.
        optimiser: the optimiser.
        clip: the largest norm of the gradients; 0 for no bound.
        flat: whether the weights may become one tensor.
        wrapped: the optimiser, wrapped by the fabric; the same one if not given.
    """

    def __init__(self, model: nn.Module, optimiser: Optimizer, clip: float = 0.0, flat: bool = False, wrapped: Any = None) -> None:
        self.optimiser, self.wrapped, self.clip = optimiser, wrapped or optimiser, clip
        self._weights = list(model.parameters())  # listing them takes long
        self._may_be_flat = flat and FlatAdam.takes(optimiser)
        self._flat: FlatAdam | None = None
        self._never = torch.zeros(())

    def collect(self) -> list[Tensor]:
        """The gradients of all weights, which may not change until the update."""
        if self._may_be_flat:
            self._flatten()
        if self._flat is not None:
            return self._flat.collect()
        return [weight.grad for weight in self._weights if weight.grad is not None]

    def _flatten(self) -> None:
        if self._flat is None:
            self._flat = FlatAdam(self.optimiser, [weight for weight in self._weights if weight.grad is not None])
            self._others = [weight for weight in self._weights if weight.grad is None]
            self._may_be_flat = bool((self._flat.steps == self._flat.steps[0]).all())
            self.optimiser._opt_called = True  # type: ignore[attr-defined]  # schedules warn otherwise
        same = all(weight.grad is not None for weight in self._flat.weights) and all(weight.grad is None for weight in self._others)
        if not (self._may_be_flat and same):
            self.release()
            self._may_be_flat = False

    def __call__(self, grads: list[Tensor], skip: Tensor | None = None) -> None:
        """Update the weights with the collected gradients, unless ``skip`` is 1. With ``skip`` the optimiser must be a fused one."""
        if self.clip:
            norm = get_total_norm(grads)
            if self._flat is not None and not norm.is_cuda:
                torch._foreach_mul_(grads, min(1.0, self.clip / (float(norm) + 1e-6)))
            else:
                torch._foreach_mul_(grads, clipped(norm, self.clip))
        if self._flat is not None:
            self._flat.step(self._never if skip is None else skip)
            return
        if skip is not None:
            self.optimiser.found_inf = skip  # type: ignore[attr-defined]  # a fused optimiser skips the update if it is 1
        self.wrapped.step()

    def forget(self) -> None:
        """Forget the gradients."""
        self.wrapped.zero_grad()

    def release(self) -> None:
        """Give every weight memory of its own again."""
        if self._flat is not None:
            self._flat.release()
            self._flat = None


# -- Sharpness-aware gradients -----------------------------------------------------------------------------------------


class Sharpness:
    r"""Sharpness-aware minimisation: take the gradient at the worst point nearby.

    SAM (Foret et al. 2021) searches in a ball, ASAM (Kwon et al. 2021) in an ellipsoid that scales with the weights:

    .. math:: \epsilon = \rho \, \frac{T_w^2 \nabla L(w)}{\lVert T_w \nabla L(w) \rVert}, \qquad
              T_w = \begin{cases} I & \text{SAM} \\ \operatorname{diag}(|w| + \eta) & \text{ASAM, for weights; } I \text{ for biases}
              \end{cases}

    Args:
        model: the model whose weights are moved.
        rho: radius.
        eta: constant added to the sizes of weights, so that weights near zero can move, too.
        adaptive: whether to use ASAM in place of SAM.
    """

    def __init__(self, model: nn.Module, rho: float, eta: float, adaptive: bool) -> None:
        self.named, self.rho, self.eta, self.adaptive = list(model.named_parameters()), rho, eta, adaptive

    @contextmanager
    def nearby(self) -> Iterator[None]:
        """Move the weights to the worst nearby point, estimated from their gradients. On exit, restore them and keep the new gradients."""
        with torch.no_grad():
            moved = [(p, self._scale(name, p)) for name, p in self.named if p.grad is not None]
            norm = _norm([scale * p.grad for p, scale in moved if p.grad is not None])
            before = [p.clone() for p, _ in moved]
            for p, scale in moved:
                assert p.grad is not None
                p.add_(scale * scale * p.grad * (self.rho / (norm + 1e-16)))
                p.grad = None
        try:
            yield
        finally:
            with torch.no_grad():
                for (p, _), old in zip(moved, before, strict=True):
                    p.copy_(old)

    def _scale(self, name: str, p: Tensor) -> Tensor:
        return p.abs() + self.eta if self.adaptive and not name.endswith("bias") else torch.ones_like(p)


def _norm(values: Iterable[Tensor]) -> Tensor:
    return torch.stack([v.norm() for v in values]).norm()


# -- A moving average of the weights, which often predicts better than the weights after any single step ---------------


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

    def state_dict(self) -> StateDict:
        """The state of the average."""
        return {"steps": self._steps, "values": self._values}

    def load_state_dict(self, state: StateDict) -> None:
        """Restore a state returned by ``state_dict``."""
        self._steps.copy_(state["steps"])
        for value, old in zip(self._values, state["values"], strict=True):
            value.copy_(old)

    def _now(self) -> list[Tensor]:
        return [weight.detach() for weight in self._weights]  # their memory can move during training
