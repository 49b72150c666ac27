"""Train many models: one after the other, as threads that take turns on a GPU, or as processes on a CPU."""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
from typing import Any

import torch

from reign.data import Problem
from reign.disk import write_json
from reign.train.engine.callbacks import Callback, EpochRow, Forward
from reign.train.engine.execution import Fabric, make_fabric
from reign.train.engine.loop import fit
from reign.train.engine.sharing import Turns
from reign.train.runs.build import make_model, make_problem, problem_of_run, scale_descriptors, start_from
from reign.train.runs.results import write_predictions
from reign.train.runs.run import ModelFiles, Run
from reign.train.runs.scaler import Scale
from reign.train.settings.config import Recipe
from reign.train.settings.losses import as_values

# -- The models of a run: one for each seed, and in cross-validation one for each seed and fold ------------------------


@dataclass
class Member:
    """One model of a run, and the job to train it.

    Args:
        run, recipe: its run, and the settings of that.
        problem: the graphs, targets and splits that it learns from.
        seed, fold: its seed, and the index of its validation fold; None without cross-validation.
        number, total: its index, and the number of models of the run.
        error: why it could not be trained.
    """

    run: Run
    recipe: Recipe
    problem: Problem
    seed: int
    fold: int | None
    number: int
    total: int
    error: BaseException | None = None

    @property
    def folder(self) -> Path:
        """Its folder."""
        return self.run.model_folder(self.seed, self.fold)

    @property
    def label(self) -> str:
        """A short name."""
        return str(self.folder.relative_to(self.run.folder))

    def train(self, fabric: Fabric, callback: Callback) -> None:
        """Train it."""
        callback.member(self.label, self.number, self.total)
        train_member(self.recipe, self, fabric, callback)

    def try_run(self, fabric: Fabric, callback: Callback) -> None:
        """Train it. An ordinary error is not raised, but kept in ``error``."""
        try:
            self.train(fabric, callback)
        except (ValueError, OSError, RuntimeError) as error:
            self.error = error


def members_of(recipe: Recipe, problem: Problem, run: Run) -> list[Member]:
    """All models of a run, with the graphs that each learns from."""
    found: list[tuple[Problem, int, int | None]] = []
    for seed in recipe.seeds:
        own = problem if recipe.data.num_train is None else problem.fewer(recipe.data.num_train, seed)
        folds = [own] if recipe.folds is None else own.folds(recipe.folds, seed)
        found += [(fold, seed, None if recipe.folds is None else f) for f, fold in enumerate(folds)]
    return [Member(run, recipe, *each, number, len(found)) for number, each in enumerate(found)]


def train_member(recipe: Recipe, member: Member, fabric: Fabric, callback: Callback) -> None:
    """Train one model of a run."""
    files = ModelFiles(member.folder)
    model = make_model(recipe.model, member.problem, member.seed, recipe.train.loss)
    scale_descriptors(model, member.problem)
    if not files.checkpoint.is_file():
        start_from(model, recipe.train, member.problem, member.seed)
    if fabric.is_global_zero:
        write_json(files.splits, _named_splits(member.problem))
        Scale.of(member.problem, recipe.train.scale_targets).save(files.scale)
    fabric.barrier()
    result, predictions = fit(
        model, member.problem, recipe.train, seed=member.seed, folder=member.folder, fabric=fabric, callback=callback
    )
    if wrong := [split for split, out in predictions.items() if not bool(out.isfinite().all())]:
        raise ValueError(
            f"the model in {member.folder} predicts NaN or infinity for {wrong[0]} graphs; use a lower train.optimiser.lr, train.clip=1, "
            "or train.scale_targets=true, in a new folder."
        )
    if fabric.is_global_zero:
        shown = "test" if "test" in predictions else "val"
        if shown in predictions:
            ids = member.problem.splits[shown]
            write_predictions(files.predictions, member.problem, ids, as_values(predictions[shown], member.problem.task))
        write_json(files.result, result)
    fabric.barrier()


def _named_splits(problem: Problem) -> dict[str, list[Any]]:
    names = problem.names
    return {split: ids.tolist() if names is None else [names[i] for i in ids.tolist()] for split, ids in problem.splits.items()}


# -- Many models at once on a CPU: processes, each with its share of the threads ---------------------------------------


PAUSE = 2.0  # seconds between the events of batches that a process sends


