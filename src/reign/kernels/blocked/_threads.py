"""Blocks of rows that stay in the cache, worked on by threads that sleep while there is nothing to do.

Each worker computes whole blocks with one thread of its own. Beside a parallel loop within every operation, that is few large tasks in place of many
small ones, and a worker whose core is taken by another process just does fewer blocks. What a block gives does not depend on who computed it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count

import torch

NUMBERS = 131_072  # of a block: half a megabyte in float32
SMALLEST, PIECES = 1024, 2  # a block has at least so many rows, if there are not at least so many blocks

_pools: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()


def block_rows(rows: int, channels: int) -> int:
    """The number of rows of a block; it depends on the sizes alone, and not on the machine."""
    return max(1, min(max(NUMBERS // max(channels, 1), SMALLEST), max(-(-rows // PIECES), SMALLEST)))


def each(number: int, work: Callable[[int], None]) -> None:
    """Call ``work`` with the numbers below ``number``, by as many threads as torch has."""
    workers = min(torch.get_num_threads(), number)
    if workers <= 1:
        for b in range(number):
            work(b)
        return
    places = count()

    def some() -> None:
        while (b := next(places)) < number:
            work(b)

    waiting: list[Future[None]] = [_pool(workers).submit(some) for _ in range(workers)]
    for future in waiting:
        future.result()


def _pool(workers: int) -> ThreadPoolExecutor:
    """Threads that compute with one thread each, and without gradients."""
    with _lock:
        if workers not in _pools:
            own = torch.get_num_threads()
            ready = threading.Barrier(workers + 1)

            def begin() -> None:
                torch.set_num_threads(1)  # of this thread
                torch.set_grad_enabled(False)
                ready.wait()

            _pools[workers] = ThreadPoolExecutor(workers, "reign", begin)
            for _ in range(workers):
                _pools[workers].submit(lambda: None)
            ready.wait()
            torch.set_num_threads(own)  # for threads that others start
        return _pools[workers]
