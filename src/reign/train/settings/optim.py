"""Optimisers by name. Each takes the weights and all values of ``OptimiserConfig``, and ignores values it does not use."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau, StepLR

from reign.disk import StateDict
from reign.registry import Registry
from reign.train.settings.metrics import METRICS

OPTIMISERS = Registry[Callable[..., Optimizer]]("optimiser")


@OPTIMISERS.register("adam")
def adam(weights: list[nn.Parameter], *, lr: float, weight_decay: float, **others: Any) -> Adam:
    """Adam (Kingma and Ba 2015)."""
    return Adam(weights, lr=lr, weight_decay=weight_decay)


@OPTIMISERS.register("adamw")
def adamw(weights: list[nn.Parameter], *, lr: float, weight_decay: float, **others: Any) -> AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""
    return AdamW(weights, lr=lr, weight_decay=weight_decay)


@OPTIMISERS.register("sgd")
def sgd(weights: list[nn.Parameter], *, lr: float, weight_decay: float, momentum: float, **others: Any) -> SGD:
    """Stochastic gradient descent, optionally with momentum."""
    return SGD(weights, lr=lr, momentum=momentum, weight_decay=weight_decay)


# -- Learning-rate schedules by name. Each takes all values of ``ScheduleConfig``, and ignores values it does not use --


SCHEDULES = Registry["type[Schedule]"]("schedule")


class Schedule:
    """A learning rate, which is updated after every step and every epoch, and can be saved.

    Args:
        optimiser: the optimiser whose learning rate is set.
        steps: number of steps of the whole training.
        metric: name of the validation metric; None if there are no validation graphs.
        options: the values of ``ScheduleConfig``.
    """

    def __init__(self, optimiser: Optimizer, steps: int, metric: str | None, **options: Any) -> None:
        self.optimiser = optimiser
        self.inner: Any = None  # PyTorch's schedule, if there is one

    @property
    def value(self) -> float:
        """The current learning rate. A learning rate on a device is rounded to seven digits."""
        lr = self.optimiser.param_groups[0]["lr"]
        return float(f"{float(lr):.7g}") if isinstance(lr, Tensor) else float(lr)

    @value.setter
    def value(self, value: float) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = group["lr"].fill_(value) if isinstance(group["lr"], Tensor) else value

    def after_step(self) -> None:
        """Called after every step."""

    def after_epoch(self, value: float) -> None:
        """Called after every epoch. ``value`` is its validation metric, or its training loss if there are no validation graphs."""

    def state_dict(self) -> StateDict:
        """The state to save: that of PyTorch's schedule, without its function if it has one."""
        state = {} if self.inner is None else self.inner.state_dict()
        return {name: value for name, value in state.items() if name != "lr_lambdas"}

    def load_state_dict(self, state: StateDict) -> None:
        """Restore a saved state."""
        if self.inner is not None:
            self.inner.load_state_dict(state)


@SCHEDULES.register("constant")
class Constant(Schedule):
    """A constant learning rate."""


@SCHEDULES.register("step")
class StepSchedule(Schedule):
    """The rate is multiplied by ``factor`` after every ``every`` epochs."""

    def __init__(self, optimiser: Optimizer, steps: int, metric: str | None, *, every: int, factor: float, **options: Any) -> None:
        super().__init__(optimiser, steps, metric)
        self.inner = StepLR(optimiser, every, factor)

    def after_epoch(self, value: float) -> None:
        """Count the epoch."""
        self.inner.step()


@SCHEDULES.register("plateau")
class Plateau(Schedule):
    """The rate is multiplied by ``factor`` after ``patience`` epochs without a better value."""

    def __init__(
        self, optimiser: Optimizer, steps: int, metric: str | None, *, factor: float, patience: int, **options: Any
    ) -> None:
        super().__init__(optimiser, steps, metric)
        known = None if metric is None else METRICS[metric]
        self.inner = ReduceLROnPlateau(
            optimiser,
            "max" if known is not None and known.more_is_better else "min",
            factor=factor,
            patience=patience,
            threshold_mode="abs" if known is not None and known.logarithmic else "rel",
        )

    def after_epoch(self, value: float) -> None:
        """Compare the value with the best one so far."""
        self.inner.step(value)


