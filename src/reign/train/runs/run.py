"""A run on disk. This module alone knows what the folder of a run holds:

RUN/recipe.yaml          all settings
    problem.json         the task, targets and classes, and a fingerprint of the graphs
    environment.json     versions, commit, device, command, checksum of the weights that it started from
    rows_left_out.csv    rows of a table that could not be read, and why
    table.json           what was found in a table before training: these rows, repeated molecules, contradicting labels, warnings
    summary.json         results over all seeds and folds; the last file that is written
    calibration.json     calibration of the uncertainties on the validation rows of a table
    domain.json          ranges of the training molecules, for the warnings of reign predict
    training.csv         training molecules of a table, for reign predict --nearest
    forest.safetensors   the forest that the models of a table are compared with; in the folder of each model if these learn from other rows
    gp.safetensors       the Gaussian process, likewise
    memory.json          peak memory
    report.html          a page about the results; its figures are in figures/
    predictions.csv      predictions for the test graphs: mean and spread over seeds
    seed-0/              one model; seed-0/fold-3/ in cross-validation
        splits.json, scale.json, metrics.csv, result.json, predictions.csv
        best/, last/     weights and arguments of the model, for ``from_pretrained``
        last_good/       weights before a loss that was not finite
        checkpoint.pt    the state to continue from

While a process writes to the folder, it also holds a file .lock.
"""

import errno
import hashlib
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, TypeVar

import torch
from pydantic import Field, model_validator

import reign._version
from reign.data import TASKS, Problem
from reign.disk import is_unfinished, read_record, remove_unfinished
from reign.nn import Model
from reign.train.engine.execution import Fabric
from reign.train.predict.calibration import Calibration
from reign.train.runs.results import OPTIONAL, Content, MemberResult, Predictions, Summary, read_curves
from reign.train.runs.scaler import Scale
from reign.train.settings.config import Recipe
from reign.train.settings.metrics import METRICS
from reign.train.settings.yaml import RawSettings, merge

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl
    import resource

LOCK = ".lock"
R = TypeVar("R", bound="Run")


class RunFiles:
    """The paths of the files in the folder of a run."""

    def __init__(self, folder: Path) -> None:
        self.recipe = folder / "recipe.yaml"
        self.problem = folder / "problem.json"
        self.environment = folder / "environment.json"
        self.left_out = folder / "rows_left_out.csv"
        self.table = folder / "table.json"
        self.summary = folder / "summary.json"
        self.calibration = folder / "calibration.json"
        self.domain = folder / "domain.json"
        self.training = folder / "training.csv"
        self.memory = folder / "memory.json"
        self.report = folder / "report.html"
        self.predictions = folder / "predictions.csv"


