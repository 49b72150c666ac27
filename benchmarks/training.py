"""Does our formulation learn as the plain one? SUN (EGO) on ZINC-12k for a few epochs on a CPU, beside the yardstick.

Both start from the same weights and see the same batches; the yardstick (``benchmarks/yardstick.py``) evaluates every term on all
rows, so its inner batch norms see other rows. Ours is run twice, to see that the same seed gives the same curve bit by bit.

    REIGN_DATA=<folder> python benchmarks/training.py [--epochs 5] [--graphs 10000] [--output curves.csv]
"""

import argparse
import csv
from typing import Any

import torch
from torch import Tensor, nn
from yardstick import Union, YardstickSUN

from reign.data.catalogue import load_problem
from reign.nn import SUN
from reign.train.loop import fit
from reign.train.recipe import Optimiser, Training
from reign.train.watch import Watch


class Yardstick(nn.Module):
    """The yardstick, called as our models are."""

    def __init__(self, model: SUN) -> None:
        super().__init__()
        self.sun, self.policy, self.hidden_channels, self.num_layers = YardstickSUN(model), model.policy, 64, 6

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        """Predict one row per graph."""
        bag = self.policy(x, edge_index, edge_attr, batch, batch_size=batch_size)
        out: Tensor = self.sun(x, bag, Union(bag))
        return out


class Curve(Watch):
    """Collects the losses, and prints them."""

    def __init__(self, name: str) -> None:
        self.name, self.losses = name, list[float]()

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        """Note a loss."""
        self.losses.append(row["train_loss"])
        print(f"{self.name}, epoch {row['epoch'] + 1}: training loss {row['train_loss']:.6f}", flush=True)


def curve(name: str, epochs: int, graphs: int) -> list[float]:
    """The training loss of every epoch."""
    problem = load_problem("zinc").limit(graphs)
    problem.splits.pop("val"), problem.splits.pop("test")
    torch.manual_seed(0)
    model: nn.Module = SUN(64, 64, 6, 1, policy="ego:3", node_encoder=21, edge_encoder=4)
    if name == "yardstick":
        model = Yardstick(model)  # type: ignore[arg-type]
    watch = Curve(name)
    fit(model, problem, Training(epochs=epochs, batch_size=128, loss="l1", metric="mae", optimiser=Optimiser(lr=1e-3)), watch=watch)
    return watch.losses


def main() -> None:
    """Train both, compare, and write the curves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--graphs", type=int, default=10_000)
    parser.add_argument("--output")
    parser.add_argument("--once", action="store_true", help="do not repeat ours")
    given = parser.parse_args()
    ours = curve("ours", given.epochs, given.graphs)
    if not given.once:
        again = curve("ours again", given.epochs, given.graphs)
        print(f"the same seed gives the same curve bit by bit: {again == ours}")
    theirs = curve("yardstick", given.epochs, given.graphs)
    for epoch, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        print(f"epoch {epoch + 1}: ours {a:.4f}, yardstick {b:.4f}, ratio {a / b:.3f}")
    if given.output:
        with open(given.output, "w", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows(
                [("epoch", "ours", "yardstick"), *zip(range(1, given.epochs + 1), ours, theirs, strict=True)]
            )


if __name__ == "__main__":
    main()
