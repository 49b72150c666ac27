"""Threads that take turns: many runs at once on one GPU, each as if it were alone.

Only one thread at a time does anything in Python; the others wait for their turn, or for the GPU. A thread hands over its turn between steps,
and goes away while it waits for the GPU. What is global in a process (random numbers, number formats, the fast path) is each thread's own: it
finds everything as it left it.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from reign.kernels import fast_path_state

Ambient = tuple[Callable[[], Any], Callable[[Any], Any]]


class Stopped(BaseException):
    """Raised in a thread that is to stop where it is."""


class Turns:
    """The turns of some threads; who asks first is served first."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()
        self.stopping = False

    def take(self) -> None:
        """Wait for a turn."""
        with self._mutex:
            if not self._taken:
                self._taken = True
                return
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append(gate)
        gate.acquire()  # is released by the one before

    def give(self) -> None:
        """End a turn."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False

    @property
    def wanted(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    @contextmanager
    def joined(self) -> Iterator[None]:
        """A thread takes part from here on, and has its turn."""
        self.take()
        _LOCAL.turns = self
        try:
            yield
        finally:
            _LOCAL.turns = None
            self.give()


_LOCAL = threading.local()


@contextmanager
def away() -> Iterator[None]:
    """Others may have their turn within this context; afterwards everything is as this thread left it."""
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


def hand_over() -> None:
    """Let others have their turn, if somebody waits."""
    turns: Turns | None = getattr(_LOCAL, "turns", None)
    if turns is not None and (turns.wanted or turns.stopping):
        with away():
            pass


def wait_for(device: torch.device) -> None:
    """Wait until a GPU has done what this thread gave it; others may have their turn meanwhile."""
    if device.type == "cuda" and getattr(_LOCAL, "turns", None) is not None:
        done = torch.cuda.Event()
        done.record()
        with away():
            done.synchronize()


def _ambient() -> list[Ambient]:
    """What is global in a process: how to read it, and how to set it."""
    found: list[Ambient] = [
        (torch.get_rng_state, torch.set_rng_state),
        (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        fast_path_state,
    ]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found.append((torch.cuda.get_rng_state, torch.cuda.set_rng_state))
    return found