class ModelFiles:
    """The paths of the files in the folder of one model of a run, or of a single training."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.splits = folder / "splits.json"
        self.scale = folder / "scale.json"
        self.metrics = folder / "metrics.csv"
        self.result = folder / "result.json"
        self.predictions = folder / "predictions.csv"
        self.checkpoint = folder / "checkpoint.pt"
        self.last_good = folder / "last_good"

    def weights(self, which: str) -> Path:
        """The folder of the weights of the "best" or the "last" epoch."""
        return self.folder / which


class SavedProblem(Content):
    """The task, targets and classes of a run, and fingerprints of the graphs and of the weights of rows.

    ``too_large`` has the rows of a table that were left out because they are too large for the memory, with the reasons.
    """

    name: str = ""
    task: str
    targets: list[str]
    classes: list[str]
    weights: str = OPTIONAL
    fingerprint: str
    too_large: Any = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> "SavedProblem":
        if self.task not in TASKS or not self.targets:
            raise ValueError(f"it has the task {self.task!r} and the targets {self.targets!r}")
        if len(set(self.targets)) != len(self.targets) or (self.task == "multiclass") != bool(self.classes):
            raise ValueError(f"it has the targets {self.targets!r} and the classes {self.classes!r}")
        rows = self.too_large
        if not isinstance(rows, dict) or not all(isinstance(reason, str) for reason in rows.values()):
            raise ValueError(f"too_large is {rows!r:.80}, expected rows with reasons")
        return self

    @classmethod
    def of(cls, problem: Problem, too_large: dict[str, str]) -> "SavedProblem":
        """That of a problem without these rows."""
        about: dict[str, object] = {
            "name": problem.name,
            "task": problem.task,
            "targets": problem.targets,
            "classes": problem.classes,
        }
        if problem.weights is not None:
            about["weights"] = hashlib.sha256(problem.weights.numpy().tobytes()).hexdigest()[:16]
        about["fingerprint"] = problem.graphs.fingerprint()
        return cls.model_validate({**about, "too_large": too_large} if too_large else about)

    @property
    def labels(self) -> list[str]:
        """The names of the predicted columns: targets, or classes."""
        return self.classes or self.targets


class Environment(Content):
    """The versions, the commit, the device and the command that a run was made with."""

    reign: str = ""
    python: str = ""
    torch: str = ""
    torch_geometric: str = ""
    lightning: str = ""
    commit: str | None = None
    device: str = ""
    processes: int = 1
    threads: int = OPTIONAL
    cores: int | None = None
    command: list[str] = Field(default_factory=list)
    date: str = ""
    start: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def present(cls, fabric: Fabric, start: dict[str, str] | None = None) -> "Environment":
        """That of this process. ``start`` says which weights the training starts from, see ``build.origin_of``."""
        device = torch.cuda.get_device_name() if fabric.device.type == "cuda" else platform.processor() or platform.machine()
        packages: dict[str, Any] = {name: version(name) for name in ("torch", "torch_geometric", "lightning")}
        origin: dict[str, Any] = {"start": start} if start else {}
        return cls(
            reign=reign._version.__version__,
            python=platform.python_version(),
            **packages,
            commit=commit_of(Path(reign._version.__file__).parents[2]),
            device=device,
            processes=fabric.world_size,
            threads=torch.get_num_threads(),
            cores=os.cpu_count(),
            command=list(sys.argv),
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            **origin,
        )


class TableReport(Content):
    """What was found in a table before training, as ``reign.data.molecules.Report.record`` writes it."""

    class Repeated(Content):
        """A molecule in several splits, with its rows."""

        smiles: Any
        rows: Any

    class Contradicting(Repeated):
        """A molecule with different labels of a target."""

        target: Any
        labels: Any

    lines: list[str]
    warnings: list[str]
    left_out: dict[str, object]
    in_several_splits: list[Repeated]
    contradicting_labels: list[Contradicting]


class Memory(Content):
    """The peak memory in bytes of a process, and that on a GPU."""

    device_bytes: int = OPTIONAL
    host_bytes: int = OPTIONAL

    @classmethod
    def peak(cls, device: torch.device) -> "Memory":
        """The peak memory of this process or one of its child processes; on Windows, which does not say it like this, only that on a GPU."""
        found = {"device_bytes": torch.cuda.max_memory_allocated(device)} if device.type == "cuda" else {}
        if sys.platform != "win32":
            largest = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
            found["host_bytes"] = largest * (1 if sys.platform == "darwin" else 1024)
        return cls(**found)


class SavedModel:
    """One model of a run, read from its folder.

    Args:
        folder: its folder.
        run: its run.
    """

    def __init__(self, folder: Path, run: "Run") -> None:
        self.folder, self.run, self.files = folder, run, ModelFiles(folder)

    @property
    def splits(self) -> dict[str, Any]:
        """The names or indices of the graphs of each split; empty for an exported model."""
        return read_record(self.files.splits) if self.files.splits.is_file() else {}

    @property
    def scale(self) -> Scale:
        """The scale of its targets."""
        return Scale.load(self.files.scale)

    @property
    def history(self) -> dict[str, list[float]]:
        """The metrics of every epoch, by column."""
        return read_curves(self.files.metrics)

    def curve(self, column: str) -> list[float]:
        """One of the metrics for every epoch."""
        history = self.history
        if column not in history:
            raise ValueError(f"{self.files.metrics} is damaged (it has no column '{column}').")
        return history[column]

    @property
    def predictions(self) -> Predictions | None:
        """Its predictions for the validation graphs, or for the test graphs if there are some; None if there are none."""
        if not self.files.predictions.is_file():
            return None
        split = "test" if "test" in self.splits else "val"
        return Predictions.read(self.files.predictions, split, self.run.problem.targets, self.run.problem.classes)

    def model(self) -> Model:
        """The model with the weights that the run reports."""
        return Model.from_pretrained(self.files.weights(self.run.summary.report))


class Run:
    """The folder of a run. What it holds is read once, when it is first asked for; if a file is damaged, ``ValueError`` names it.

    Args:
        folder: the folder, which need not exist.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.files = RunFiles(self.folder)

    @classmethod
    def open(cls: type[R], folder: str | Path) -> R:
        """A finished run."""
        run = cls(folder)
        if not run.folder.exists():
            raise ValueError(f"the run {folder} does not exist.")
        if not run.started:
            inside = next((place for place in sorted(run.folder.glob("*")) if Run(place).started), None)
            hint = "" if inside is None else f" There is one in {inside}."
            raise ValueError(f"{folder} holds no {run.files.recipe.name}, expected the folder of a run made by reign train.{hint}")
        if not run.finished:
            raise ValueError(f"the run in {folder} is not finished; continue it with: reign train --resume {folder}.")
        _ = run.problem
        return run

    @classmethod
    def inside(cls, folder: Path) -> "list[Run]":
        """The finished runs in a folder and in the folders in it, or the folder itself if it is a run."""
        if cls(folder).started:
            return [cls(folder)]
        return [cls(place) for depth in ("*", "*/*") for place in sorted(folder.glob(depth)) if cls(place).finished]

    @property
    def started(self) -> bool:
        """Whether there is a run in the folder, finished or not."""
        return self.files.recipe.is_file()

    @property
    def finished(self) -> bool:
        """Whether all its models are trained and summarised."""
        return self.started and self.files.summary.is_file()

    # -- what it holds ---------------------------------------------------------------------------------------------

    @cached_property
    def recipe(self) -> Recipe:
        """Its settings."""
        return Recipe.load(self.files.recipe)

    @cached_property
    def problem(self) -> SavedProblem:
        """Its task, targets and classes."""
        return SavedProblem.read(self.files.problem)

    @cached_property
    def summary(self) -> Summary:
        """Its results. They must not refer to folders outside the run."""
        file = self.files.summary
        found = Summary.read(file, "; delete it and continue the run with --resume, which writes it anew")
        for member in found.members:
            if not (self.folder / member.folder).resolve().is_relative_to(self.folder.resolve()):
                raise ValueError(f"{file} refers to the folder {member.folder}, which is outside the run; do not use this run.")
        return found

    @cached_property
    def environment(self) -> Environment:
        """The versions, the device and the command that it was made with; empty if they are not known."""
        return Environment.read_if_there(self.files.environment)

    @cached_property
    def memory(self) -> Memory:
        """Its peak memory; empty if it is not known."""
        return Memory.read_if_there(self.files.memory)

    @cached_property
    def table(self) -> TableReport | None:
        """The report on the table that it learned from; None for a data set, and for runs of older versions."""
        return TableReport.read(self.files.table) if self.files.table.is_file() else None

    @cached_property
    def calibration(self) -> Calibration:
        """The calibration of its uncertainties; empty if there is none."""
        return Calibration.load(self.files.calibration)

    @cached_property
    def members(self) -> list[SavedModel]:
        """Its models."""
        return [self.member(member) for member in self.summary.members]

    def member(self, result: MemberResult) -> SavedModel:
        """One of its models."""
        return SavedModel(self.folder / result.folder, self)

    def model_folder(self, seed: int, fold: int | None) -> Path:
        """The folder of one of its models, trained or not."""
        return self.folder / f"seed-{seed}" / ("" if fold is None else f"fold-{fold}")

    def partner_of(self, model_folder: Path, name: str) -> Path:
        """The file of the forest or the Gaussian process ("gp") that learns from the same rows as a model of the run."""
        own = self.recipe.folds is not None or self.recipe.data.num_train is not None
        return (model_folder if own else self.folder) / f"{name}.safetensors"

    @property
    def best_member(self) -> SavedModel:
        """The model with the best validation metric."""
        best: MemberResult | None = None
        report = self.summary.report
        for member in self.summary.members:
            if "val" not in member.of(report):
                raise ValueError(f"{self.folder} has no validation metric by which one of its models is the best.")
            if best is None or METRICS[self.summary.metric].better(member.of(report)["val"], best.of(report)["val"]):
                best = member
        assert best is not None
        return self.member(best)

    @cached_property
    def predictions(self) -> Predictions | None:
        """Its predictions for the test graphs; otherwise those of its models for the validation graphs, of the first model or of all folds of a seed."""
        if self.files.predictions.is_file():
            return Predictions.read(self.files.predictions, "test", self.problem.targets, self.problem.classes)
        first = self.members[0].folder
        fold = first.name.startswith("fold-")
        same_seed = [m for m in self.members if m.folder == first or (fold and m.folder.parent == first.parent)]
        parts = [part for part in (m.predictions for m in same_seed) if part is not None]
        return Predictions.joined(parts) if parts else None

    # -- to train it -----------------------------------------------------------------------------------------------

    def create(self, recipe: Recipe, resume: bool) -> tuple[Recipe, Summary | None]:
        """The recipe with all seeds of the run, old and new, and the results if all are done. Raise ``ValueError`` if two runs would be mixed."""
        folder = self.folder
        if all(file.name == LOCK or is_unfinished(file) for file in folder.iterdir()):  # new, or killed before it started
            remove_unfinished(folder)
            return recipe, None
        if not self.started:
            raise ValueError(f"{folder} is not empty and holds no run; choose a new folder with -o.")
        if not resume:
            raise ValueError(f"{folder} already holds a run; continue it with --resume {folder}, or choose a new folder with -o.")
        saved = self.recipe
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
        return recipe, self.summary if self.finished and seeds == saved.seeds and not more else None

    def continued(self, *changes: RawSettings) -> Recipe:
        """The recipe of a run that is to be continued, with changes such as more seeds."""
        if not self.started:
            raise ValueError(f"{self.folder} holds no run to continue: there is no {self.files.recipe.name}.")
        return Recipe.check(merge(self.recipe.model_dump(mode="json"), *changes), "--set")

    def known_targets(self) -> list[str]:
        """The targets of a run that was started before; none for a new run."""
        return list(self.problem.targets) if self.files.problem.is_file() else []