@SCHEDULES.register("cosine")
class Cosine(Schedule):
    """The rate rises for a share ``warmup`` of the steps, then falls to a share ``floor`` of itself along a cosine."""

    def __init__(
        self, optimiser: Optimizer, steps: int, metric: str | None, *, warmup: float, floor: float, **options: Any
    ) -> None:
        super().__init__(optimiser, steps, metric)
        warm = int(warmup * steps) + 1

        def rate(step: int) -> float:
            if step < warm:
                return (step + 1) / warm
            return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))

        self.inner = LambdaLR(optimiser, rate)

    def after_step(self) -> None:
        """Move along the cosine."""
        self.inner.step()

    def load_state_dict(self, state: StateDict) -> None:
        """Restore a saved state; the function of the schedule does not change."""
        self.inner.load_state_dict({**state, "lr_lambdas": [None]})


@SCHEDULES.register("clock")
class Clock(Schedule):
    """As ``cosine``, over ``minutes`` of training in place of steps, counted from the first one. Then the rate is 0, and training ends with the epoch."""

    def __init__(
        self, optimiser: Optimizer, steps: int, metric: str | None, *, minutes: float, warmup: float, floor: float, **options: Any
    ) -> None:
        super().__init__(optimiser, steps, metric)
        self.peak, self.seconds, self.warmup, self.floor = self.value, 60 * minutes, warmup, floor
        self.before, self.began = 0.0, math.nan  # seconds before this process continued the training, and when it did
        self.value = self.peak * self.rate(0.0)

    def rate(self, done: float) -> float:
        """The rate after a share of the time, relative to the highest one."""
        if done < self.warmup:
            return max(done / self.warmup, 1e-3)
        if done >= 1:
            return 0.0
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * (done - self.warmup) / max(1e-9, 1 - self.warmup)))

    @property
    def elapsed(self) -> float:
        """The seconds since the first step, without pauses between processes."""
        return self.before + (0.0 if math.isnan(self.began) else time.monotonic() - self.began)

    def after_step(self) -> None:
        """Move along the cosine."""
        self.began = time.monotonic() if math.isnan(self.began) else self.began
        self.value = self.peak * self.rate(self.elapsed / self.seconds)

    def state_dict(self) -> StateDict:
        """The seconds of training."""
        return {"elapsed": self.elapsed}

    def load_state_dict(self, state: StateDict) -> None:
        """Continue after these seconds."""
        self.before, self.began = float(state["elapsed"]), math.nan


# -- Fused optimisers, which update all weights at once; in a CUDA graph they keep their state on the device. Their state on disk does not change


def make_fused(optimiser: torch.optim.Optimizer) -> None:
    """Update all weights in one operation."""
    for group in optimiser.param_groups:
        group["fused"], group["foreach"] = True, False


def make_capturable(optimiser: torch.optim.Optimizer, device: torch.device) -> None:
    """Keep the learning rate and the step counters on the device, and use the fused optimiser."""
    make_fused(optimiser)
    optimiser._opt_called = True  # type: ignore[attr-defined]  # schedules warn otherwise: they do not see the steps of a graph
    for group in optimiser.param_groups:
        if not isinstance(group["lr"], Tensor):
            group["lr"] = torch.tensor(float(group["lr"]), device=device)
        if "capturable" in group:
            group["capturable"] = device.type == "cuda"
    for state in optimiser.state.values():
        if isinstance(state.get("step"), Tensor):
            state["step"] = state["step"].to(device, torch.float32)


def make_plain(optimiser: torch.optim.Optimizer) -> None:
    """Undo ``make_capturable``."""
    vars(optimiser).pop("found_inf", None)
    for group in optimiser.param_groups:
        group |= _plain(group)
    for state in optimiser.state.values():
        if isinstance(state.get("step"), Tensor):
            state["step"] = state["step"].cpu()


def portable(state: StateDict) -> StateDict:
    """The state of an optimiser as it is written to disk; it does not depend on whether CUDA graphs are used."""
    return {**state, "param_groups": [group | _plain(group) for group in state["param_groups"]]}


def _plain(group: Mapping[str, Any]) -> dict[str, object]:
    lr = group["lr"]
    lr = float(f"{float(lr):.7g}") if isinstance(lr, Tensor) else lr  # the device stores float32
    return {"lr": lr, "fused": None, "foreach": None, **({"capturable": False} if "capturable" in group else {})}
