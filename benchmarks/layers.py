"""The cost of SUN on a CPU, against the yardstick and against its own matrix products.

1. ZINC batch of 128, EGO+(3), SUN 6 x 64, forward + backward: time and peak memory of ours and of the yardstick in one
   run (memory in a process each); the time of the matrix products alone is the floor.
2. Time and memory over n = 10, ..., 200 nodes, per pair.

Run with ``make bench``; the batch comes from the folder REIGN_DATA, or is made of random molecule-sized graphs.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from memory import peak_mb, reset_peak
from policies import load
from torch import Tensor
from torch_geometric.data import Batch, Data

import reign
from reign.experiments.yardstick import Union, YardstickSUN
from reign.nn import SUN

VERSIONS = ("ours", "yardstick", "node-level yardstick")


def zinc_batch(size: int = 128) -> Batch:
    """The first training graphs with atom and bond types (random types, because the cost does not depend on them)."""
    folder = os.environ.get("REIGN_DATA")
    if folder:
        graphs = load(Path(folder) / "zinc12k.npz", "train_")[:size]
    else:
        graphs = reign.testing.random_graphs(size, min_nodes=18, max_nodes=28, edge_prob=0.09)
    rng = torch.Generator().manual_seed(0)
    return Batch.from_data_list(
        [
            Data(
                x=torch.randint(0, 21, (data.num_nodes, 1), generator=rng),
                edge_index=data.edge_index,
                edge_attr=torch.randint(0, 4, (data.num_edges, 1), generator=rng),
            )
            for data in graphs
        ]
    )


def make_step(version: str, batch: Batch) -> Callable[[], Tensor]:
    """A function that runs one forward and backward pass."""
    torch.manual_seed(0)
    model = SUN(64, 64, 6, 1, policy="ego+:3", node_encoder=21, edge_encoder=4).to(batch.x.device)
    bag = model.policy.from_data(batch)
    if version == "ours":

        def forward() -> Tensor:
            return model(batch.x, batch.edge_index, bag=bag)
    else:
        other, union = YardstickSUN(model, node_level=version.startswith("node")), Union(bag)

        def forward() -> Tensor:
            return other(batch.x, bag, union)

    def step() -> Tensor:
        model.zero_grad()
        loss = forward().pow(2).mean()
        loss.backward()
        return loss.detach()

    step.model, step.forward = model, forward  # type: ignore[attr-defined]
    return step


def gemm_floor(batch: Batch) -> Callable[[], None]:
    """Only the matrix products of our step: forward, gradient of the input, gradient of the weight."""
    step = make_step("ours", batch)
    shapes: list[tuple[int, int, int]] = []

    def record(module: torch.nn.Module, args: tuple[Tensor, ...], out: Tensor) -> None:
        shapes.append((args[0].size(0), args[0].size(1), out.size(1)))

    model = step.model  # type: ignore[attr-defined]
    hooks = [m.register_forward_hook(record) for m in model.modules() if isinstance(m, torch.nn.Linear)]
    step()
    for hook in hooks:
        hook.remove()
    tensors = {s: (torch.randn(s[0], s[1]), torch.randn(s[1], s[2]), torch.randn(s[0], s[2])) for s in set(shapes)}

    def run() -> None:
        for s in shapes:
            x, w, g = tensors[s]
            x @ w, g @ w.t(), x.t() @ g

    return run


def seconds(run: Callable[[], object], repeats: int = 5) -> float:
    """Median time of a call, after a warm-up."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return median(times)


def memory(*task: str) -> float:
    """The peak memory that one step adds, measured in a separate process."""
    out = subprocess.run([sys.executable, __file__, *task], check=True, capture_output=True, text=True)
    return float(out.stdout)


def compare() -> None:
    """Compare our step with the yardsticks and the floor."""
    batch = zinc_batch()
    pairs = int((batch.ptr.diff() ** 2).sum())
    print(f"SUN 6 x 64, {batch.num_graphs} graphs, {pairs:,} pairs, forward + backward, {torch.get_num_threads()} threads")
    floor = seconds(gemm_floor(batch))
    times = {version: seconds(make_step(version, batch)) for version in VERSIONS}
    mb = {version: memory(version) for version in VERSIONS}
    print(f"  matrix products alone {floor:.2f} s")
    for version in VERSIONS:
        speed, share = times[version] / times["ours"], mb["ours"] / mb[version]
        print(
            f"  {version:22s} {times[version]:.2f} s, {mb[version]:,.0f} MB: ours {speed:.2f} x faster, {share:.2f} of its memory"
        )


def one_size(n: int) -> tuple[Callable[[], Tensor], int]:
    """A step on about 40,000 pairs of graphs of n nodes, and the number of pairs."""
    copies = max(1, 40_000 // n**2)
    batch = Batch.from_data_list(reign.testing.random_graphs(copies, min_nodes=n, max_nodes=n, edge_prob=3 / n))
    model = SUN(3, 32, 2, 1, policy="ego+:3")

    def step() -> Tensor:
        loss = model(batch.x, batch.edge_index, batch=batch.batch).sum()
        loss.backward()
        return loss.detach()

    return step, copies * n * n


def scaling() -> None:
    """Measure time and memory per pair for several sizes of graphs."""
    print("random graphs of mean degree 3, SUN 2 x 32, ego+:3, bag + forward + backward:")
    for n in (10, 20, 50, 100, 200):
        step, pairs = one_size(n)
        took, mb = seconds(step), memory("scaling", str(n))
        print(f"  n = {n:3d}: {pairs:,} pairs, {1e6 * took / pairs:.2f} us and {1e6 * mb / pairs:,.0f} bytes a pair")


def main() -> None:
    """Run all measurements, or measure the memory of one step of the given task."""
    if not sys.argv[1:]:
        compare()
        scaling()
        return
    run = one_size(int(sys.argv[2]))[0] if sys.argv[1] == "scaling" else make_step(sys.argv[1], zinc_batch())
    before = reset_peak()
    run()
    print(peak_mb() - before)


if __name__ == "__main__":
    main()