def _flat(values: RawSettings, prefix: str = "") -> RawSettings:
    out: RawSettings = {}
    for key, value in values.items():
        out |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return out


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


# -- the lock -------------------------------------------------------------------------------------------------------------------


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Lock the folder of a run. If another process holds the lock, ``ValueError`` names that process.

    The operating system locks the file ``.lock``, and releases the lock when the process ends for any reason. The folder is
    created if it does not exist, and removed again if nothing was written to it.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, expected a folder for the run.")
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = _take(folder / LOCK, folder)
    except OSError as error:
        raise ValueError(f"{folder} cannot be used for the run ({error.strerror or error}).") from None
    try:
        yield
    finally:
        with suppress(OSError):
            (folder / LOCK).unlink()
        file.close()
        with suppress(OSError):  # folders that are not empty are kept
            for place in new:
                place.rmdir()


def _take(path: Path, folder: Path) -> IO[str]:
    while True:
        file = path.open("a+", encoding="utf-8")
        if not _lock(file):
            file.seek(0)
            holder = file.read().strip() or "another process"
            file.close()
            raise ValueError(f"{holder} is writing to {folder}; wait until it is done, or choose another folder with -o.")
        # the previous holder may have removed the file after we opened it and before we locked it
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                break
        file.close()
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()
    return file


def _lock(file: IO[str]) -> bool:
    """Lock a file. Return whether this succeeded, that is, no other process holds the lock."""
    try:
        if sys.platform == "win32":
            file.seek(2**30)  # far behind the text, which other processes must be able to read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True
