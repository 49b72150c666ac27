"""How long the prediction of a single molecule takes: ``reign.load(run).predict([one])``, and the same run as an ONNX file, by turns.

    python benchmarks/latency.py                # a run with the default settings, trained for one epoch
    python benchmarks/latency.py --run RUN

Every number is over 50 calls after 10 to warm up, in milliseconds and on one thread each: the median, and the least. A call starts from the SMILES. Molecules are
those of ESOL nearest to 10, 25 and 50 atoms (``REIGN_DATA``).
"""

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pandas as pd
import torch
from rdkit import Chem

import reign
from reign.experiments import find_recipe
from reign.train import train
from reign.train.runs.onnx import PROGRAM, export_onnx

WARM, CALLS = 10, 50


def default_run(folder: Path) -> Path:
    """A run with the default settings for tables on some molecules of ESOL."""
    table = pd.read_csv(Path(os.environ["REIGN_DATA"]) / "esol.csv")
    table[:100].to_csv(folder / "table.csv", index=False)
    data = {"path": str(folder / "table.csv"), "target_columns": ["logSolubility"]}
    train(find_recipe("molecules-pretrained", {"data": data, "train": {"epochs": 1}})[0], folder / "run")
    return folder / "run"


def examples() -> dict[int, str]:
    """Three molecules by their numbers of atoms."""
    texts = pd.read_csv(Path(os.environ["REIGN_DATA"]) / "esol.csv")["smiles"].str.strip()
    sizes = {text: Chem.MolFromSmiles(text).GetNumAtoms() for text in texts}
    chosen = [min(sizes, key=lambda text, wanted=wanted: abs(sizes[text] - wanted)) for wanted in (10, 25, 50)]  # type: ignore[misc]
    return {sizes[text]: text for text in chosen}


def milliseconds(call: Callable[[], object]) -> float:
    """The time of one call."""
    start = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - start)


def main() -> None:
    """Measure, and print a line for each molecule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a finished run on a table of molecules")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = given.run or default_run(folder)
        export_onnx(run, folder / "model.onnx")
        spec = importlib.util.spec_from_file_location("predict_onnx", folder / PROGRAM)
        assert spec is not None
        assert spec.loader is not None
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)
        loaded, session = reign.load(run), program.OnnxPredictor(str(folder / "model.onnx"))
        for atoms, text in examples().items():
            calls: dict[str, Callable[[], object]] = {
                "reign": lambda text=text: loaded.predict([text]),  # type: ignore[misc]
                "onnx": lambda text=text: session.predict([text]),  # type: ignore[misc]
            }
            found: dict[str, list[float]] = {kind: [] for kind in calls}
            for _ in range(WARM + CALLS):
                for kind, call in calls.items():
                    found[kind].append(milliseconds(call))
            shown = (f"{kind}: median {median(t[WARM:]):.1f} ms, least {min(t[WARM:]):.1f} ms" for kind, t in found.items())
            print(f"{atoms} atoms, {len(loaded.models)} model(s); " + "; ".join(shown))


if __name__ == "__main__":
    main()
