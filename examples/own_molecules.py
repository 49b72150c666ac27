"""Your own molecules: train on a table of SMILES, predict others with an uncertainty, and explain a prediction.

python examples/own_molecules.py molecules.csv --target logS     # a table of your own
python examples/own_molecules.py                                 # a small one that is made: alkanes, alcohols, amines
"""

import argparse
import shutil
from pathlib import Path

import pandas as pd

import reign
from reign.experiments import find_recipe
from reign.plots.molecules import explain_smiles, write_explanations
from reign.train import train

FOLDER = Path("runs/example-molecules")


def made_table(file: Path) -> Path:
    """A table of chains with different ends, and a target that their ends and lengths decide."""
    ends = {"": 0.0, "O": -1.5, "N": -1.2, "C(=O)O": -1.0, "Cl": 0.6, "c1ccccc1": 1.8}
    rows = [("C" * n + end, 0.5 * n + shift) for n in range(1, 13) for end, shift in ends.items()]
    pd.DataFrame(rows, columns=["smiles", "value"]).to_csv(file, index=False)
    return file


def main(table: Path | None, target: str, epochs: int, models: int) -> None:
    """Train, predict, explain."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    path = made_table(FOLDER / "molecules.csv") if table is None else table
    recipe, _ = find_recipe(
        "molecules",
        {"data": {"path": str(path.absolute()), "target_columns": [target]}},
        {"train": {"epochs": epochs}, "seeds": list(range(models))},
    )
    summary = train(recipe, FOLDER / "run")
    print(f"test {summary['metric']}: {summary['test']['mean']:.3f}")

    predictor = reign.load(FOLDER / "run")
    print(predictor.predict(["CCCCO", "CCCCCCCC", "not a molecule"]).to_string(index=False))

    explained, errors = explain_smiles(predictor, ["CCCCO"])
    write_explanations(FOLDER / "why.html", "Why?", explained, errors)
    print(f"The explanation is in {FOLDER / 'why.html'}.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, nargs="?", help="a CSV with a column smiles")
    parser.add_argument("--target", default="value", help="the column to predict")
    parser.add_argument("--epochs", type=int, default=40, help="number of epochs")
    parser.add_argument("--models", type=int, default=2, help="number of models; their spread is the uncertainty")
    main(**vars(parser.parse_args()))
