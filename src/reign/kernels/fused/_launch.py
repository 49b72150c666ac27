"""Launch kernels, or compile many of them at a time without running them.

A training step has dozens of kernels, and each takes up to a second to compile. ``compile_ahead`` replaces launches by compilations in
several threads. The results of the kernels are then undefined, so such a step only serves to find the kernels to compile.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

THREADS = 8


@dataclass(frozen=True)
class _Like:
    """The properties of a tensor that the compiler reads."""

    dtype: torch.dtype
    address: int

    def data_ptr(self) -> int:
        """The address."""
        return self.address


@dataclass
class _Compiler:
    """The kernels that are being compiled. While ``on`` is set, launches only compile."""

    on: bool = False
    known: set[Any] = field(default_factory=set)
    waiting: list[Future[Any]] = field(default_factory=list)
    first: Future[Any] | None = None
    threads: ThreadPoolExecutor | None = None

    def submit(self, kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Compile a kernel for these arguments in a thread, once."""
        key = kernel, tuple(map(_kind, args)), tuple(sorted(options.items()))
        if key in self.known:
            return
        self.known.add(key)
        device = next(arg.device for arg in args if isinstance(arg, Tensor))
        like = [
            _Like(arg.dtype, arg.data_ptr()) if isinstance(arg, Tensor) else arg for arg in args
        ]  # a tensor would keep its memory allocated

        def work() -> None:
            with torch.cuda.device(device):
                kernel.warmup(*like, grid=grid, **options)

        self.start(work)

    def start(self, work: Callable[[], None]) -> None:
        """Do something in a thread, after the very first work: that one lets the compiler read its own files, which all threads would do otherwise."""
        if self.threads is None:
            self.threads = ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1), "compile")
        first = self.first

        def later() -> None:
            if first is not None:
                first.exception()
            work()

        self.waiting.append(self.threads.submit(later))
        self.first = self.first or self.waiting[-1]

    def wait(self) -> None:
        """Wait for all compilations. Errors are ignored here because the launch itself raises them again."""
        for future in self.waiting:
            future.exception()
        self.waiting.clear()
        if self.threads is not None:
            self.threads.shutdown()
            self.threads = None


_COMPILER = _Compiler()


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **options: Any) -> None:
    """Launch a kernel, or only compile it within ``compile_ahead``."""
    if _COMPILER.on:
        _COMPILER.submit(kernel, grid, args, options)
    else:
        kernel[grid](*args, **options)


@contextmanager
def compile_ahead(wait: bool = True) -> Iterator[None]:
    """A context in which kernels are compiled and not run. With ``wait``, its end waits for all compilations, including earlier ones."""
    _COMPILER.on = True
    try:
        yield
    finally:
        _COMPILER.on = False
        if wait:
            _COMPILER.wait()


def _kind(arg: Any) -> Any:
    """The properties of an argument that determine how a kernel is compiled."""
    if isinstance(arg, Tensor):
        return arg.dtype, arg.data_ptr() % 16 == 0
    if isinstance(arg, int):
        return arg == 1, arg % 16 == 0, -(2**31) <= arg < 2**31
    return type(arg)
