"""A small model and a short training, for the tests of training."""

from typing import Any

import torch
from torch import nn

import tiny
from reign.nn import SUN
from reign.train import Callback, Training, fit
from reign.train.engine.execution import make_fabric

CPU = make_fabric(accelerator="cpu")


class Curve(Callback):
    """The rows of all epochs, and the notes."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []

    @property
    def losses(self) -> list[float]:
        """The training losses of all epochs."""
        return [row["train_loss"] for row in self.rows]

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        self.rows.append(row)

    def note(self, text: str) -> None:
        self.notes.append(text)


def model(seed: int = 0, **options: Any) -> SUN:
    torch.manual_seed(seed)
    return SUN(1, 8, 2, 1, **{"policy": "ego+:2", **options})


def learn(net: nn.Module | None = None, problem: Any = None, **options: Any) -> dict[str, Any]:
    config = Training.model_validate({"epochs": 3, "batch_size": 5, "metric": "mae", **options.pop("config", {})})
    return fit(net or model(), problem or tiny.problem(), config, fabric=CPU, **options)[0]
