"""Time of a training step per pair of subgraph and node, over the size of graphs, on a GPU:

PYTHONPATH=src python benchmarks/scaling.py
"""

import torch

from reign.data import Problem
from reign.experiments.bench import Workload
from reign.experiments.steps import ResidentStep
from reign.testing import random_graphs

SIZES, PAIRS, DEGREE = (12, 25, 50, 100, 200), 70_000, 2.2


def graphs_of(n: int) -> Problem:
    """Random graphs of n nodes with the degree of molecules, and about as many pairs as a batch of ZINC-12k."""
    graphs = random_graphs(max(1, round(PAIRS / n**2)), min_nodes=n, max_nodes=n, edge_prob=DEGREE / n)
    rng = torch.Generator().manual_seed(0)
    for data in graphs:
        data.x = torch.randint(0, 21, (data.num_nodes, 1), generator=rng)
        data.edge_attr = torch.randint(0, 4, (data.num_edges // 2, 1), generator=rng).repeat(2, 1)
        data.y = torch.randn(1, 1, generator=rng)
    return Problem.of(graphs, name=f"{n} nodes", node_encoder=21, edge_encoder=4)


def main() -> None:
    """Print nanoseconds per pair for each size, and the ratio of the slowest and the fastest."""
    times = {}
    for n in SIZES:
        problem = graphs_of(n)
        number = problem.splits["train"].numel()
        step = ResidentStep(Workload(batch_size=number, device="cuda").build(problem), problem, problem.splits["train"])
        seconds = min(step.seconds(20) for _ in range(3))
        times[n] = 1e9 * seconds / (number * n**2)
        print(
            f"n = {n:3d}: {number:4d} graphs, {number * n**2:,} pairs, {1e3 * seconds:.2f} ms a step, {times[n]:.1f} ns a pair",
            flush=True,
        )
    print(f"slowest / fastest: {max(times.values()) / min(times.values()):.2f}")


if __name__ == "__main__":
    main()
