"""Blocks of rows that stay in the cache, worked on by threads that sleep while there is nothing to do.

A parallel loop within every operation waits for its slowest thread each time. These are few large tasks: the calling thread takes block after block,
and helpers take others as soon as they get a core. A helper whose core is busy with another process just comes too late. What a block gives does
not depend on who computed it, and each computes with one thread of its own. How rows are cut is cached with the index maps of a batch.

Products of matrices with many rows are computed in two parts whose numbers of rows come again in the next batch, because oneDNN prepares itself for every number
of rows that it has not seen, for 0.4 to 1 ms. So where it computes products (see ``number_format``), the rows after the last multiple of ``EVEN`` are filled up with
zeros.
"""

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

import torch
from torch import Tensor

NUMBERS = 262_144  # of a block: a megabyte in float32
SMALLEST = 1024  # rows of a block, at least, where there are as many
EVEN = 256

_pools: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()
_here = threading.local()  # the number of threads for blocks, where it is not that of torch


def block_rows(rows: int, channels: int) -> int:
    """The number of rows of a block: all blocks but the last are as large, and two threads get about as many.

    It depends on the sizes alone, and not on the machine. Batches of about the same size have blocks of the same size (see ``multiply``).
    """
    blocks = -(-rows // max(NUMBERS // max(channels, 1), SMALLEST))
    if rows >= 2 * SMALLEST:
        blocks += blocks % 2
    size = max(1, -(-rows // max(blocks, 1)))
    return size if size <= EVEN else -(-size // EVEN) * EVEN


@contextmanager
def threads_for_blocks_only() -> Iterator[None]:
    """Within this context all of torch's threads work on blocks, and single operations outside of blocks have one thread.

    The threads of single operations wait for each other busily, so that next to another process they take many times as long.
    """
    threads = torch.get_num_threads()
    before = getattr(_here, "threads", None)
    if before is not None or threads == 1:
        yield
        return
    _here.threads = threads
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _here.threads = None
        torch.set_num_threads(threads)


def both(number: int, work: Callable[[int], None], beside: Sequence[Callable[[], None]]) -> None:
    """Call ``work`` as ``each`` does, and do some other work at the same time."""
    each(len(beside) + number, lambda n: beside[n]() if n < len(beside) else work(n - len(beside)))


def each(number: int, work: Callable[[int], None]) -> None:
    """Call ``work`` with the numbers below ``number``, by as many threads as torch has, this one among them."""
    own = torch.get_num_threads()
    threads = getattr(_here, "threads", None) or own
    helpers = _pool(threads - 1) if threads > 1 and number > 1 else None
    places = count()

    def some() -> None:
        while (b := next(places)) < number:
            work(b)

    waiting: list[Future[None]] = []
    if own > 1:
        torch.set_num_threads(1)
    try:
        if helpers is not None:
            waiting = [helpers.submit(some) for _ in range(min(threads, number) - 1)]
        some()
    finally:
        begun = [future for future in waiting if not future.cancel()]
        next(place for place in places if place >= number)  # after an error nobody begins another block
        if own > 1:
            torch.set_num_threads(own)
        errors = [error for future in begun if (error := future.exception()) is not None]
    if errors:
        raise errors[0]


def _pool(helpers: int) -> ThreadPoolExecutor:
    """Threads that compute with one thread each, and without gradients."""
    with _lock:
        if helpers not in _pools:
            own = torch.get_num_threads()
            ready = threading.Barrier(helpers + 1)

            def begin() -> None:
                torch.set_num_threads(1)
                assert torch.get_num_threads() == 1  # from now on in this thread, as it has asked before the number changes again
                torch.set_grad_enabled(False)
                ready.wait()

            _pools[helpers] = ThreadPoolExecutor(helpers, "reign", begin)
            for _ in range(helpers):
                _pools[helpers].submit(lambda: None)
            ready.wait()
            torch.set_num_threads(own)  # also for threads that others start
        return _pools[helpers]


T = TypeVar("T")


def cached(owner: Any, key: Hashable, make: Callable[[], T]) -> T:
    """A value that belongs to some index maps, made on first use, and outside inference mode, so that training can use it, too.

    Several threads may make it at the same time; one of the equal values stays.
    """
    values: dict[Hashable, T] = vars(owner).setdefault("_cached", {})
    if key not in values:
        with torch.inference_mode(False):
            values[key] = make()
    return values[key]


def multiply(x: Tensor, weight: Tensor, out: Tensor, bias: Tensor | None = None, more: bool = False) -> Tensor:
    """Write ``x @ weight``, perhaps with a bias, of one row or as many as ``x`` has; or add the product to what is there (``more``)."""
    cut = _cut(x.size(0))
    if cut == x.size(0):
        _write(x, weight, out, bias, more)
        return out
    if cut:
        _write(x[:cut], weight, out[:cut], bias if bias is None or bias.dim() == 1 else bias[:cut], more)
    last, into = torch.mm(_filled(x[cut:]), weight)[: x.size(0) - cut], out[cut:]
    if more:
        into.add_(last)
    elif bias is None:
        into.copy_(last)
    else:
        torch.add(last, bias if bias.dim() == 1 else bias[cut:], out=into)
    return out


def _write(x: Tensor, weight: Tensor, out: Tensor, bias: Tensor | None, more: bool) -> None:
    if more:
        out.addmm_(x, weight)
    elif bias is None:
        torch.mm(x, weight, out=out)
    else:
        torch.addmm(bias, x, weight, out=out)


def products_of_rows(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """Write ``g.t() @ x``, the gradient of a weight."""
    cut = _cut(x.size(0))
    torch.mm(g[:cut].t(), x[:cut], out=out)
    return out if cut == x.size(0) else out.addmm_(_filled(g[cut:]).t(), _filled(x[cut:]))


def _cut(rows: int) -> int:
    return rows // EVEN * EVEN if torch.get_float32_matmul_precision() == "medium" else rows


def _filled(x: Tensor) -> Tensor:
    out = x.new_zeros(EVEN, x.size(1))
    out[: x.size(0)] = x
    return out
