"""What a training step costs on a CPU: SUN on ZINC-12k, beside its matrix products alone, and beside plain operations.

    REIGN_DATA=<folder> python benchmarks/cpu.py [--threads 2] [--table esol.csv] [--before <src folder of another version>]

The step is that of ``reign bench``: 128 graphs, 6 layers of 64 channels, EGO+(3), float32. Its matrix products are those of the plain version,
forward and backward, with the same shapes and layouts. Where training takes its products from oneDNN, both are also measured as PyTorch computes
products by default. All take turns, and the shortest time of each counts; with one thread it is the time of the processor, which other processes
disturb less. Memory is that of the first step, which is measured before all else.

With ``--table`` a model is trained on a table of molecules with the default settings, alone and beside a process that keeps a core busy; with
``--before`` the same is done with another version.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import torch
from memory import peak_mb, reset_peak
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import reign.__main__
import reign.kernels
import reign.train.engine.execution
from reign.experiments.bench import Workload, bench_graphs
from reign.kernels import fast_path
from reign.train import Callback, fit
from reign.train.engine.execution import number_format
from reign.train.runs.build import make_model, make_problem
from reign.train.settings.config import Recipe

SPINS, PRODUCTS = reign.__main__.SPINS, reign.__main__.PRODUCTS
keep_freed_memory = getattr(reign.kernels, "keep_freed_memory", nullcontext)
threads_for_blocks_only = getattr(reign.kernels, "threads_for_blocks_only", nullcontext)
onednn_pays = getattr(reign.train.engine.execution, "onednn_pays", bool)
CPU = torch.device("cpu")
HERE = Path(__file__).absolute().parents[1] / "src"

MODEL = {
    "name": "dss",
    "hidden_channels": 224,
    "num_layers": 4,
    "policy": "ego+:1",
    "subgraphs": "sum",
    "domain": "members",
    "residual": True,
    "head": {"hidden": [320], "norm": "batch_norm"},
}  # as `reign train -i` has it (without the weights that it starts from), for all versions the same
TRAINING = {"batch_size": 50, "scale_targets": True, "optimiser": {"name": "adam", "lr": 0.0005}}

Product = tuple[torch.Size, tuple[int, ...], torch.Size, tuple[int, ...]]


class Products(TorchDispatchMode):
    """Writes down the shapes and strides of all matrix products."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[Product] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note a product, and compute it."""
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
            a, b = args[-2:]
            self.found.append((a.shape, a.stride(), b.shape, b.stride()))
        return func(*args, **(kwargs or {}))


def replay(products: list[Product], precision: str) -> Callable[[], None]:
    """A function that computes these products of random matrices; matrices of one shape share their memory, as layers in turn would."""
    made: dict[Any, Tensor] = {}

    def matrix(role: str, shape: torch.Size, stride: tuple[int, ...]) -> Tensor:
        if (role, shape, stride) not in made:
            room = torch.randn(sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) + 1)
            made[role, shape, stride] = room.as_strided(shape, stride)
        return made[role, shape, stride]

    pairs = [(matrix("a", *p[:2]), matrix("b", *p[2:])) for p in products]

    def run() -> None:
        with number_format(CPU, precision, max(a.size(0) for a, _ in pairs)):
            for a, b in pairs:
                torch.mm(a, b)

    return run


def measure_step(rounds: int, clock: Callable[[], float]) -> None:
    """Time of the step in blocks, of the plain step, and of its products; memory of a step."""
    problem, name = bench_graphs(128)
    model = Workload(device="cpu").build(problem)
    batch = problem.graphs.batch(problem.splits["train"][:128])
    bag = model.policy(batch.x, batch.edge_index, batch.edge_attr, batch.batch, batch_size=batch.size, domain=model.domain)
    y = batch.y
    assert y is not None

    def step(fast: bool, precision: str = "32-true") -> float:
        model.zero_grad()
        threads = threads_for_blocks_only() if fast else nullcontext()
        with number_format(CPU, precision, bag.num_pairs), fast_path(fast), threads:  # as training does
            loss = (model.predict(batch.x, bag) - y).abs().mean()
            loss.backward()
        return loss.item()

    print(f"{name}: {bag.num_pairs:,} pairs, {bag.num_nodes:,} nodes; threads: {torch.get_num_threads()}")
    before = reset_peak()
    step(True)
    memory = peak_mb()
    print(f"memory of a step in blocks: {memory - before:,.0f} MB; of the whole process: {memory:,.0f} MB")
    products = Products()
    with products:
        step(False)
    work: dict[str, Callable[[], object]] = {
        "in blocks": lambda: step(True),
        "plain": lambda: step(False),
        "products": replay(products.found, "32-true"),
    }
    if onednn_pays():
        work["in blocks, by default"] = lambda: step(True, "32-ieee")
        work["products, by default"] = replay(products.found, "32-ieee")
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for what, run in work.items():
            began = clock()
            run()
            best[what] = min(best[what], clock() - began)
    for what, seconds in best.items():
        own = "products, by default" if "by default" in what else "products"
        print(f"{what:>21}: {1e3 * seconds:7.1f} ms, {seconds / best[own]:.2f} times its products")


