"""Many models at once on one GPU: threads that take turns, each with its own stream."""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from reign.train.engine.callbacks import Callback, Forward
from reign.train.engine.execution import Fabric
from reign.train.engine.sharing import Turns
from reign.train.job import Job

MOST = 8  # the largest number of models on one GPU
SETTLED = 6  # number of batches after which a model has captured its first steps
ROOM = 0.8  # the share of the free memory that another model may take


@dataclass
class JobThreads:
    """Threads on one GPU, each with its own stream.

    The first thread starts alone. Its first steps show how much memory a model takes; more threads start while there is enough memory.
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
                job.try_run(self.fabric, _Settling(callback, lambda: self._tell(self.settled, number)))
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


class _Settling(Forward):
    """Calls a function after an epoch in which enough batches were seen that steps are captured."""

    def __init__(self, callback: Callback, settled: Callable[[], None]) -> None:
        super().__init__(callback)
        self.settled, self.seen = settled, 0

    def batch(self, label: str, done: int, total: int) -> None:
        """Count it."""
        self.seen += 1
        super().batch(label, done, total)

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        """Call the function if it is time."""
        super().epoch(row, epochs, improved)
        if self.seen >= SETTLED:
            self.settled()
