"""Train many models at once: as threads that take turns on a GPU, or as processes on a CPU."""

import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
from typing import Any

import torch

from reign.train.build import make_problem
from reign.train.callbacks import Callback
from reign.train.devices import make_fabric
from reign.train.members import Member, members_of, train_member
from reign.train.processes import Fabric
from reign.train.recipe import Recipe
from reign.train.too_large import problem_of_run
from reign.train.turns import Turns

MOST = 8  # the largest number of models on one GPU
ROOM = 0.8  # the share of the free memory that another model may take


@dataclass
class Job:
    """The training of one model.

    Args:
        recipe: the settings of its run.
        member: the model.
        root: the folder of the run.
        number, total: the index of the model, and the number of models of the run.
    """

    recipe: Recipe
    member: Member
    root: Path
    number: int
    total: int
    error: BaseException | None = None

    @property
    def label(self) -> str:
        """A short name."""
        return str(self.member.folder.relative_to(self.root))

    def run(self, fabric: Fabric, callback: Callback) -> None:
        """Train the model."""
        callback.member(self.label, self.number, self.total)
        train_member(self.recipe, self.member, fabric, callback)


def run_jobs(jobs: Sequence[Job], fabric: Fabric, callback: Callback, number: int | None = None) -> None:
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
                job.run(fabric, callback)
            else:
                _keeping_errors(job, lambda job=job: job.run(fabric, callback))  # type: ignore[misc]
    elif fabric.device.type == "cuda":
        _Threads(jobs, fabric, callback, number).run()
    else:
        _in_processes(jobs, callback, number or 1)


def _keeping_errors(job: Job, work: Callable[[], None]) -> None:
    try:
        work()
    except (ValueError, OSError, RuntimeError) as error:
        job.error = error


# -- on a GPU ------------------------------------------------------------------------------------------------------


@dataclass
class _Threads:
    """Threads on one GPU, each with its own stream.

    The first thread starts alone. Its first epoch shows how much memory a model takes; more threads start while there is enough memory.
    """

    jobs: Sequence[Job]
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
            with self.turns.joined(), _own_stream(self.fabric.device):
                _keeping_errors(job, lambda: job.run(self.fabric, _Settling(callback, lambda: self._tell(self.settled, number))))
        except BaseException as error:  # interrupted, or a defect, which is raised when the others are done
            job.error = error
        self._tell(self.settled, number)
        self._tell(self.ended, number)

    def _tell(self, group: set[int], number: int) -> None:
        with self.news:
            group.add(number)
            self.news.notify_all()


def _own_stream(device: torch.device) -> AbstractContextManager[Any]:
    return torch.cuda.stream(torch.cuda.Stream(device)) if device.type == "cuda" else nullcontext()


class _Settling(Callback):
    """Calls a function when the first epoch is done, and forwards all events to another callback."""

    def __init__(self, callback: Callback, settled: Callable[[], None]) -> None:
        self.callback, self.settled = callback, settled

    def batch(self, label: str, done: int, total: int) -> None:
        """Pass it on."""
        self.callback.batch(label, done, total)

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        """Pass it on."""
        self.callback.epoch(row, epochs, improved)
        self.settled()

    def member(self, folder: str, number: int, total: int) -> None:
        """Pass it on."""
        self.callback.member(folder, number, total)

    def note(self, text: str) -> None:
        """Pass it on."""
        self.callback.note(text)


# -- on a CPU ------------------------------------------------------------------------------------------------------


def _in_processes(jobs: Sequence[Job], callback: Callback, number: int) -> None:
    """Train in several processes, each with its share of the threads. Their events are sent through a queue."""
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
                pool.submit(_train_one, j, job.recipe, str(job.root), job.label, job.number, job.total)
                for j, job in enumerate(jobs)
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
        self.number = number

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        """Send the event."""
        _TOLD.put((self.number, "epoch", (row, epochs, improved)))

    def member(self, folder: str, number: int, total: int) -> None:
        """Send the event."""
        _TOLD.put((self.number, "member", (folder, number, total)))

    def note(self, text: str) -> None:
        """Send the event."""
        _TOLD.put((self.number, "note", (text,)))


def _train_one(j: int, recipe: Recipe, root: str, label: str, number: int, total: int) -> None:
    """Train one model in this process. The data are read only once per process."""
    key = recipe.data.model_dump_json()
    if key not in _PROBLEMS:
        _PROBLEMS[key] = make_problem(recipe.data)[0]
    problem = problem_of_run(Path(root), _PROBLEMS[key])
    member = next(m for m in members_of(recipe, problem, Path(root)) if str(m.folder.relative_to(root)) == label)
    Job(recipe, member, Path(root), number, total).run(make_fabric(recipe.train.precision, "cpu"), _Teller(j))
