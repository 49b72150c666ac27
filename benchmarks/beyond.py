"""What a training step of each model of the table "beyond" costs: on a GPU as training does it, as one CUDA graph; elsewhere plain.

PYTHONPATH=src python benchmarks/beyond.py [ROW ...] [--graphs 2000] [--repeats 20]

The first number is the time of a step with the batch of the recipe, the second that of an epoch of ZINC-12k, the third that of all epochs.
"""

import argparse
import time
from statistics import median

import torch

from reign.data import Problem, load_problem
from reign.experiments import find_recipe, find_table
from reign.experiments.steps import ResidentStep, our_step
from reign.nn import num_parameters
from reign.train import Recipe
from reign.train.runs.build import make_model

TRAINING = 10_000  # graphs of ZINC-12k to learn from


def seconds(recipe: Recipe, problem: Problem, device: torch.device, repeats: int) -> tuple[float, str]:
    """The time of a step, and in which way it is done."""
    model = make_model(recipe.model, problem, 0)
    ids = problem.splits["train"][: recipe.train.batch_size]
    if device.type == "cuda":
        try:
            step = ResidentStep(model, problem, ids)
            peak = torch.cuda.max_memory_allocated() / 1e9
            return step.seconds(repeats), f"one CUDA graph, data set {step.store_bytes / 1e6:,.0f} MB, at most {peak:.1f} GB"
        except RuntimeError as error:
            print(f"  {recipe.model.name} is not captured: {str(error).splitlines()[0]}")
            model = make_model(recipe.model, problem, 0)
    eager = our_step(model, problem, ids, device, fast=True)
    times = []
    for r in range(repeats + 1):
        start = time.perf_counter()
        eager()
        if device.type == "cuda":
            torch.cuda.synchronize()
        if r:
            times.append(time.perf_counter() - start)
    return median(times), "operation by operation, with the bag"


def main() -> None:
    """Print a line for each row."""
    table = find_table("beyond")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", default=list(table.rows), help="rows of the table; all if not given")
    parser.add_argument("--graphs", type=int, default=2000, help="number of training graphs to read")
    parser.add_argument("--repeats", type=int, default=20, help="number of steps")
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(f"{torch.cuda.get_device_name() if device.type == 'cuda' else 'CPU'}, torch {torch.__version__}")
    problem = load_problem("zinc").limit(given.graphs)
    for row in given.rows:
        recipe = find_recipe(f"beyond/{row}")[0]
        weights = num_parameters(make_model(recipe.model, problem, 0))
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        step, how = seconds(recipe, problem, device, given.repeats)
        epoch = step * TRAINING / recipe.train.batch_size
        print(
            f"{row:26s} {weights:,} weights, batch {recipe.train.batch_size}: {1000 * step:.2f} ms a step, {epoch:.1f} s an epoch, "
            f"{epoch * recipe.train.epochs / 60:.0f} minutes for {recipe.train.epochs:,} epochs ({how})"
        )


if __name__ == "__main__":
    main()
