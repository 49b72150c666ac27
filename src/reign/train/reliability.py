"""Whether uncertainties can be trusted: coverage, sharpness and calibration error on rows with labels."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from reign.train.calibration import Interval

BINS = 10
ROUNDING = 1 + 1e-5  # a label on the very bound of an interval is within it
LEVELS = [level / 20 for level in range(1, 20)]
Column = Float[Tensor, "graphs"]


def interval_quality(interval: Interval, y: Column, mean: Column, unsure: Column, alpha: float) -> dict[str, Any] | None:
    """Of intervals: the share of labels within them, their mean width, and the calibration error; None without labels.

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
    r"""Of probabilities: the expected calibration error, Brier's score, and the mean confidence; None without labels.

    .. math:: \text{ECE} = \sum_b \frac{|b|}{n} | \text{accuracy}(b) - \text{confidence}(b) |

    over ten bins of the probability of the most likely class. Of one column the classes are yes and no.
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


def in_words(found: Mapping[str, Any]) -> str:
    """One line of what was found."""
    if "coverage" in found:
        return (
            f"{found['level']:.4g} intervals cover {found['coverage']:.1%} of {found['labels']:,} labels, mean width {found['width']:.4g}, "
            f"calibration error {found['calibration_error']:.3f}"
        )
    return (
        f"calibration error {found['calibration_error']:.3f}, Brier score {found['brier']:.3f}, mean confidence {found['confidence']:.3f}, "
        f"{found['labels']:,} labels"
    )
