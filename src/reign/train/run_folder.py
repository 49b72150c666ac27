"""The folder of a run, with its settings and all its results:

RUN/recipe.yaml          all settings
    environment.json     versions, commit, device, command
    rows_left_out.csv    rows of a table that could not be read, and why
    table.json           what was found in a table before training: these rows, repeated molecules, contradicting labels, warnings
    summary.json         results over all seeds and folds
    calibration.json     calibration of the uncertainties on the validation rows of a table
    domain.json          ranges of the training molecules, for the warnings of reign predict
    training.csv         training molecules of a table, for reign predict --nearest
    memory.json          peak memory
    report.html          a page about the results; its figures are in figures/
    predictions.csv      predictions for the test graphs: mean and spread over seeds
    seed-0/              one model; seed-0/fold-3/ in cross-validation
        splits.json, metrics.csv, result.json, predictions.csv
        best/, last/     weights and arguments of the model, for ``from_pretrained``
        checkpoint.pt    the state to continue from

While a process writes to the folder, it also holds a file .lock.
"""

import hashlib
import os
import platform
import resource
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import reign._version
from reign.data import TASKS, Problem
from reign.disk import is_unfinished, read_record, remove_unfinished
from reign.train import lock
from reign.train.engine.execution import Fabric
from reign.train.settings.config import Recipe
from reign.train.settings.yaml import merge
from reign.train.summary import read_summary


def start(recipe: Recipe, folder: Path, resume: bool) -> tuple[Recipe, dict[str, Any] | None]:
    """The recipe with all seeds of the run, old and new, and the results if all are done. Raise ``ValueError`` if two runs would be mixed."""
    if all(file.name == lock.NAME or is_unfinished(file) for file in folder.iterdir()):  # new, or killed before it started
        remove_unfinished(folder)
        return recipe, None
    if not has_run(folder):
        raise ValueError(f"{folder} is not empty and holds no run; choose a new folder with -o.")
    if not resume:
        raise ValueError(f"{folder} already holds a run; continue it with --resume {folder}, or choose a new folder with -o.")
    saved = Recipe.load(folder / "recipe.yaml")
    there, here = (_flat(r.model_dump(mode="json", exclude={"seeds"})) for r in (saved, recipe))
    more = recipe.train.epochs > saved.train.epochs  # a run may go on for more epochs
    if other := [key for key in {**there, **here} if there.get(key) != here.get(key) and not (more and key == "train.epochs")]:
        key = other[0]
        if key == "train.epochs":
            raise ValueError(
                f"the run in {folder} has {saved.train.epochs} epochs, expected more with --resume, got --epochs {recipe.train.epochs}."
            )
        raise ValueError(
            f"{folder} holds a run with other settings ({key} is {there.get(key)!r} there and {here.get(key)!r} here). A run continues with its "
            "own settings; for others, start a new one in another folder with -o."
        )
    remove_unfinished(folder)
    seeds = saved.seeds + [seed for seed in recipe.seeds if seed not in saved.seeds]
    recipe = recipe.model_copy(update={"seeds": seeds})
    finished = (folder / "summary.json").is_file() and seeds == saved.seeds and not more
    return recipe, read_summary(folder) if finished else None


def has_run(folder: Path) -> bool:
    """Whether a folder holds a run, finished or not."""
    return (folder / "recipe.yaml").is_file()


def saved_recipe(folder: Path, *changes: dict[str, Any]) -> Recipe:
    """The recipe of a run that is to be continued, with changes such as more seeds."""
    if not has_run(folder):
        raise ValueError(f"{folder} holds no run to continue: there is no recipe.yaml.")
    return Recipe.check(merge(Recipe.load(folder / "recipe.yaml").model_dump(mode="json"), *changes), "--set")


def environment(fabric: Fabric) -> dict[str, Any]:
    """The versions, the commit, the device and the command that a run was made with."""
    device = torch.cuda.get_device_name() if fabric.device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "reign": reign._version.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "torch_geometric", "lightning")},
        "commit": commit_of(Path(reign._version.__file__).parents[2]),
        "device": device,
        "processes": fabric.world_size,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "command": sys.argv,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@cache
def commit_of(folder: Path) -> str | None:
    """The commit of a git checkout, with "+changes" if tracked files were changed since; None for any other folder.

    It is looked up once in a process, because that is the source which has been loaded.
    """
    if not (folder / ".git").exists():
        return None
    try:
        words = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"]
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):  # git is missing, or refuses
        return None


def peak_memory(device: torch.device) -> dict[str, int]:
    """The peak memory in bytes of this process or one of its child processes, and the peak memory on a GPU."""
    largest = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    host = largest * (1 if sys.platform == "darwin" else 1024)
    return {"host_bytes": host, **({"device_bytes": torch.cuda.max_memory_allocated(device)} if device.type == "cuda" else {})}


def describe(problem: Problem) -> dict[str, Any]:
    """The targets of a run, and a fingerprint of the graphs that its models learn from."""
    about = {"name": problem.name, "task": problem.task, "targets": problem.targets, "classes": problem.classes}
    if problem.weights is not None:
        about["weights"] = hashlib.sha256(problem.weights.numpy().tobytes()).hexdigest()[:16]
    return {**about, "fingerprint": problem.graphs.fingerprint()}


def known_targets(folder: Path) -> list[str]:
    """The targets of a run that was started before; none for a new run."""
    file = folder / "problem.json"
    return list(map(str, read_record(file, targets=list)["targets"])) if file.is_file() else []


def read_about(folder: Path) -> dict[str, Any]:
    """Read the output of ``describe`` for a finished run."""
    if not folder.exists():
        raise ValueError(f"the run {folder} does not exist.")
    if not has_run(folder):
        inside = next((place for place in sorted(folder.glob("*")) if has_run(place)), None)
        hint = "" if inside is None else f" There is one in {inside}."
        raise ValueError(f"{folder} holds no recipe.yaml, expected the folder of a run made by reign train.{hint}")
    if not (folder / "summary.json").is_file():
        raise ValueError(f"the run in {folder} is not finished; continue it with: reign train --resume {folder}.")
    file = folder / "problem.json"
    about = read_record(file, task=str, targets=list, classes=list, fingerprint=str)
    words = [*about["targets"], *about["classes"]]
    if about["task"] not in TASKS or not about["targets"] or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{file} is damaged (it has the task {about['task']!r} and the targets {about['targets']!r}).")
    if len(set(words[: len(about["targets"])])) != len(about["targets"]) or (about["task"] == "multiclass") != bool(
        about["classes"]
    ):
        raise ValueError(f"{file} is damaged (it has the targets {about['targets']!r} and the classes {about['classes']!r}).")
    return about


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in values.items():
        out |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return out
