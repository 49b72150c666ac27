"""Launch kernels, or compile many of them at a time without running them.

A training step has dozens of kernels, and each takes up to a second to compile. ``compile_ahead`` replaces launches by compilations in
several threads. The results of the kernels are then undefined, so such a step only serves to find the kernels to compile. The
sizes of tiles and the addresses of weights that kernels are launched with are computed here, too.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
import triton
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
        fixed = [param.is_constexpr for param in kernel.params]
        key = (
            kernel,
            tuple(arg if one else _kind(arg) for arg, one in zip(args, fixed, strict=False)),
            tuple(sorted(options.items())),
        )
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


class i64:
    """The type of a 64-bit integer in the signature of a kernel. Triton reads only the name."""


def block(channels: int) -> int:
    """The number of channels, rounded up to a power of two that matrix units support."""
    return max(16, triton.next_power_of_2(channels))


def parts(channels: int) -> tuple[int, int]:
    """The number of channels as a power of two and a tail, if their sum is smaller than the next power of two."""
    whole, half = block(channels), block(channels) // 2
    tail = block(channels - half)
    return (half, tail) if half >= 16 and half + tail < whole else (whole, 0)


def chunks(channels: int, most: int = 64) -> tuple[int, int]:
    """The number of channels that a program without products handles at a time, and the number of such programs.

    >>> chunks(64), chunks(96), chunks(110)
    ((64, 1), (32, 3), (64, 2))
    """
    size = min(most, block(channels))
    half = size // 2
    if channels > size and triton.cdiv(channels, half) * half < triton.cdiv(channels, size) * size:
        size = half
    return size, triton.cdiv(channels, size)


def apart(tensors: Sequence[Tensor]) -> int:
    """The distance, in numbers, between the starts of tensors at equal distances in memory."""
    ends = [tensor.data_ptr() // tensor.element_size() for tensor in tensors]
    gaps = {after - before for before, after in pairwise(ends)}
    assert len(gaps) <= 1, "the tensors of slots are not at equal distances in memory"
    return gaps.pop() if gaps else 0


def programs(rows: int, tile: int, most: int) -> int:
    """The number of programs that share the rows."""
    return max(1, min(most, triton.cdiv(rows, tile)))


def pointers(tensors: list[Tensor]) -> Tensor:
    """A table of the addresses of some weights, on their device. It is cached, because it cannot be made while a CUDA graph is captured."""
    key = tuple(t.data_ptr() for t in tensors)
    if key not in _POINTERS:
        _POINTERS[key] = torch.tensor(key, dtype=torch.int64, device=tensors[0].device)
    return _POINTERS[key]


_POINTERS: dict[tuple[int, ...], Any] = {}


def floats(like: Tensor, *shape: int) -> Tensor:
    """An empty tensor of float32 on the device of another: statistics and sums, also of rows in bfloat16."""
    return like.new_empty(shape, dtype=torch.float32)


def row_type(x: Tensor) -> torch.dtype:
    """How rows are stored: as they are, or within autocast in bfloat16."""
    return torch.bfloat16 if torch.is_autocast_enabled(x.device.type) else x.dtype


def precision(x: Tensor) -> str:
    """The precision of products: bfloat16 for rows that are stored so, otherwise TF32 or full float32, as set in torch."""
    if x.dtype == torch.bfloat16:
        return "bf16" if x.is_cuda else "rounded"
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def numbers(values: tuple[int, ...], device: torch.device) -> Tensor:
    """Small integers, cached on the device."""
    if (values, device) not in _NUMBERS:
        _NUMBERS[values, device] = torch.tensor(values, dtype=torch.int32, device=device)
    return _NUMBERS[values, device]


_NUMBERS: dict[tuple[tuple[int, ...], torch.device], Tensor] = {}
