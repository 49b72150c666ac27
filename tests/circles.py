"""Tiny data sets of circles, and a training that is stopped: what the files of earlier versions were made with."""

from typing import Any

import torch
from torch_geometric.data import Data

from reign.data import DATASETS, GraphDataset
from reign.train import Callback


class Circles(GraphDataset):
    """Circles of three to ten nodes with one chord in every second one; what is learnt is how long they are, and whether there is a chord."""

    name = "circles"
    about = "circles"
    targets = ("length", "chord")
    splits = ("all",)

    def make(self) -> dict[str, list[Data]]:
        return {"all": [circle(3 + n % 8, n % 2) for n in range(16)]}


class SplitCircles(Circles):
    """The same in three parts."""

    name = "split-circles"
    splits = ("train", "val", "test")

    def make(self) -> dict[str, list[Data]]:
        made = super().make()["all"]
        return {"train": made[:8], "val": made[8:12], "test": made[12:]}


def circle(length: int, chord: int) -> Data:
    """A circle, with its length and whether it has a chord as labels."""
    ends = [(i, (i + 1) % length) for i in range(length)] + [(0, length // 2)] * chord
    edge_index = torch.tensor(ends + [(b, a) for a, b in ends]).t()
    return Data(x=torch.arange(length)[:, None] / length, edge_index=edge_index, y=torch.tensor([[length / 10, float(chord)]]))


class Stop(Callback):
    """Stops in the second epoch, as Ctrl-C does."""

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        if row["epoch"] == 1:
            raise KeyboardInterrupt


def register() -> None:
    for each in (Circles, SplitCircles):
        DATASETS.register()(each)
