"""A run is a folder: everything that went into it, and everything that came out.

RUN/recipe.yaml          all settings
    environment.json     versions, device, command
    rows_left_out.csv    rows of a table that could not be read, and why
    summary.json         results over all seeds and folds
    predictions.csv      of the test graphs: mean and spread over seeds
    seed-0/              one model; seed-0/fold-3/ in cross-validation
        splits.json, metrics.csv, result.json, predictions.csv
        best/, last/     weights and arguments of the model, for ``from_pretrained``
        checkpoint.pt    to continue from
"""

import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric

import reign._version
from reign.data import Problem
from reign.disk import read_json, remove_unfinished
from reign.train.overrides import merge
from reign.train.recipe import Recipe


def start(recipe: Recipe, folder: Path, resume: bool) -> tuple[Recipe, dict[str, Any] | None]:
    """The recipe with all seeds that a run has or will have, and its results if it is done; ``ValueError`` rather than mix two runs."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, expected a folder for the run.")
    if not folder.exists() or not any(folder.iterdir()):
        return recipe, None
    if not (folder / "recipe.yaml").is_file():
        raise ValueError(f"{folder} holds other files and no run; choose a new folder with -o.")
    if not resume:
        raise ValueError(f"{folder} holds a run already; continue it with --resume {folder}, or choose a new folder with -o.")
    saved = Recipe.load(folder / "recipe.yaml")
    there, here = (_flat(r.model_dump(mode="json", exclude={"seeds"})) for r in (saved, recipe))
    if other := [key for key in {**there, **here} if there.get(key) != here.get(key)]:
        key = other[0]
        raise ValueError(
            f"{folder} holds a run of another recipe ({key} is {there.get(key)!r} there and {here.get(key)!r} here); choose a new folder "
            "with -o, or delete that one."
        )
    remove_unfinished(folder)
    seeds = saved.seeds + [seed for seed in recipe.seeds if seed not in saved.seeds]
    recipe = recipe.model_copy(update={"seeds": seeds})
    finished = (folder / "summary.json").is_file() and seeds == saved.seeds
    return recipe, read_json(folder / "summary.json") if finished else None


def saved_recipe(folder: Path, *changes: dict[str, Any]) -> Recipe:
    """The recipe of a run that is to be continued, with changes as more seeds."""
    if not (folder / "recipe.yaml").is_file():
        raise ValueError(f"{folder} holds no run to continue: there is no recipe.yaml.")
    return Recipe.check(merge(Recipe.load(folder / "recipe.yaml").model_dump(mode="json"), *changes), "--set")


def environment(fabric: Fabric) -> dict[str, Any]:
    """The versions, the device and the command that a run was made with."""
    device = torch.cuda.get_device_name() if fabric.device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "reign": reign._version.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "torch_geometric", "lightning")},
        "device": device,
        "processes": fabric.world_size,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "command": sys.argv,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def describe(problem: Problem) -> dict[str, Any]:
    """What the models of a run predict, and a fingerprint of the graphs they learn from."""
    about = {"name": problem.name, "task": problem.task, "targets": problem.targets, "classes": problem.classes}
    return {**about, "fingerprint": problem.graphs.fingerprint()}


def read_about(folder: Path) -> dict[str, Any]:
    """What ``describe`` gave for a run that is finished."""
    if not (folder / "recipe.yaml").is_file():
        raise ValueError(f"{folder} holds no recipe.yaml, expected the folder of a run, as reign train makes it.")
    if not (folder / "summary.json").is_file():
        raise ValueError(f"the run in {folder} is not finished; continue it with: reign train --resume {folder}.")
    about: dict[str, Any] = read_json(folder / "problem.json")
    if missing := [key for key in ("task", "targets", "classes", "fingerprint") if key not in about]:
        raise ValueError(f"{folder / 'problem.json'} is damaged (it has no {missing[0]}).")
    return about


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in values.items():
        out |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return out