def run_in_processes(jobs: Sequence[Member], callback: Callback, number: int) -> None:
    """Train models in several processes. Their events are sent through a queue."""
    context = get_context("spawn")
    told = context.Queue()
    threads = max(1, torch.get_num_threads() // number)
    listeners = [callback.job(job.label, j, len(jobs)) for j, job in enumerate(jobs)]

    def listen() -> None:
        while True:
            try:
                j, name, values = told.get(timeout=0.2)
            except Empty:
                return
            getattr(listeners[j], name)(*values)

    with ProcessPoolExecutor(min(number, len(jobs)), context, _begin, (told, threads)) as pool:
        try:
            futures: list[Future[None]] = [
                pool.submit(_train_one, j, job.recipe, str(job.run.folder), job.label) for j, job in enumerate(jobs)
            ]
            while not all(future.done() for future in futures):
                listen()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in (pool._processes or {}).values():
                process.terminate()
            raise
        listen()
    for job, future in zip(jobs, futures, strict=True):
        job.error = future.exception()


_TOLD: Any = None
_PROBLEMS: dict[str, Any] = {}


def _begin(told: Any, threads: int) -> None:
    global _TOLD
    _TOLD = told
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the first process handles Ctrl-C, and ends the others


class _Teller(Callback):
    """Sends the events to another process."""

    def __init__(self, number: int) -> None:
        self.number, self.told = number, time.monotonic()

    def batch(self, label: str, done: int, total: int) -> None:
        """Send the event, unless one was sent a moment ago."""
        if time.monotonic() > self.told + PAUSE:
            _TOLD.put((self.number, "batch", (label, done, total)))
            self.told = time.monotonic()

    def epoch(self, row: EpochRow, epochs: int, improved: bool) -> None:
        """Send the event."""
        _TOLD.put((self.number, "epoch", (row, epochs, improved)))

    def member(self, folder: str, number: int, total: int) -> None:
        """Send the event."""
        _TOLD.put((self.number, "member", (folder, number, total)))

    def note(self, text: str) -> None:
        """Send the event."""
        _TOLD.put((self.number, "note", (text,)))


def _train_one(j: int, recipe: Recipe, root: str, label: str) -> None:
    """Train one model in this process. The data are read only once per process."""
    run, key = Run(root), recipe.data.model_dump_json()
    if key not in _PROBLEMS:
        _PROBLEMS[key] = make_problem(recipe.data, known_targets=run.known_targets())[0]
    problem = problem_of_run(run, _PROBLEMS[key])
    member = next(m for m in members_of(recipe, problem, run) if m.label == label)
    member.train(make_fabric(recipe.train.precision, "cpu"), _Teller(j))


# -- Many models at once on one GPU: threads that take turns, each with its own stream ---------------------------------


MOST = 8  # the largest number of models on one GPU
SETTLED = 6  # number of batches after which a model has captured its first steps
ROOM = 0.8  # the share of the free memory that another model may take


@dataclass
class JobThreads:
    """Threads on one GPU, each with its own stream.

    The first thread starts alone. Its first steps show how much memory a model takes; more threads start while there is enough memory.
    """

    jobs: Sequence[Member]
    fabric: Fabric
    callback: Callback
    number: int | None
    turns: Turns = field(default_factory=Turns)
    news: threading.Condition = field(default_factory=threading.Condition)
    settled: set[int] = field(default_factory=set)  # jobs that have allocated all the memory that they need
    ended: set[int] = field(default_factory=set)
    started: int = 0
    largest: int = 0

    def run(self) -> None:
        """Start threads while there is enough memory, and wait for all."""
        threads: list[threading.Thread] = []
        try:
            while len(self.ended) < len(self.jobs):
                with self.news:
                    while self.started < len(self.jobs) and self._room():
                        threads.append(threading.Thread(target=self._work, args=(self.started,), daemon=True))
                        self.started += 1
                        threads[-1].start()
                    self.news.wait(0.5)
        except BaseException:
            self.turns.stopping = True
            raise
        finally:
            for thread in threads:
                thread.join()

    def _room(self) -> bool:
        """Whether another thread can start: the memory of all started threads is known, and enough is left for one more."""
        running = self.started - len(self.ended)
        if running == 0:
            return True
        if running >= (self.number or MOST) or len(self.settled) < self.started:
            return False
        if self.fabric.device.type != "cuda":
            return True
        free, _ = torch.cuda.mem_get_info(self.fabric.device)
        spare = torch.cuda.memory_reserved(self.fabric.device) - torch.cuda.memory_allocated(self.fabric.device)
        self.largest = max(self.largest, torch.cuda.memory_reserved(self.fabric.device) // running)
        return self.largest < ROOM * (free + spare)

    def _work(self, number: int) -> None:
        job, callback = self.jobs[number], self.callback.job(self.jobs[number].label, number, len(self.jobs))
        try:
            device = self.fabric.device
            with self.turns.joined(), torch.cuda.stream(torch.cuda.Stream(device)) if device.type == "cuda" else nullcontext():
                job.try_run(self.fabric, _Settling(callback, lambda: self._tell(self.settled, number)))
        except BaseException as error:  # interrupted, or a defect, which is raised when the others are done
            job.error = error
        self._tell(self.settled, number)
        self._tell(self.ended, number)

    def _tell(self, group: set[int], number: int) -> None:
        with self.news:
            group.add(number)
            self.news.notify_all()


class _Settling(Forward):
    """Calls a function after an epoch in which enough batches were seen that steps are captured."""

    def __init__(self, callback: Callback, settled: Callable[[], None]) -> None:
        super().__init__(callback)
        self.settled, self.seen = settled, 0

    def batch(self, label: str, done: int, total: int) -> None:
        """Count it."""
        self.seen += 1
        self.callback.batch(label, done, total)

    def epoch(self, row: EpochRow, epochs: int, improved: bool) -> None:
        """Call the function if it is time."""
        self.callback.epoch(row, epochs, improved)
        if self.seen >= SETTLED:
            self.settled()


# -- Train many models: one after the other, as threads that take turns on a GPU, or as processes on a CPU -------------


def run_jobs(jobs: Sequence[Member], fabric: Fabric, callback: Callback, number: int | None = None) -> None:
    """Train models, several at once. If one fails, its ``error`` is set and the others continue.

    Args:
        jobs: the models.
        fabric: devices and processes.
        callback: receives all events; if several models are trained at once, each uses the callback returned by ``job``.
        number: number of models to train at once; None for as many as fit on a GPU, and one on a CPU.
    """
    alone = fabric.world_size > 1 or len(jobs) <= 1 or len({job.recipe.train.precision for job in jobs}) > 1
    if alone or number == 1 or (number is None and fabric.device.type != "cuda"):
        for job in jobs:
            if fabric.world_size > 1:
                job.train(fabric, callback)
            else:
                job.try_run(fabric, callback)
    elif fabric.device.type == "cuda":
        JobThreads(jobs, fabric, callback, number).run()
    else:
        run_in_processes(jobs, callback, number or 1)
