"""Training that is killed at random moments, start-up and imports included, ends as if it had not been.

A kill comes in one of three ways: while a new process starts, at a random time of the training, or just before a random change of a file
of the run. ``REIGN_KILLS`` is the number of kills, and ``REIGN_ATTACK_SEED`` the seed, which is printed.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from nursery import Nursery
from safetensors.torch import load_file

from commands import MOLECULES

KILLS = int(os.environ.get("REIGN_KILLS", "100"))
PARTS = 4  # which processes of pytest can share
SETTINGS = ["--model", "ds", "--policy", "nm", "--epochs", "12", "-b", "8", "--seeds", "2", "-q"]
SETTINGS += [arg for setting in ("num_layers=1", "hidden_channels=8", "dropout=0.2") for arg in ("--set", f"model.{setting}")]
PAUSES = (0.0, 0.1, 0.3)  # between checkpoints, as a share of the epochs of a model: after each epoch, after some, and a few times


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    made = Nursery(tmp_path / "errors")
    yield made
    made.close()


def start(*args: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "reign", *map(str, args)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def timeless(value: Any) -> Any:
    """Results without the seconds they took."""
    if isinstance(value, dict):
        return {key: timeless(each) for key, each in value.items() if key != "seconds"}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def ends(run: Path) -> dict[str, Any]:
    """All that a run ends with, bit by bit, but for times and the memory that it took."""
    out: dict[str, Any] = {}
    for file in sorted(run.rglob("*")):
        name = str(file.relative_to(run))
        if file.suffix == ".safetensors":
            out[name] = {key: (value.dtype, value.shape, value.numpy().tobytes()) for key, value in load_file(file).items()}
        elif file.name == "metrics.csv":
            out[name] = pd.read_csv(file, dtype=str).drop(columns="seconds").to_dict("list")
        elif file.suffix == ".json" and file.name not in ("environment.json", "memory.json"):
            out[name] = timeless(json.loads(file.read_text()))
        elif file.name == "predictions.csv":
            out[name] = file.read_text()
        elif file.name == "checkpoint.pt":
            state = torch.load(file, weights_only=True)
            out[name] = {key: value.numpy().tobytes() for key, value in state["learner"]["model"].items()}
        else:
            out[name] = None
    return out


def ages(run: Path) -> list[int]:
    """The number of epochs in each checkpoint that a run will continue from."""
    files = [file for file in run.rglob("checkpoint.pt") if not (file.parent / "result.json").exists()]
    return [len(torch.load(file, weights_only=True)["rows"]) for file in files]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_run_that_is_killed_at_random_moments_ends_the_same(part: int, tmp_path: Path, nursery: Nursery) -> None:
    seed = int(os.environ.get("REIGN_ATTACK_SEED", time.time_ns() % 10**9))
    wanted = KILLS // PARTS + (part < KILLS % PARTS)
    print(f"\nREIGN_ATTACK_SEED={seed}, part {part}, {wanted} kills", flush=True)  # noqa: T201
    rng, table = random.Random(f"{seed}/{part}"), tmp_path / "mols.csv"
    pd.DataFrame({"smiles": MOLECULES, "size": [len(text) / 3 for text in MOLECULES]}).to_csv(table, index=False)

    def order(run: Path, pause: float = 0.0) -> list[Any]:
        if (run / "recipe.yaml").is_file():
            return ["train", "--resume", run, "-q"]
        new = ["-i", table, "--target-columns", "size", "-o", run, *SETTINGS]
        return ["train", *new, "--set", f"train.checkpoint_seconds={pause}"]

    began = time.monotonic()
    whole = start(*order(tmp_path / "whole"))
    _, said = whole.communicate(timeout=600)
    assert whole.returncode == 0, said
    middle = time.monotonic()
    assert nursery.run(*order(tmp_path / "again"), folder=tmp_path / "again") == 0, nursery.errors.read_text()
    length, changes = time.monotonic() - middle, nursery.changes()
    epochs = float(pd.read_csv(tmp_path / "again/seed-0/metrics.csv")["seconds"].sum())
    starting = max(middle - began - length, 0.5)
    expected = ends(tmp_path / "whole")
    assert {"summary.json", "seed-0/result.json", "seed-1/metrics.csv", "seed-0/best/model.safetensors"} <= set(expected)
    assert changes > 2 * 12 * 3  # a checkpoint after each epoch: opened, flushed, renamed

    def one(run: Path, pause: float) -> str | None:
        """Let a command run, and kill it if it is still running at a random moment; the kind of the moment, if it was killed."""
        kind = rng.choice(["start", "time", "time", "change", "change"]) if sum(kills.values()) < wanted else "never"
        if kind == "start":
            process = start(*order(run, pause))
            try:
                process.wait(rng.uniform(0, starting))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            _, said = process.communicate(timeout=600)
            status = process.returncode
        else:
            moment = {"time": {"kill_after": rng.uniform(0, length / 2)}, "change": {"kill_at": rng.randrange(changes // 2)}}
            status = nursery.run(*order(run, pause), folder=run, **moment.get(kind, {}))
            said = nursery.errors.read_text()
        assert status in (0, -signal.SIGKILL), (seed, part, kills, said)
        return kind if status else None

    kills: Counter[str] = Counter()
    found: Counter[int] = Counter()
    runs = 0
    while sum(kills.values()) < wanted:
        run, pause = tmp_path / f"run-{runs}", epochs * rng.choice(PAUSES)
        while not (run / "summary.json").is_file():
            if kind := one(run, pause):
                kills[kind] += 1
                found.update(ages(run))
        same = ends(run)
        assert same.keys() == expected.keys(), (seed, part, runs)
        for name, value in expected.items():
            assert same[name] == value, (seed, part, runs, name)
        runs += 1
    kinds = ", ".join(f"{number} at {kind}" for kind, number in sorted(kills.items()))
    print(f"{kinds}, over {runs} runs, all with the same end, after {time.monotonic() - began:.0f} s")  # noqa: T201
    print(f"epochs in the checkpoints that were continued from, and how often: {dict(sorted(found.items()))}")  # noqa: T201
    assert len(found) >= min(3, wanted // 5)  # else the kills came at moments that do not matter
