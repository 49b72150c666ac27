"""Check that our formulation learns as well as the plain one: SUN (EGO) on ZINC-12k for a few epochs on a CPU, compared with the yardstick.

Both start from the same weights and see the same batches; the yardstick (``reign.experiments.yardstick``) evaluates every term on all
rows, so its inner batch norms see other rows. Ours is run twice, to see that the same seed gives the same curve bit by bit.
Each has a process with one thread, two at a time.

    REIGN_DATA=<folder> python benchmarks/training.py [--epochs 5] [--graphs 10000]
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch
from torch import Tensor, nn

from reign.data import load_problem
from reign.experiments.yardstick import Union, YardstickSUN
from reign.nn import SUN
from reign.train import Callback, Training, fit


class Yardstick(nn.Module):
    """The yardstick, with the same arguments as our models."""

    def __init__(self, model: SUN) -> None:
        super().__init__()
        self.sun, self.policy = YardstickSUN(model), model.policy

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        """Predict one row per graph."""
        bag = self.policy(x, edge_index, edge_attr, batch, batch_size=batch_size)
        out: Tensor = self.sun(x, bag, Union(bag))
        return out


class Curve(Callback):
    """Collects the losses, and prints them."""

    def __init__(self, name: str) -> None:
        self.name, self.losses = name, list[float]()

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        """Store a loss."""
        self.losses.append(row["train_loss"])
        print(f"{self.name}, epoch {row['epoch'] + 1}: training loss {row['train_loss']:.6f}", flush=True)


def curve(name: str, epochs: int, graphs: int) -> list[float]:
    """The training loss of every epoch."""
    torch.set_num_threads(1)
    problem = load_problem("zinc").limit(graphs)
    problem.splits.pop("val"), problem.splits.pop("test")
    torch.manual_seed(0)
    sun = SUN(64, 64, 6, 1, policy="ego:3", node_encoder=21, edge_encoder=4)
    callback = Curve(name)
    model = Yardstick(sun) if name == "yardstick" else sun
    fit(model, problem, Training(epochs=epochs, batch_size=128, loss="l1", metric="mae"), callback=callback)
    return callback.losses


def main() -> None:
    """Train both, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--graphs", type=int, default=10_000)
    given = parser.parse_args()
    load_problem("zinc")  # once, into the cache
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        names = ("yardstick", "ours", "ours again")
        yardstick, ours, again = pool.map(curve, names, [given.epochs] * 3, [given.graphs] * 3)
    for epoch, (a, b) in enumerate(zip(ours, yardstick, strict=True)):
        print(f"epoch {epoch + 1}: ours {a:.4f}, yardstick {b:.4f}, ratio {a / b:.3f}")
    print(f"the same seed gives the same curve bit by bit: {again == ours}")


if __name__ == "__main__":
    main()
