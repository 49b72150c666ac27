"""Targets in units that are easy to learn, and back."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import Problem


@dataclass(frozen=True, eq=False)
class Scale:
    """``(y - mean) / deviation`` for every target."""

    mean: Float[Tensor, "targets"]
    deviation: Float[Tensor, "targets"]

    @classmethod
    def of(cls, problem: Problem, scale: bool) -> "Scale":
        """From the labels of the training graphs; nothing changes where not asked for, or where targets are classes."""
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

    def down(self, y: Tensor) -> Tensor:
        """Targets as the model learns them."""
        return (y.double() - self.mean) / self.deviation

    def up(self, out: Tensor) -> Tensor:
        """What the model gives, as targets."""
        return out.double() * self.deviation + self.mean
