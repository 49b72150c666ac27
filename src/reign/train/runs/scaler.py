"""Scale targets to mean 0 and deviation 1 for training, and scale predictions back."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import Problem
from reign.disk import read_record, write_json
from reign.train.settings.losses import variance


@dataclass(frozen=True, eq=False)
class Scale:
    """``(y - mean) / deviation`` for every target."""

    mean: Float[Tensor, "targets"]
    deviation: Float[Tensor, "targets"]

    @classmethod
    def of(cls, problem: Problem, scale: bool) -> "Scale":
        """The scale of the labels of the training graphs. Without ``scale``, or if targets are classes, it is the identity."""
        if not scale or problem.task != "regression":
            return cls(torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64))
        means, deviations = [], []
        for t in range(len(problem.targets)):
            y = problem.y[problem.splits["train"], t].double()
            y = y[~y.isnan()]
            means.append(y.mean() if y.numel() else torch.tensor(0.0, dtype=torch.float64))
            deviation = y.std() if y.numel() > 1 else torch.tensor(1.0, dtype=torch.float64)
            deviations.append(deviation if deviation > 0 else torch.tensor(1.0, dtype=torch.float64))
        return cls(torch.stack(means), torch.stack(deviations))

    @classmethod
    def load(cls, file: Path) -> "Scale":
        """Read what ``save`` wrote."""
        saved = read_record(file, mean=list, deviation=list)
        numbers = [*saved["mean"], *saved["deviation"]]
        good = all(isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in numbers)
        if not good or not saved["mean"] or len(saved["mean"]) != len(saved["deviation"]) or min(saved["deviation"]) <= 0:
            raise ValueError(
                f"{file} is damaged: expected a finite mean and a finite deviation above 0 for every target, got {saved}."
            )
        return cls(*(torch.tensor(saved[name], dtype=torch.float64) for name in ("mean", "deviation")))

    def save(self, file: Path) -> None:
        """Write as JSON."""
        write_json(file, {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()})

    def down(self, y: Float[Tensor, "graphs targets"]) -> Float[Tensor, "graphs targets"]:
        """Scale targets for training."""
        return (y.double() - self.mean) / self.deviation

    def up(self, out: Float[Tensor, "graphs outputs"]) -> Float[Tensor, "graphs outputs"]:
        """Scale outputs of the model back to the units of the targets."""
        return out.double() * self.deviation + self.mean

    def of_loss(self, outputs: int) -> "Scale":
        """The scale for a model with this number of outputs for each target."""
        return MeanVarianceScale(self.mean, self.deviation) if outputs == 2 else self


class MeanVarianceScale(Scale):
    """The scale for a model whose outputs are means, then variances (the loss "mve")."""

    def up(self, out: Float[Tensor, "graphs outputs"]) -> Float[Tensor, "graphs outputs"]:
        """Means and variances in the units of the targets."""
        mean, raw = out.double().tensor_split(2, dim=1)
        return torch.cat([mean * self.deviation + self.mean, variance(raw) * self.deviation.square()], dim=1)
