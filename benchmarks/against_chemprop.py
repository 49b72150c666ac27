"""How long training on a small table takes, and its errors on test rows: reign and chemprop by their commands, with all defaults, in turns.

    python -m venv other && other/bin/pip install chemprop==2.3.1
    REIGN_DATA=FOLDER python benchmarks/against_chemprop.py --chemprop other/bin/chemprop [--rounds 2]

The folder holds ``esol_splits.csv`` and ``moleculeace.csv.xz``. The tables are the three splits of ESOL and 1,500 rows of a set of MoleculeACE, whose rows
are drawn with a fixed seed, and so is the tenth of its training rows that is for validation. Both commands get the same file and the same cores; with several rounds,
the order changes. Seconds are those of the whole command: start, reading, training, the forest of reign that the model is compared with, and its report.
Errors are computed here, in the same way from the predictions that each command wrote for the test rows.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean

import pandas as pd

from reign.disk import read_json

SET, ROWS, SEED = "CHEMBL228_Ki", 1_500, 0
TABLES = ("esol-0", "esol-1", "esol-2", SET)


def write_table(name: str, data: Path, file: Path) -> pd.DataFrame:
    """Write a table with the columns smiles, y and split, and return its test rows."""
    if name.startswith("esol"):
        found = pd.read_csv(data / "esol_splits.csv").rename(columns={"logSolubility": "y", f"split{name[-1]}": "split"})
    else:
        found = pd.read_csv(data / "moleculeace.csv.xz")
        found = found[found["set"] == name].sample(ROWS, random_state=SEED)
        held = found[found["split"] == "train"].sample(frac=0.1, random_state=SEED).index
        found.loc[held, "split"] = "val"
    found[["smiles", "y", "split"]].to_csv(file, index=False)
    print(f"{name}: {found['split'].value_counts().to_dict()}", flush=True)
    return found[found["split"] == "test"].reset_index(drop=True)


def commands(chemprop: str, epochs: int | None) -> dict[str, tuple[list[str], str, str]]:
    """What each program is called with, and the file and the column of its predictions for the test rows."""
    table = ["train", "-i", "table.csv", "--target-columns", "y", "--splits-column", "split", "--accelerator", "cpu", "-o", "run"]
    table += [] if epochs is None else ["--epochs", str(epochs)]
    return {
        "reign": ([sys.executable, "-m", "reign", *table], "run/predictions.csv", "y_pred"),
        "chemprop": ([chemprop, *table, "--smiles-columns", "smiles", "-t", "regression"], "run/model_0/test_predictions.csv", "y"),
    }


def measure(command: list[str], file: Path, column: str, test: pd.DataFrame, place: Path, threads: int) -> tuple[float, float]:
    """Seconds of a command, and the RMSE of its predictions for the test rows."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("REIGN_", "OMP_", "MKL_"))}
    if "-m" not in command:
        own.pop("PYTHONPATH", None)  # it is another environment
    print(f"load {os.getloadavg()[0]:.2f}: {' '.join(command)}", flush=True)
    began = time.perf_counter()
    done = subprocess.run(command, cwd=place, env={**own, "OMP_NUM_THREADS": str(threads)}, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    predicted = pd.read_csv(place / file)
    if list(predicted["smiles"]) != list(test["smiles"]):
        raise SystemExit(f"{file} has {len(predicted)} rows, expected the {len(test)} test rows in their order.")
    return seconds, float(((predicted[column] - test["y"]) ** 2).mean() ** 0.5)


def main() -> None:
    """Train all tables with both programs in turns."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chemprop", required=True, help="the command chemprop of another environment")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("REIGN_DATA", ".")), help="the folder of the tables")
    parser.add_argument("--tables", nargs="*", default=TABLES, choices=TABLES)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of each program; one for each core"
    )
    parser.add_argument("--epochs", type=int, help="epochs of both, at least 3, to try this program")
    given = parser.parse_args()
    chemprop = str(Path(given.chemprop).absolute())
    version = subprocess.run([chemprop, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{version}; {platform.processor() or platform.machine()}, {given.threads} threads", flush=True)
    programs, lines = commands(chemprop, given.epochs), []
    for name in given.tables:
        found: dict[str, list[tuple[float, float]]] = {program: [] for program in programs}
        beside: dict[str, float] = {}
        for r in range(given.rounds):
            for program in list(programs)[:: 1 if r % 2 == 0 else -1]:
                with tempfile.TemporaryDirectory() as place:
                    test = write_table(name, given.data, Path(place) / "table.csv")
                    command, file, column = programs[program]
                    found[program].append(measure(command, Path(file), column, test, Path(place), given.threads))
                    if program == "reign":
                        beside = {
                            b["name"]: b["test"]["mean"] for b in read_json(Path(place) / "run/summary.json").get("baselines", [])
                        }
        for program, runs in found.items():
            lines.append(f"| {name} | {program} | {', '.join(f'{s:.1f}' for s, _ in runs)} | {mean(e for _, e in runs):.4f} |")
        lines += [f"| {name} | {what} of reign | in the above | {value:.4f} |" for what, value in beside.items()]
    print("\n".join(["| table | program | seconds of each round | test RMSE |", "|---|---|---|---|", *lines]))


if __name__ == "__main__":
    main()
