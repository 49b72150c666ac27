"""Metrics by name. Outputs are logits if targets are classes. A label that is NaN is missing and is ignored."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from reign.registry import Registry

Outputs = Float[Tensor, "graphs outputs"]
Labels = Float[Tensor, "graphs targets"]


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """A metric and its properties. Its two subclasses treat missing labels differently.

    Args:
        tasks: the tasks that it can be used for.
        more_is_better: whether larger values are better.
        logarithmic: whether it is a logarithm, which can be negative; values are then compared by differences, not ratios.
    """

    tasks: tuple[str, ...]
    more_is_better: bool = False
    logarithmic: bool = False

    def __call__(self, out: Outputs, y: Labels) -> float:
        """The metric of some outputs; NaN if it is undefined, such as the ROC-AUC of a single class."""
        return self.measure(out.detach().double().cpu(), y.double().cpu())

    @abstractmethod
    def measure(self, out: Outputs, y: Labels) -> float:
        """The metric of outputs in float64 on the CPU."""

    def better(self, one: float, other: float | None) -> bool:
        """Whether one value is better than another. NaN is never better, and any number is better than None or NaN."""
        if math.isnan(one):
            return False
        if other is None or math.isnan(other):
            return True
        return one > other if self.more_is_better else one < other


@dataclass(frozen=True, kw_only=True)
class MeanOverLabels(Metric):
    """``finish(mean of each(out, y))`` over all labels of all targets that are not missing."""

    each: Callable[[Tensor, Tensor], Tensor]
    finish: Callable[[Tensor], Tensor | float] = float

    def measure(self, out: Outputs, y: Labels) -> float:
        """NaN without any label."""
        there = ~y.isnan()
        return float(self.finish(self.each(out, y)[there].mean())) if bool(there.any()) else math.nan


@dataclass(frozen=True, kw_only=True)
class MeanOverTargets(Metric):
    """``score(y, out)`` of each target over the labels that are not missing, then the mean over targets with at least two different labels.

    For multiclass problems, ``score`` receives the class with the largest output.
    """

    score: Callable[[Tensor, Tensor], float]

    def measure(self, out: Outputs, y: Labels) -> float:
        """NaN if no target has both classes."""
        if out.size(1) != y.size(1):
            out = torch.where(out.isfinite().all(1, keepdim=True), out.argmax(1, keepdim=True).double(), math.nan)
        values = []
        for t in range(y.size(1)):
            there = ~y[:, t].isnan()
            labels, scores = y[there, t], out[there, t]
            if labels.unique().numel() >= 2 and bool(scores.isfinite().all()):
                values.append(float(self.score(labels, scores)))
        return sum(values) / len(values) if values else math.nan


def _square(out: Tensor, y: Tensor) -> Tensor:
    return (out - y).square()


def _right(out: Tensor, y: Tensor) -> Tensor:
    """Whether the class with the largest output, or the sign of each output, is correct."""
    several = out.size(1) > 1 and y.size(1) == 1
    return ((out.argmax(1, keepdim=True) == y) if several else ((out > 0) == (y > 0.5))).double()


def _sklearn(name: str, y: Tensor, out: Tensor, signs: bool = False, **options: Any) -> float:
    """A score of scikit-learn, which is imported when it is needed. With ``signs`` an output above 0 predicts the positive class."""
    score = getattr(import_module("sklearn.metrics"), name)
    return float(score(y.numpy() > 0.5, out.numpy() > 0, **options) if signs else score(y.numpy(), out.numpy(), **options))


def _r2(y: Tensor, out: Tensor) -> float:
    """The share of the variance that is explained; below 0 if the predictions are worse than the mean."""
    return 1 - float((y - out).square().sum() / (y - y.mean()).square().sum())


def _surprise(out: Tensor, y: Tensor) -> Tensor:
    """The binary cross-entropy of each label; a missing label has no influence."""
    return torch.nn.functional.binary_cross_entropy_with_logits(out, y.nan_to_num(), reduction="none")


# The first metric registered for a task is its default. f1 is that of the positive class, macro_f1 the mean over classes, and mcc Matthews' correlation
# coefficient.
METRICS = Registry[Metric]("metric")
_REGRESSION, _CLASSES, _SEVERAL = ("regression",), ("classification",), ("multiclass",)
_score = partial(MeanOverTargets, tasks=_CLASSES, more_is_better=True)
METRICS.register("rmse")(MeanOverLabels(tasks=_REGRESSION, each=_square, finish=torch.sqrt))
METRICS.register("mae")(MeanOverLabels(tasks=_REGRESSION, each=lambda out, y: (out - y).abs()))
METRICS.register("log10_mse")(MeanOverLabels(tasks=_REGRESSION, each=_square, finish=torch.log10, logarithmic=True))
METRICS.register("r2")(MeanOverTargets(tasks=_REGRESSION, score=_r2, more_is_better=True))
METRICS.register("roc_auc", "roc")(_score(score=partial(_sklearn, "roc_auc_score")))
METRICS.register("average_precision", "prc")(_score(score=partial(_sklearn, "average_precision_score")))
METRICS.register("accuracy")(MeanOverLabels(tasks=("classification", "multiclass"), each=_right, more_is_better=True))
METRICS.register("f1")(_score(score=partial(_sklearn, "f1_score", signs=True, zero_division=0.0)))
METRICS.register("mcc", "binary-mcc")(_score(score=partial(_sklearn, "matthews_corrcoef", signs=True)))
METRICS.register("bce")(MeanOverLabels(tasks=_CLASSES, each=_surprise))
METRICS.register("macro_f1")(_score(tasks=_SEVERAL, score=partial(_sklearn, "f1_score", average="macro", zero_division=0.0)))
METRICS.register("multiclass_mcc")(_score(tasks=_SEVERAL, score=partial(_sklearn, "matthews_corrcoef")))


def measure_all(names: Sequence[str], out: Outputs, y: Labels, targets: Sequence[str]) -> dict[str, list[float]]:
    """Several metrics, each for all targets together and then, if there are several targets, for each of them.

    >>> measure_all(["mae"], torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 4.0]]), ["a", "b"])
    {'mae': [1.0, 0.0, 2.0]}
    """
    columns = [slice(None), *(slice(t, t + 1) for t in range(len(targets)) if len(targets) > 1)]
    return {name: [METRICS[name](out[:, c], y[:, c]) for c in columns] for name in names}


def metric(name: str, out: Outputs, y: Labels) -> float:
    """Compute a metric, given by its name.

    >>> metric("mae", torch.tensor([[1.0], [2.0]]), torch.tensor([[1.5], [float("nan")]]))
    0.5
    """
    return METRICS[name](out, y)
