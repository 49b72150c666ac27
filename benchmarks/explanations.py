"""Are explanations right? Deleting the atoms that score highest must change a prediction more than deleting random ones.

    reign train -i esol.csv -s smiles --target-columns logSolubility -o RUN
    python benchmarks/explanations.py RUN docs/pictures/deletion.svg

All test rows of the run are explained, atoms are deleted from their graphs (with their bonds), and the run predicts again.
"""

import csv
import sys
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

import reign
from reign.data.molecules import from_smiles
from reign.explain import deletion, explain
from reign.plots import Curve, CurvePanel, draw_curves

NUMBERS = (1, 2, 3, 4, 5)


def main(run: Path, picture: Path) -> None:
    """Explain the test rows, delete atoms, print a table and draw it."""
    predictor = reign.load(run)
    column = predictor.recipe.data.smiles_columns[0]
    with (run / "predictions.csv").open(newline="") as lines:
        graphs = [from_smiles(row[column]) for row in csv.DictReader(lines)]
    scores = []
    for g, data in enumerate(graphs):
        scores.append(explain(predictor, data).parts.nodes)
        print(f"{g + 1} of {len(graphs)}", end="\r", file=sys.stderr)

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


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
