"""A run is a folder: everything that went into it, and everything that came out.

RUN/recipe.yaml          all settings
    environment.json     versions, device, command
    rows_left_out.csv    rows of a table that could not be read, and why
    summary.json         results over all seeds and folds
    predictions.csv      of the test graphs: mean and spread over seeds
    seed-0/              one model; seed-0/fold-3/ in cross-validation
        splits.json, metrics.csv, result.json, predictions.csv
        best/, last/     weights and arguments of the model, for ``from_pretrained``
        checkpoint.pt    to go on from
"""

import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import torch
from lightning.fabric import Fabric

import reign._version
from reign.data import Problem
from reign.disk import read_json, remove_unfinished, write_json
from reign.train.build import make_model, make_problem, try_model
from reign.train.callbacks import Watch
from reign.train.config import Recipe
from reign.train.devices import make_fabric
from reign.train.loop import fit
from reign.train.results import as_values, predicted, spread_of, summarise, write_left_out, write_predictions
from reign.train.target_scaler import Scale

T = TypeVar("T")


@dataclass(frozen=True)
class Member:
    """One model of a run."""

    seed: int
    fold: int | None
    folder: Path
    problem: Problem


def train(
    recipe: Recipe,
    folder: str | Path,
    *,
    resume: bool = False,
    fabric: Fabric | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Train all models of a recipe, and sum up.

    Args:
        recipe: what to do.
        folder: the run; a new or an empty one, unless ``resume``.
        resume: go on with what is there, and skip what is done; seeds may be added.
        fabric: devices and processes; one process on the best device if not given.
        watch: is told of all that happens.
    """
    folder, watch = Path(folder), watch or Watch()
    fabric = fabric or make_fabric(recipe.train.precision)
    recipe, done = _on_first(fabric, lambda: start(recipe, folder, resume))
    if done is not None:
        return done
    problem, report = make_problem(recipe.data)
    about = describe(problem)
    if (folder / "problem.json").is_file() and read_json(folder / "problem.json") != about:
        raise ValueError(
            f"the data of {problem.name} are not those that the run in {folder} began with; choose a new folder with -o."
        )
    members = list(_members(recipe, problem, folder))
    try_model(recipe, members[0].problem)
    fabric.barrier()
    if fabric.is_global_zero:
        (folder / "summary.json").unlink(missing_ok=True)  # it may be of fewer seeds
        recipe.save(folder / "recipe.yaml")
        if not (folder / "environment.json").is_file():
            write_json(folder / "environment.json", environment(fabric))
        write_json(folder / "problem.json", about)
        if report is not None:
            watch.table(report)
            write_left_out(folder / "rows_left_out.csv", report)
            if recipe.folds is not None and report.duplicates:
                watch.note("folds are drawn by rows: a molecule that occurs twice can be in two of them.")
    for m, member in enumerate(members):
        if not (member.folder / "result.json").is_file():
            watch.member(str(member.folder.relative_to(folder)), m, len(members))
            train_member(recipe, member, fabric, watch)
    fabric.barrier()
    results = [
        {"seed": m.seed, "fold": m.fold, "folder": str(m.folder.relative_to(folder)), **read_json(m.folder / "result.json")}
        for m in members
    ]
    summary = summarise(recipe, problem, folder, results)
    if fabric.is_global_zero:
        if "ensemble" in summary:
            values = predicted(problem, folder, results)
            write_predictions(folder / "predictions.csv", problem, problem.splits["test"], values.mean(0), spread_of(values))
        write_json(folder / "summary.json", summary)
    return summary


def start(recipe: Recipe, folder: Path, resume: bool) -> tuple[Recipe, dict[str, Any] | None]:
    """The recipe with all seeds that a run has or is to have, and its results if it is done; ``ValueError`` rather than mix two runs."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, expected a folder for the run.")
    if not folder.exists() or not any(folder.iterdir()):
        return recipe, None
    if not (folder / "recipe.yaml").is_file():
        raise ValueError(f"{folder} holds other files and no run; choose a new folder with -o.")
    if not resume:
        raise ValueError(f"{folder} holds a run already; go on with it by --resume {folder}, or choose a new folder with -o.")
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


def _on_first(fabric: Fabric, work: Callable[[], T]) -> T:
    """Do something in the first process alone, and tell the others what came of it."""
    found: Any = None
    if fabric.is_global_zero:
        try:
            found = work()
        except ValueError as error:
            found = error
    if fabric.world_size > 1:
        found = fabric.broadcast(found)
    if isinstance(found, ValueError):
        raise found
    return found


def train_member(recipe: Recipe, member: Member, fabric: Fabric, watch: Watch) -> None:
    """Train one model of a run."""
    model = make_model(recipe.model, member.problem, member.seed)
    if fabric.is_global_zero:
        write_json(member.folder / "splits.json", _named_splits(member.problem))
        scale = Scale.of(member.problem, recipe.train.scale_targets)
        write_json(member.folder / "scale.json", {"mean": scale.mean.tolist(), "deviation": scale.deviation.tolist()})
    fabric.barrier()
    result, predictions = fit(
        model, member.problem, recipe.train, seed=member.seed, folder=member.folder, fabric=fabric, watch=watch
    )
    if fabric.is_global_zero:
        shown = "test" if "test" in predictions else "val"
        if shown in predictions:
            ids = member.problem.splits[shown]
            write_predictions(
                member.folder / "predictions.csv", member.problem, ids, as_values(predictions[shown], member.problem.task)
            )
        write_json(member.folder / "result.json", result)
    fabric.barrier()


def environment(fabric: Fabric) -> dict[str, Any]:
    """Where and with what a run was made."""
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
    """What a model of a run predicts."""
    about = {"name": problem.name, "task": problem.task, "targets": problem.targets, "classes": problem.classes}
    return {**about, "fingerprint": problem.graphs.fingerprint()}


def _members(recipe: Recipe, problem: Problem, folder: Path) -> Iterator[Member]:
    for seed in recipe.seeds:
        own = problem if recipe.data.num_train is None else problem.fewer(recipe.data.num_train, seed)
        if recipe.folds is None:
            yield Member(seed, None, folder / f"seed-{seed}", own)
            continue
        for f, fold in enumerate(own.folds(recipe.folds, seed)):
            yield Member(seed, f, folder / f"seed-{seed}" / f"fold-{f}", fold)


def _named_splits(problem: Problem) -> dict[str, list[Any]]:
    names = problem.names
    return {split: ids.tolist() if names is None else [names[i] for i in ids.tolist()] for split, ids in problem.splits.items()}


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in values.items():
        out |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return out