class Turns(Callback):
    """Print the loss and the seconds of every epoch, and begin the next one when a line comes in."""

    def __init__(self) -> None:
        self.began = time.perf_counter()

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        """Report an epoch."""
        print(json.dumps({"loss": row["train_loss"], "seconds": time.perf_counter() - self.began}), flush=True)
        sys.stdin.readline()
        self.began = time.perf_counter()


def train(table: Path, epochs: int) -> None:
    """Train on a table of molecules with the default settings, epoch by epoch."""
    smiles, target = table.open().readline().strip().split(",")[:2]
    data = {"name": "csv", "path": str(table), "smiles_columns": [smiles], "target_columns": [target]}
    recipe = Recipe.check({"data": data, "model": MODEL, "train": {**TRAINING, "epochs": epochs}})
    problem, _ = make_problem(recipe.data)
    fit(make_model(recipe.model, problem, 0), problem, recipe.train, callback=Turns())


class Elsewhere:
    """The same in a process of its own, with the version in a folder ``src``."""

    def __init__(self, source: Path, table: Path, epochs: int, threads: int) -> None:
        quiet = {"GOMP_SPINCOUNT": SPINS, "ONEDNN_PRIMITIVE_CACHE_CAPACITY": PRODUCTS}  # as the command line sets them
        environment = {**os.environ, **quiet, "PYTHONPATH": str(source), "OMP_NUM_THREADS": str(threads)}
        command = [sys.executable, "-W", "ignore", __file__, "--train", str(table), "--epochs", str(epochs)]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.losses, self.seconds = list[float](), list[float]()

    def epoch(self) -> None:
        """Let it train one epoch, while all others wait."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if self.losses:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline())
        self.losses.append(found["loss"])
        self.seconds.append(found["seconds"])


def alternately(versions: dict[str, Path], table: Path, epochs: int, threads: int, busy: bool) -> dict[str, Elsewhere]:
    """Train all versions by turns, epoch by epoch: they meet the same machine, whose speed may change. Perhaps beside a process that keeps a core busy."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
    found: dict[str, Elsewhere] = {}
    try:
        for _ in range(epochs):
            for name, source in versions.items():
                if name not in found:
                    found[name] = Elsewhere(source, table, epochs + 1, threads)
                found[name].epoch()
    finally:
        for one in found.values():
            one.process.kill()
            one.process.wait()
        if other is not None:
            other.kill()
            other.wait()
    return found


def measure_training(table: Path, before: Path | None, threads: int, epochs: int) -> None:
    """Seconds of an epoch, alone and beside a busy process, for this version and perhaps for another one."""
    versions = {"this version": HERE} | ({} if before is None else {"before": before.absolute()})
    alone, beside = (alternately(versions, table, epochs, threads, busy) for busy in (False, True))
    for name, found in alone.items():
        seconds = median(found.seconds[1:])
        slower = median(beside[name].seconds[1:]) / seconds
        print(
            f"{table.stem}, {name}: {seconds:.2f} s an epoch, beside a busy process {slower:.2f} times that; first loss {found.losses[0]:.6f}"
        )
    if before is not None:
        ours, theirs = alone.values()
        faster = median(b / a for a, b in zip(ours.seconds[1:], theirs.seconds[1:], strict=True))
        differ = abs(ours.losses[0] / theirs.losses[0] - 1)
        print(
            f"{faster:.2f} times faster, the median of {epochs - 1} pairs of epochs; first losses differ by {differ:.1e} of their value"
        )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=8, help="of training; the first one is not timed")
    parser.add_argument("--table", type=Path, help="a table of molecules: SMILES in the first column, a number in the second")
    parser.add_argument("--before", type=Path, help="the src folder of another version")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train is not None:
        train(given.train, given.epochs)
        return
    torch.set_num_threads(given.threads)
    with keep_freed_memory():  # as training does; the products get theirs in the same way
        measure_step(given.rounds, time.process_time if given.threads == 1 else time.perf_counter)
    if given.table is not None:
        measure_training(given.table, given.before, given.threads, given.epochs)


if __name__ == "__main__":
    main()
