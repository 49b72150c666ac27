"""Optimisers by name. Each takes the weights and all values of ``OptimiserConfig``, and ignores values it does not use."""

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from reign.registry import Registry

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
