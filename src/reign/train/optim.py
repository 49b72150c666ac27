"""Optimisers, sharpness-aware gradients, and schedules of the learning rate."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau, StepLR

from reign.train.config import Optimiser, Schedule
from reign.train.metrics import METRICS


def make_optimiser(config: Optimiser, model: nn.Module) -> torch.optim.Optimizer:
    """Adam, AdamW or SGD over all weights."""
    weights = [p for p in model.parameters() if p.requires_grad]
    if config.name == "sgd":
        return torch.optim.SGD(weights, lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay)
    kind = torch.optim.Adam if config.name == "adam" else torch.optim.AdamW
    return kind(weights, lr=config.lr, weight_decay=config.weight_decay)


class Sharpness:
    r"""Sharpness-aware minimisation: take the gradient at the worst point nearby.

    SAM (Foret et al. 2021) looks in a ball, ASAM (Kwon et al. 2021) in an ellipsoid that scales with the weights:

    .. math:: \epsilon = \rho \, \frac{T_w^2 \nabla L(w)}{\lVert T_w \nabla L(w) \rVert}, \qquad
              T_w = \begin{cases} I & \text{SAM} \\ \operatorname{diag}(|w| + \eta) & \text{ASAM, for weights; } I \text{ for biases}
              \end{cases}

    Args:
        model: whose weights are moved.
        rho: radius.
        eta: added to weights, so that those near zero can move too.
        adaptive: ASAM.
    """

    def __init__(self, model: nn.Module, rho: float, eta: float, adaptive: bool) -> None:
        self.named, self.rho, self.eta, self.adaptive = list(model.named_parameters()), rho, eta, adaptive

    @contextmanager
    def nearby(self) -> Iterator[None]:
        """The weights at the worst point, judged by their gradients; then back, with the gradients found there."""
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


class LearningRate:
    """A schedule that is told of every step and every epoch, and can be saved.

    Args:
        config: which.
        optimiser: whose rate it is.
        steps: of the whole training.
        metric: of validation, by which a plateau is judged; the training loss if there is none.
    """

    def __init__(self, config: Schedule, optimiser: torch.optim.Optimizer, steps: int, metric: str | None = None) -> None:
        self.optimiser, self.name = optimiser, config.name
        self.schedule: LambdaLR | StepLR | ReduceLROnPlateau | None = None
        if config.name == "step":
            self.schedule = StepLR(optimiser, config.every, config.factor)
        elif config.name == "plateau":
            self.schedule = ReduceLROnPlateau(
                optimiser,
                "max" if metric is not None and METRICS[metric] else "min",
                factor=config.factor,
                patience=config.patience,
                threshold_mode="abs" if metric == "log10_mse" else "rel",  # logarithms can be negative
            )
        elif config.name == "cosine":
            warm = int(config.warmup * steps) + 1

            def rate(step: int) -> float:
                if step < warm:
                    return (step + 1) / warm
                return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))

            self.schedule = LambdaLR(optimiser, rate)

    @property
    def value(self) -> float:
        """The rate now."""
        return float(self.optimiser.param_groups[0]["lr"])

    def after_step(self) -> None:
        """The cosine moves with every step."""
        if self.name == "cosine":
            assert isinstance(self.schedule, LambdaLR)
            self.schedule.step()

    def after_epoch(self, value: float) -> None:
        """Step and plateau move with epochs; ``value`` is the metric, or the loss."""
        if isinstance(self.schedule, StepLR):
            self.schedule.step()
        elif isinstance(self.schedule, ReduceLROnPlateau):
            self.schedule.step(value)

    def state_dict(self) -> dict[str, object]:
        """To be saved."""
        state = {} if self.schedule is None else dict(self.schedule.state_dict())
        return {name: value for name, value in state.items() if name != "lr_lambdas"}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """As saved."""
        if isinstance(self.schedule, LambdaLR):
            self.schedule.load_state_dict({**state, "lr_lambdas": [None]})
        elif self.schedule is not None:
            self.schedule.load_state_dict(state)
