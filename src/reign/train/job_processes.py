"""Many models at once on a CPU: processes, each with its share of the threads."""

import signal
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
from typing import Any

import torch

from reign.train.build import make_problem
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import make_fabric
from reign.train.job import Job
from reign.train.members import members_of
from reign.train.run_folder import known_targets
from reign.train.settings.config import Recipe
from reign.train.too_large import problem_of_run

PAUSE = 2.0  # seconds between the events of batches that a process sends


def run_in_processes(jobs: Sequence[Job], callback: Callback, number: int) -> None:
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
        self.number, self.told = number, time.monotonic()

    def batch(self, label: str, done: int, total: int) -> None:
        """Send the event, unless one was sent a moment ago."""
        if time.monotonic() > self.told + PAUSE:
            _TOLD.put((self.number, "batch", (label, done, total)))
            self.told = time.monotonic()

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
        _PROBLEMS[key] = make_problem(recipe.data, known_targets=known_targets(Path(root)))[0]
    problem = problem_of_run(Path(root), _PROBLEMS[key])
    member = next(m for m in members_of(recipe, problem, Path(root)) if str(m.folder.relative_to(root)) == label)
    Job(recipe, member, Path(root), number, total).run(make_fabric(recipe.train.precision, "cpu"), _Teller(j))
