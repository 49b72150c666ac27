"""The quality of uncertainties on rows with labels: coverage, width and calibration error."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import Ids, Problem
from reign.train.calibration import Interval
from reign.train.engine.callbacks import Callback
from reign.train.prediction_plan import CALIBRATIONS, Plan
from reign.train.uncertainty import forecast

if TYPE_CHECKING:
    from reign.train.predictor import Predictor

BINS = 10
ROUNDING = 1 + 1e-5  # a label exactly on the bound of an interval is inside it
LEVELS = [level / 20 for level in range(1, 20)]
Column = Float[Tensor, "graphs"]


def interval_quality(interval: Interval, y: Column, mean: Column, unsure: Column, alpha: float) -> dict[str, Any] | None:
    """The share of labels inside their interval (coverage), the mean width, and the calibration error; None without labels.

    The calibration error is the mean over levels 5 %, ..., 95 % of the difference between level and coverage.
    """
    there = ~y.isnan() & mean.isfinite()
    if not bool(there.any()):
        return None
    deviation = interval.deviation(unsure[there])
    scores = (y - mean)[there].abs() / deviation
    levels = [level for level in LEVELS if level <= interval.labels / (interval.labels + 1)]
    gaps = [abs(float((scores <= ROUNDING * interval.factor(1 - level)).double().mean()) - level) for level in levels]
    return {
        "labels": int(there.sum()),
        "level": 1 - alpha,
        "coverage": float((scores <= ROUNDING * interval.factor(alpha)).double().mean()),
        "width": 2 * interval.factor(alpha) * float(deviation.mean()),
        "calibration_error": sum(gaps) / len(gaps),
    }


def class_quality(y: Column, p: Float[Tensor, "graphs classes"]) -> dict[str, Any] | None:
    r"""The expected calibration error, the Brier score and the mean confidence of probabilities; None without labels.

    .. math:: \text{ECE} = \sum_b \frac{|b|}{n} | \text{accuracy}(b) - \text{confidence}(b) |

    over ten bins of the probability of the most likely class. One column of probabilities stands for two classes.
    """
    there = ~y.isnan()
    if not bool(there.any()):
        return None
    every = torch.cat([1 - p, p], dim=1)[there] if p.size(1) == 1 else p[there]
    labels = y[there].long()
    confidence, guess = every.max(1)
    right = (guess == labels).double()
    bins = (confidence * BINS).long().clamp(max=BINS - 1)
    parts = [bins == b for b in range(BINS)]
    error = sum(float(part.double().mean() * (right[part].mean() - confidence[part].mean()).abs()) for part in parts if part.any())
    hits = torch.nn.functional.one_hot(labels, every.size(1)).double()
    return {
        "labels": int(there.sum()),
        "calibration_error": error,
        "brier": float((every - hits).square().sum(1).mean()),
        "confidence": float(confidence.mean()),
    }


def measure_uncertainty(
    predictor: "Predictor", problem: Problem, ids: Sequence[Ids], plan: Plan, callback: Callback
) -> dict[str, Any]:
    """The quality of the uncertainties by target and method; empty without uncertainties, or if the models have different graphs."""
    if not all(torch.equal(own, ids[0]) for own in ids) or (predictor.task == "regression" and not plan.intervals):
        return {}
    found = forecast(predictor.models, problem.graphs, ids[0], predictor.task, plan.method, callback)
    y, worth = problem.y[ids[0]], dict[str, dict[str, Any]]()
    for t, target in enumerate(predictor.targets):
        if target in plan.intervals and found.unsure is not None:
            how = plan.method or ""
            quality = interval_quality(plan.intervals[target], y[:, t], found.values[:, t], found.unsure[:, t], plan.alpha)
            worth[target] = {how: quality} if quality is not None else {}
        elif predictor.task != "regression":
            worth[target] = {}
            for how in CALIBRATIONS:
                if how != "none" and target not in getattr(predictor.calibration, how):
                    continue
                p = predictor.calibration.probabilities(found.values, predictor.task, predictor.targets, how)
                quality = class_quality(y[:, t], p if predictor.task == "multiclass" else p[:, t, None])
                if quality is not None:
                    worth[target]["not calibrated" if how == "none" else how] = quality
    return {"uncertainty": worth}


def in_words(found: Mapping[str, Any]) -> str:
    """The quality in one line."""
    if "coverage" in found:
        return (
            f"intervals of level {found['level']:.4g} cover {found['coverage']:.1%} of {found['labels']:,} labels, mean width {found['width']:.4g}, "
            f"calibration error {found['calibration_error']:.3f}"
        )
    return (
        f"calibration error {found['calibration_error']:.3f}, Brier score {found['brier']:.3f}, mean confidence {found['confidence']:.3f}, "
        f"{found['labels']:,} labels"
    )
