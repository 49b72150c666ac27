"""What a training step costs on a CPU: SUN on ZINC-12k, beside its matrix products alone, and beside plain operations.

    REIGN_DATA=<folder> python benchmarks/cpu.py [--threads 2] [--rounds 7] [--table esol.csv] [--busy]

The step is that of ``reign bench``: 128 graphs, 6 layers of 64 channels, EGO+(3), float32. Its matrix products are those of the plain version,
forward and backward, with the same shapes and layouts. All versions take turns, and the shortest time of each counts; with one thread it is the
time of the processor, which others on the machine disturb less. With ``--table`` a model is trained on a table of molecules with the default settings;
with ``--busy`` once more beside a process that keeps a core busy. ``--before`` names the ``src`` folder of another version to compare with.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from memory import peak_mb, reset_peak
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from reign.experiments.workload import Workload, bench_graphs
from reign.kernels import fast_path

Product = tuple[torch.Size, tuple[int, ...], torch.Size, tuple[int, ...]]


class Products(TorchDispatchMode):
    """Writes down the shapes and strides of all matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Product] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note a product, and compute it."""
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
            a, b = args[-2:]
            self.found.append((a.shape, a.stride(), b.shape, b.stride()))
        return func(*args, **(kwargs or {}))


def replay(products: list[Product]) -> Callable[[], None]:
    """A function that computes these products of random matrices; matrices of one shape share their memory, as layers in turn would."""
    made: dict[Any, Tensor] = {}

    def matrix(role: str, shape: torch.Size, stride: tuple[int, ...]) -> Tensor:
        if (role, shape, stride) not in made:
            room = torch.randn(sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) + 1)
            made[role, shape, stride] = room.as_strided(shape, stride)
        return made[role, shape, stride]

    pairs = [(matrix("a", *p[:2]), matrix("b", *p[2:])) for p in products]

    def run() -> None:
        for a, b in pairs:
            torch.mm(a, b)

    return run


def measure_step(rounds: int, clock: Callable[[], float]) -> None:
    """Time of the step in blocks, of the plain step, and of its products; memory of a step."""
    problem, name = bench_graphs(128)
    model = Workload(device="cpu").build(problem)
    batch = problem.graphs.batch(problem.splits["train"][:128])
    bag = model.policy(batch.x, batch.edge_index, batch.edge_attr, batch.batch, batch_size=batch.size, domain=model.domain)
    assert batch.y is not None

    def step(fast: bool) -> float:
        model.zero_grad()
        with fast_path(fast):
            loss = (model.predict(batch.x, bag) - batch.y).abs().mean()
            loss.backward()
        return loss.item()

    print(f"{name}: {bag.num_pairs:,} pairs, {bag.num_nodes:,} nodes; threads: {torch.get_num_threads()}")
    with Products() as products, torch.no_grad():
        pass
    with products:
        step(False)
    work: dict[str, Callable[[], object]] = {
        "in blocks": lambda: step(True),
        "plain": lambda: step(False),
        "products": replay(products.found),
    }
    memory = {}
    for what in ("in blocks", "plain"):
        work[what]()
        before = reset_peak()
        work[what]()
        memory[what] = peak_mb() - before, peak_mb()
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for what, run in work.items():
            began = clock()
            run()
            best[what] = min(best[what], clock() - began)
    for what, seconds in best.items():
        more = (
            ""
            if what not in memory
            else f", {memory[what][0]:,.0f} MB more than between steps (the process: {memory[what][1]:,.0f} MB)"
        )
        print(f"{what:>10}: {1e3 * seconds:7.1f} ms, {seconds / best['products']:.2f} times the products{more}")
    print(f"{'plain / in blocks':>10}: {best['plain'] / best['in blocks']:.2f}")


TRAIN = """
import sys, time
from reign.train import Callback, Recipe
from reign.train.recipe import read_recipe
"""


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    measure_step(given.rounds, time.process_time if given.threads == 1 else time.perf_counter)


if __name__ == "__main__":
    main()
