"""Calibration on validation rows: standard deviations and intervals for numbers, probabilities for classes. It is saved as JSON."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor

from reign.disk import read_record, write_json
from reign.train.runs.results import Content

FEWEST = 20  # least number of labels of a target for calibration
MOST = 1_000  # largest number of stored scores of a target
COLDEST, HOTTEST = 0.05, 20.0  # bounds of the temperature; it would be 0 if all validation rows were classified correctly
LARGEST = 1e30  # largest absolute value of a stored number
Number = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Share = Annotated[Number, Field(le=1)]
Column = Float[Tensor, "graphs"]


class Interval(Content):
    r"""Calibrated deviations and conformal intervals of one target by one method.

    The calibrated deviation is :math:`\sigma^2 = a + b s^2`, where s is the deviation of the method, and a and b maximise the likelihood of the
    validation errors. The interval is :math:`\mu \pm q \sigma`, where q is the :math:`\lceil (n + 1)(1 - \alpha) \rceil`-th smallest of the n validation
    scores :math:`|y - \mu| / \sigma`. Rows from the same distribution lie inside with a probability of about :math:`1 - \alpha`.

    Args:
        offset: a.
        slope: b.
        scores: the sorted validation scores, or a thousand quantiles if there are more.
        labels: the number of validation labels.
    """

    offset: Number
    slope: Number
    scores: list[Number]
    labels: Annotated[int, Field(ge=FEWEST)]

    @model_validator(mode="after")
    def _check(self) -> "Interval":
        if len(self.scores) != min(self.labels, MOST) or self.scores != sorted(self.scores):
            raise ValueError(f"{len(self.scores)} scores of {self.labels} labels are not valid")
        return self

    @classmethod
    def fit(cls, y: Column, mean: Column, unsure: Column) -> "Interval | None":
        """Calibrate on the rows with labels; None if there are too few, or if all errors are zero."""
        there = ~y.isnan() & mean.isfinite() & unsure.isfinite()
        errors, s = (y - mean)[there].double().square(), unsure[there].double().square()
        if errors.numel() < FEWEST or not float(errors.mean()) > 0:
            return None
        size = float(errors.mean())
        ratio = size / float(s.mean()) if float(s.mean()) > 0 else 0.0
        best = (math.inf, size, 0.0)
        for share in torch.linspace(0, 1, 21).tolist() if ratio else [1.0]:
            variance = share * size + (1 - share) * ratio * s
            if not bool((variance > 0).all()):
                continue
            wrong = float((errors / variance).mean())  # the best scale for a given share
            surprise = float(variance.log().mean()) + math.log(wrong)
            best = min(best, (surprise, wrong * share * size, wrong * (1 - share) * ratio))
        _, offset, slope = best
        scores = (errors / (offset + slope * s)).sqrt().sort().values
        kept = scores if scores.numel() <= MOST else scores[torch.linspace(0, scores.numel() - 1, MOST).round().long()]
        return cls(offset=offset, slope=slope, scores=kept.tolist(), labels=int(scores.numel()))

    def deviation(self, unsure: Column) -> Column:
        """The calibrated deviation."""
        return (self.offset + self.slope * unsure.double().square()).sqrt()

    def factor(self, alpha: float) -> float:
        """The half-width q of the interval, in calibrated deviations."""
        place = math.ceil((self.labels + 1) * (1 - alpha) - 1e-9)
        if place > self.labels:
            needed = math.ceil(1 / alpha - 1e-9) - 1
            raise ValueError(
                f"intervals for {1 - alpha:.4g} of the rows need at least {needed} validation labels, but the run has {self.labels}; "
                "use a larger --conformal-alpha."
            )
        share = (place - 1) / max(1, self.labels - 1)
        return self.scores[math.ceil(share * (len(self.scores) - 1) - 1e-9)]


class Steps(Content):
    """Isotonic regression: a non-decreasing function of the probability, linear between its knots and constant outside."""

    x: Annotated[list[Share], Field(min_length=1)]
    y: list[Share]

    @model_validator(mode="after")
    def _check(self) -> "Steps":
        if len(self.x) != len(self.y) or self.x != sorted(self.x) or self.y != sorted(self.y):
            raise ValueError("the steps are not increasing")
        return self

    @classmethod
    def fit(cls, y: Column, p: Column) -> "Steps":
        """Fit the function to labels of 0 and 1."""
        from sklearn.isotonic import IsotonicRegression

        fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(p.numpy(), y.numpy())
        return cls(x=fitted.X_thresholds_.tolist(), y=fitted.y_thresholds_.tolist())

    def __call__(self, p: Column) -> Column:
        """Apply it."""
        return torch.from_numpy(np.interp(p.double().numpy(), self.x, self.y))


def fit_temperature(y: Column, logits: Float[Tensor, "graphs classes"]) -> float:
    """The temperature T that minimises the cross-entropy of ``logits / T`` (Guo et al. 2017). One column of logits stands for two classes."""
    two = torch.cat([torch.zeros_like(logits), logits], dim=1) if logits.size(1) == 1 else logits
    steps = torch.logspace(math.log10(COLDEST), math.log10(HOTTEST), 400, dtype=torch.float64)
    loss = [float(torch.nn.functional.cross_entropy(two.double() / t, y.long())) for t in steps]
    return float(steps[min(range(len(loss)), key=loss.__getitem__)])


class Calibration(Content):
    """The calibration of a run; empty if there were too few validation rows.

    Args:
        intervals: intervals of regression targets, by method and target.
        temperature: temperatures of classification targets, by target.
        isotonic: isotonic regressions of 0/1 targets, by target.
    """

    intervals: dict[str, dict[str, Interval]] = Field(default_factory=dict)
    temperature: dict[str, Annotated[float, Field(ge=COLDEST / 2, le=HOTTEST * 2, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )
    isotonic: dict[str, Steps] = Field(default_factory=dict)

    def probabilities(
        self, values: Float[Tensor, "graphs outputs"], task: str, targets: Sequence[str], how: str
    ) -> Float[Tensor, "graphs outputs"]:
        """Calibrated probabilities; those of targets without a calibration stay the same.

        Args:
            values: probabilities.
            task: "classification" or "multiclass".
            targets: the targets.
            how: "temperature" or "isotonic"; any other value has no effect.
        """
        values = values.double()
        if task == "multiclass" and how == "temperature":
            return torch.softmax(values.clamp(min=1e-12).log() / self.temperature.get(targets[0], 1.0), dim=1)
        out = values.clone()
        for t, target in enumerate(targets if task == "classification" else ()):
            if how == "isotonic" and target in self.isotonic:
                out[:, t] = self.isotonic[target](values[:, t])
            elif how == "temperature" and target in self.temperature:
                out[:, t] = torch.sigmoid(torch.logit(values[:, t], eps=1e-12) / self.temperature[target])
        return out

    def save(self, file: Path) -> None:
        """Write as JSON."""
        write_json(file, self.model_dump())

    @classmethod
    def load(cls, file: Path) -> "Calibration":
        """Read a file written by ``save``. The calibration is empty if there is no such file."""
        return cls.check(read_record(file, intervals=dict, temperature=dict, isotonic=dict), file) if file.is_file() else cls()
