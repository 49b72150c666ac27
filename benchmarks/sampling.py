"""What sampling subgraphs costs: test errors of the runs of examples/sampling.yaml, with all subgraphs and with the mean over draws.

reign reproduce examples/sampling.yaml -o runs/sampling
PYTHONPATH=src python benchmarks/sampling.py runs/sampling [--draws 10]
"""

import argparse
import statistics
from pathlib import Path

import torch

from reign.data import load_problem
from reign.experiments import find_table
from reign.nn import Model
from reign.policies import Sampled


def spread(values: list[float]) -> str:
    """The mean and the deviation over seeds."""
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}" if len(values) > 1 else " ".join(map(str, values))


def main() -> None:
    """Print a row for each model and share."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, help="the folder of the runs")
    parser.add_argument("--draws", type=int, default=10, help="number of draws to average")
    given = parser.parse_args()
    table = find_table(str(Path(__file__).parents[1] / "examples" / "sampling.yaml"))
    data = table.recipe(next(iter(table.rows)), "all").data
    problem = load_problem(data.name, **data.options)
    batch = problem.graphs.batch(torch.as_tensor(problem.splits["test"]))
    assert batch.y is not None
    assert data.targets is not None
    y = batch.y[:, [problem.targets.index(target) for target in data.targets]]

    def error(model: Model) -> float:
        with torch.no_grad():
            return float((model(batch.x, batch.edge_index, batch.edge_attr, batch.batch) - y).abs().mean())

    print(f"| model | share | all subgraphs | mean over {given.draws} draws |\n|---|---|---|---|")
    for row, entry in table.rows.items():
        for column in table.columns:
            models = [Model.from_pretrained(folder / "best") for folder in sorted((given.runs / row / column).glob("seed-*"))]
            whole, drawn = [error(model) for model in models], []
            for model in models:
                if isinstance(policy := model.policy, Sampled):
                    model.policy = Sampled(policy.policy, policy.share, missing=policy.missing, eval_draws=given.draws).eval()
                    drawn.append(error(model))
            print(f"| {entry.title} | {column} | {spread(whole)} | {spread(drawn)} |", flush=True)


if __name__ == "__main__":
    main()
