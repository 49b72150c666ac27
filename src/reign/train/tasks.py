"""Which losses and metrics suit a task, and how outputs become predictions."""

import torch
from jaxtyping import Float
from torch import Tensor

from reign.registry import Registry
from reign.train.losses import Loss
from reign.train.metrics import Metric


def choose(registry: Registry[Loss] | Registry[Metric], given: str | None, task: str) -> str:
    """The name of a loss or metric that suits a task: the given one, or the first that is registered for the task.

    >>> from reign.train.metrics import METRICS
    >>> choose(METRICS, None, "regression"), choose(METRICS, "mae", "regression")
    ('rmse', 'mae')
    """
    suited = [name for name, entry in registry.items() if task in entry.tasks]
    if given is not None and given not in suited:
        choices = suited[0] if len(suited) == 1 else f"one of {', '.join(suited)}"
        raise ValueError(f"the {registry.kind} is '{given}', but the task is {task}; expected {choices}.")
    return given or suited[0]


def as_values(outs: Float[Tensor, "*models graphs outputs"], task: str) -> Float[Tensor, "*models graphs outputs"]:
    """Convert outputs of a model to predictions, which are probabilities if targets are classes."""
    return torch.sigmoid(outs) if task == "classification" else torch.softmax(outs, dim=-1) if task == "multiclass" else outs


def as_outputs(values: Float[Tensor, "graphs outputs"], task: str) -> Float[Tensor, "graphs outputs"]:
    """Convert predictions back to outputs, the form that metrics take."""
    return torch.logit(values, eps=1e-12) if task == "classification" else values
