"""Losses by name. Each is computed per label, so that missing labels (NaN) can be left out and parts of a batch can be added."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from reign.registry import Registry

Outputs = Float[Tensor, "graphs outputs"]
Labels = Float[Tensor, "graphs targets"]
LEAST_VARIANCE = 1e-4


@dataclass(frozen=True)
class Loss:
    """A loss, and the tasks it can be used for.

    Args:
        each: function that maps outputs and labels, without missing labels, to the loss of every label.
        tasks: the tasks that it can be used for.
        outputs: number of outputs of the model for each target.
    """

    each: Callable[[Outputs, Labels], Labels]
    tasks: tuple[str, ...]
    outputs: int = 1

    def sum(self, out: Outputs, y: Labels, weights: Labels | None = None) -> Float[Tensor, ""]:
        """The (weighted) sum over all labels that are not NaN. Missing labels have no influence on the gradient."""
        there = ~y.isnan()
        each = self.each(out, torch.where(there, y, torch.zeros_like(y)))
        if weights is not None:
            each = each * weights
        return torch.where(there, each, torch.zeros_like(each)).sum()


# The first loss registered for a task is its default.
LOSSES = Registry[Loss]("loss")


def register_loss(name: str, *tasks: str, outputs: int = 1) -> Callable[[Callable[[Outputs, Labels], Labels]], Loss]:
    """A decorator that registers a function as a loss of some tasks."""
    return lambda each: LOSSES.register(name)(Loss(each, tasks, outputs))


@register_loss("mse", "regression")
def mse(out: Outputs, y: Labels) -> Labels:
    """Squared errors."""
    return F.mse_loss(out, y.to(out.dtype), reduction="none")


@register_loss("l1", "regression")
def l1(out: Outputs, y: Labels) -> Labels:
    """Absolute errors."""
    return F.l1_loss(out, y.to(out.dtype), reduction="none")


@register_loss("mve", "regression", outputs=2)
def mve(out: Float[Tensor, "graphs both"], y: Labels) -> Labels:
    r"""Mean-variance estimation (Nix and Weigend 1994), :math:`\frac12 (\log v + (y - m)^2 / v)`: means of all targets, then variances."""
    mean, raw = out.tensor_split(2, dim=1)
    v = variance(raw)
    return 0.5 * (v.log() + (y.to(out.dtype) - mean).square() / v)


def variance(raw: Float[Tensor, "graphs targets"]) -> Float[Tensor, "graphs targets"]:
    """The variance that an output of a model stands for, in units in which targets have deviation 1."""
    return F.softplus(raw) + LEAST_VARIANCE


@register_loss("bce", "classification")
def bce(out: Outputs, y: Labels) -> Labels:
    """Binary cross-entropy of logits; labels are 0 or 1."""
    return F.binary_cross_entropy_with_logits(out, y.to(out.dtype), reduction="none")


@register_loss("cross_entropy", "multiclass")
def cross_entropy(out: Outputs, y: Float[Tensor, "graphs 1"]) -> Float[Tensor, "graphs 1"]:
    """Cross-entropy of logits; the label of a graph is the index of its class."""
    return F.cross_entropy(out, y.squeeze(1).long(), reduction="none")[:, None]
