"""Two checks of explanations, whose figures are in docs/pictures.md.

    reign train -i esol.csv -s smiles --target-columns logSolubility -o RUN
    python benchmarks/explanations.py deletion RUN docs/pictures/deletion.svg

All test rows of a run are explained, the atoms of the largest scores are deleted from their graphs (with their bonds), and the run predicts
again: that must change the prediction more than deleting random atoms does.

    reign train generalisation-4-cycle/sun-ego/1450 --seeds 1 -o RUN
    python benchmarks/explanations.py cycles RUN

Of a run that counts 4-cycles the nodes in 4-cycles must score higher than the others, on the first 60 test graphs.
"""

import csv
import sys
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

import reign
from reign.data import load_problem
from reign.data.molecules import from_smiles
from reign.explain import deletion, explain
from reign.plots import Curve, CurvePanel, draw_curves

NUMBERS = (1, 2, 3, 4, 5)
GRAPHS = 60


def delete(run: Path, picture: Path) -> None:
    """Explain the test rows, delete atoms, print a table and draw it."""
    predictor = reign.load(run)
    column = predictor.recipe.data.smiles_columns[0]
    with (run / "predictions.csv").open(newline="") as lines:
        graphs = [from_smiles(row[column]) for row in csv.DictReader(lines)]
    scores = [explain(predictor, data).parts.nodes for data in graphs]

    def predict(some: list[Data]) -> Tensor:
        return predictor.outputs(some).mean(0)[:, 0]

    found = deletion(predict, graphs, scores, NUMBERS)
    rows = next(iter(found.values())).size(0)
    print(f"{rows} of {len(graphs)} test rows have at least {max(NUMBERS) + 2} atoms; mean change of the prediction:")
    print("deleted   " + "".join(f"{number:>9}" for number in NUMBERS))
    for name, change in found.items():
        print(f"{name:10}" + "".join(f"{value:9.3f}" for value in change.mean(0).tolist()))
    more = (found["largest"] > found["random"]).double().mean(0)
    print("largest > random, share of rows:" + "".join(f"{value:7.2f}" for value in more.tolist()))
    curves = []
    for name, change in found.items():
        mean, error = change.mean(0), change.std(0) / rows**0.5
        label = {"largest": "largest scores", "random": "random", "smallest": "smallest scores"}[name]
        curves.append(Curve(label, NUMBERS, mean.tolist(), (mean - error).tolist(), (mean + error).tolist()))
    panel = CurvePanel("", "atoms deleted", f"change of the prediction, {rows} molecules", tuple(curves))
    draw_curves("deletion", [panel]).save(picture)


def cycles(run: Path) -> None:
    """Compare the scores of nodes in 4-cycles with those of the others."""
    predictor = reign.load(run)
    problem = load_problem(predictor.recipe.data.name, **predictor.recipe.data.options)
    inside, outside, higher = [], [], []
    for g in problem.splits["test"][:GRAPHS].tolist():
        batch = problem.graphs.batch(torch.tensor([g]))
        scores = explain(predictor, Data(x=batch.x, edge_index=batch.edge_index), steps=16).parts.nodes
        A = torch.zeros(scores.numel(), scores.numel()).index_put_(tuple(batch.edge_index), torch.tensor(1.0))
        common = (A @ A).fill_diagonal_(0)  # two nodes with two common neighbours are opposite in a 4-cycle
        mine = (common >= 2).any(1)
        inside.append(scores[mine])
        outside.append(scores[~mine])
        if mine.any() and not mine.all():
            higher.append(bool(scores[mine].mean() > scores[~mine].mean()))
    one, other = torch.cat(inside), torch.cat(outside)
    auc = (one[:, None] > other[None]).double().mean()
    print(
        f"{one.numel()} nodes in 4-cycles score {one.mean():.4f}, {other.numel()} others {other.mean():.4f}; the former is higher in {auc:.3f} of pairs"
    )
    print(f"the mean is higher in {sum(higher)} of {len(higher)} graphs that have both")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "deletion":
        delete(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        cycles(Path(sys.argv[2]))
