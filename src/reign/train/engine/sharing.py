"""Threads that take turns: many runs at once on one GPU, each with the same result as if it ran alone.

Only one thread at a time runs Python code; the others wait for their turn or for the GPU. A thread hands over its turn between steps, and
gives it up while it waits for the GPU. The global state of a process (random numbers, number formats, the fast path) is saved and restored
for each thread.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from reign.kernels import fast_path_state
from reign.train.engine.execution import gpu_generator

Ambient = tuple[Callable[[], Any], Callable[[Any], Any]]


class Stopped(BaseException):
    """Raised in a thread to stop it."""


class Turns:
    """The turns of some threads, in the order in which they ask."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()
        self.stopping, self.members = False, 0

    def take(self) -> None:
        """Wait for a turn."""
        with self._mutex:
            if not self._taken:
                self._taken = True
                return
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append(gate)
        gate.acquire()  # the thread before this one releases it

    def give(self) -> None:
        """End a turn."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False

    @property
    def wanted(self) -> bool:
        """Whether another thread is waiting."""
        return bool(self._waiting)

    @contextmanager
    def joined(self) -> Iterator[None]:
        """A context in which the thread takes part and has its turn."""
        self.take()
        _LOCAL.turns = self
        self.members += 1
        try:
            if torch.cuda.is_available():  # a graph keeps the state of its random numbers, so threads must not share one
                torch.cuda.init()
                gpu_generator().graphsafe_set_state(gpu_generator().clone_state())
            yield
        finally:
            _LOCAL.turns = None
            self.members -= 1
            self.give()


_LOCAL = threading.local()


@contextmanager
def away() -> Iterator[None]:
    """A context in which other threads may have their turn. Afterwards the global state of this thread is restored."""
    turns: Turns | None = getattr(_LOCAL, "turns", None)
    if turns is None:
        yield
        return
    if turns.stopping:
        raise Stopped
    mine = [get() for get, _ in _ambient()]
    turns.give()
    try:
        yield
    finally:
        turns.take()
        for (_, put), value in zip(_ambient(), mine, strict=True):
            put(value)


def num_sharing() -> int:
    """The number of threads that take turns, this one among them; 1 if it does not take turns."""
    turns: Turns | None = getattr(_LOCAL, "turns", None)
    return 1 if turns is None else turns.members


def hand_over() -> None:
    """Let another thread have its turn, if one is waiting."""
    turns: Turns | None = getattr(_LOCAL, "turns", None)
    if turns is not None and (turns.wanted or turns.stopping):
        with away():
            pass


def wait_for(device: torch.device) -> None:
    """Wait until a GPU has finished the work of this thread; meanwhile other threads may have their turn."""
    if device.type == "cuda" and getattr(_LOCAL, "turns", None) is not None:
        done = torch.cuda.Event()
        done.record()
        with away():
            done.synchronize()


def _ambient() -> list[Ambient]:
    """The global state of a process: functions that read it and set it."""
    found: list[Ambient] = [
        (torch.get_rng_state, torch.set_rng_state),
        (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        fast_path_state,
    ]
    if torch.cuda.is_available():
        found.append((gpu_generator().graphsafe_get_state, gpu_generator().graphsafe_set_state))
    return found
