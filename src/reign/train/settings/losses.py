"""Losses by name. Each is computed per label, so that missing labels (NaN) can be left out and parts of a batch can be added."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from reign.data import Problem
from reign.registry import Registry
from reign.train.settings.metrics import Metric

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

    def mean(self, out: Outputs, y: Labels) -> Float[Tensor, ""]:
        """The mean over all labels that are not NaN; 0 without any."""
        return self.sum(out, y) / (~y.isnan()).sum().clamp(min=1)


# The first loss registered for a task is its default.
LOSSES = Registry[Loss]("loss")


def register_loss(
    name: str, *tasks: str, outputs: int = 1, alias: str | None = None
) -> Callable[[Callable[[Outputs, Labels], Labels]], Loss]:
    """A decorator that registers a function as a loss of some tasks."""
    return lambda each: LOSSES.register(name, *([alias] if alias else []))(Loss(each, tasks, outputs))


@register_loss("mse", "regression")
def mse(out: Outputs, y: Labels) -> Labels:
    """Squared errors."""
    return F.mse_loss(out, y.to(out.dtype), reduction="none")


@register_loss("l1", "regression", alias="mae")
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


@register_loss("cross_entropy", "multiclass", alias="ce")
def cross_entropy(out: Outputs, y: Float[Tensor, "graphs 1"]) -> Float[Tensor, "graphs 1"]:
    """Cross-entropy of logits; the label of a graph is the index of its class."""
    return F.cross_entropy(out, y.squeeze(1).long(), reduction="none")[:, None]


# -- Which losses and metrics suit a task, and how outputs become predictions ------------------------------------------


def choose(registry: Registry[Loss] | Registry[Metric], given: str | None, task: str) -> str:
    """The name of a loss or metric that suits a task: the given one, or the first that is registered for the task.

    >>> from reign.train.settings.metrics import METRICS
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


# -- The weights of labels in training: weights of rows, and weights that balance classes ------------------------------


def label_weights(
    problem: Problem, class_balance: bool, task_weights: Sequence[float] | None = None
) -> Float[Tensor, "graphs targets"] | None:
    r"""A weight for each label, with mean 1 over the training labels; None if all weights are equal.

    .. math:: w_{gt} \propto c_t \, r_g \, / \, \textstyle\sum_{h : y_{ht} = y_{gt}} r_h

    The denominator is the total weight of the training labels of the same target and class; it is used only with ``class_balance``.

    Args:
        problem: the problem, which holds the weights r of rows, if there are any.
        class_balance: whether the classes of a target have equal total weights. It cannot be used for regression.
        task_weights: the weight c of each target; None for equal weights.
    """
    if task_weights is not None and len(task_weights) != len(problem.targets):
        named = ", ".join(problem.targets)
        raise ValueError(
            f"task_weights has {len(task_weights)} numbers, expected {len(problem.targets)}, one for each target: {named}."
        )
    if class_balance and problem.task == "regression":
        raise ValueError("class_balance is for classification and multiclass, but the task is regression; leave it out.")
    if problem.weights is None and not class_balance and task_weights is None:
        return None
    y, train = problem.y, problem.splits["train"]
    rows = torch.ones(len(problem.graphs), dtype=torch.float64) if problem.weights is None else problem.weights
    weights = rows[:, None].expand(y.shape).clone()
    if class_balance:
        for t in range(y.size(1)):
            for label in y[train, t][~y[train, t].isnan()].unique():
                same = y[:, t] == label
                total = weights[train, t][same[train]].sum()
                weights[same, t] /= total if total > 0 else 1.0
    if task_weights is not None:
        weights *= torch.tensor(task_weights, dtype=torch.float64)
    there = ~y[train].isnan()
    mean = weights[train][there].mean()
    if not mean > 0:
        raise ValueError(f"the weights of all training labels of {problem.name} are 0, expected some above 0.")
    return weights / mean
