"""Training that is killed at random moments, start-up and imports included, ends as if it had not been.

``REIGN_KILLS`` is the number of kills, and ``REIGN_ATTACK_SEED`` the seed, which is printed.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from commands import MOLECULES
from safetensors.torch import load_file

KILLS = int(os.environ.get("REIGN_KILLS", "100"))
SETTINGS = [
    "--epochs",
    "20",
    "-b",
    "8",
    "--seeds",
    "2",
    "--set",
    "model.num_layers=1",
    "--set",
    "model.hidden_channels=8",
    "--set",
    "model.dropout=0.2",
    "-q",
]


def start(*args: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "reign", "train", *map(str, args)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def timeless(value: Any) -> Any:
    """Results without the seconds they took."""
    if isinstance(value, dict):
        return {key: timeless(each) for key, each in value.items() if key != "seconds"}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def ends(run: Path) -> dict[str, Any]:
    """All that a run ends with, bit by bit, but for times."""
    out: dict[str, Any] = {}
    for file in sorted(run.rglob("*")):
        name = str(file.relative_to(run))
        if file.suffix == ".safetensors":
            out[name] = {key: (value.dtype, value.shape, value.numpy().tobytes()) for key, value in load_file(file).items()}
        elif file.name == "metrics.csv":
            out[name] = pd.read_csv(file, dtype=str).drop(columns="seconds").to_dict("list")
        elif file.suffix == ".json" and file.name != "environment.json":
            out[name] = timeless(json.loads(file.read_text()))
        elif file.name == "predictions.csv":
            out[name] = file.read_text()
        elif file.name == "checkpoint.pt":
            state = torch.load(file, weights_only=True)
            out[name] = {key: value.numpy().tobytes() for key, value in state["learner"]["model"].items()}
        else:
            out[name] = None
    return out


@pytest.mark.slow
def test_a_run_that_is_killed_at_random_moments_ends_the_same(tmp_path: Path) -> None:
    seed = int(os.environ.get("REIGN_ATTACK_SEED", time.time_ns() % 10**9))
    print(f"\nREIGN_ATTACK_SEED={seed}, {KILLS} kills", flush=True)  # noqa: T201
    rng, table = random.Random(seed), tmp_path / "mols.csv"
    pd.DataFrame({"smiles": MOLECULES, "size": [len(text) / 3 for text in MOLECULES]}).to_csv(table, index=False)
    began = time.monotonic()
    whole = start("-i", table, "--target-columns", "size", "-o", tmp_path / "whole", *SETTINGS)
    assert whole.wait() == 0, whole.stderr
    assert whole.stderr is not None
    whole.stderr.close()
    length = time.monotonic() - began
    expected = ends(tmp_path / "whole")
    assert {"summary.json", "seed-0/result.json", "seed-1/metrics.csv", "seed-0/best/model.safetensors"} <= set(expected)
    kills, runs = 0, 0
    while kills < KILLS:
        run = tmp_path / f"run-{runs}"
        while not (run / "summary.json").is_file():
            new = ["-i", table, "--target-columns", "size", "-o", run, *SETTINGS]
            worker = start(*(["--resume", run, "-q"] if (run / "recipe.yaml").is_file() else new))
            if kills < KILLS:
                try:
                    worker.wait(rng.uniform(0, length))
                except subprocess.TimeoutExpired:
                    worker.send_signal(signal.SIGKILL)
                    kills += 1
            _, said = worker.communicate(timeout=600)
            assert worker.returncode in (0, -signal.SIGKILL), (seed, kills, said)
        found = ends(run)
        assert found.keys() == expected.keys(), (seed, runs)
        for name, value in expected.items():
            assert found[name] == value, (seed, runs, name)
        runs += 1
    print(f"{kills} kills over {runs} runs of {length:.1f} s, all with the same end", flush=True)  # noqa: T201
