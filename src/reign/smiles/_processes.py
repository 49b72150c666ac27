"""Processes that read SMILES. They import RDKit and numpy, but not torch, so that they start quickly and need little memory."""

import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Generic, TypeVar

from reign.smiles._messages import receive_graphs, send_rows
from reign.smiles._reading import BlockReader, Graphs, Rows

BLOCK = 512  # number of rows that a process reads at a time
AHEAD = 2  # number of groups of rows that are read before they are needed
T = TypeVar("T")


class Process:
    """A process that reads blocks of rows one after another. It ends with this one, even if this one is killed."""

    def __init__(self) -> None:
        path = os.pathsep.join(each or os.getcwd() for each in sys.path)
        env = os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-P", "-m", "reign.smiles"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)

    def read(self, rows: Rows) -> Graphs:
        """Read some rows."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            send_rows(self.process.stdin, rows)
            found = receive_graphs(self.process.stdout)
        except OSError:  # its end of the pipe is closed
            found = None
        if found is None:
            raise ProcessEnded
        return found

    def end(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.communicate()


class ProcessEnded(Exception):
    """A process ended before its time."""


class Reader(Generic[T]):
    """Reads rows in other processes while this one works; with no processes, in this one.

    Args:
        num_workers: number of processes.
    """

    def __init__(self, num_workers: int) -> None:
        self.num_workers = num_workers

    def read(self, groups: Iterable[tuple[T, Sequence[Rows]]]) -> Iterator[tuple[T, list[Graphs]]]:
        """The graphs of each group of blocks, in order. At most ``AHEAD`` groups are read before they are needed."""
        if not self.num_workers:
            reader = BlockReader()
            for name, blocks in groups:
                yield name, [reader.read(block) for block in blocks]
            return
        waiting: deque[tuple[T, list[Future[Graphs]]]] = deque()
        processes = [Process() for _ in range(self.num_workers)]
        idle: SimpleQueue[Process] = SimpleQueue()
        for process in processes:
            idle.put(process)

        def read(rows: Rows) -> Graphs:
            process = idle.get()
            try:
                return process.read(rows)
            finally:
                idle.put(process)

        pool = ThreadPoolExecutor(self.num_workers, "reign-smiles")  # a thread waits for each process
        try:
            for name, blocks in groups:
                waiting.append((name, [pool.submit(read, block) for block in blocks]))
                if len(waiting) > AHEAD:
                    first, futures = waiting.popleft()
                    yield first, [future.result() for future in futures]
            while waiting:
                first, futures = waiting.popleft()
                yield first, [future.result() for future in futures]
        except ProcessEnded:
            raise OSError(
                "a process that reads SMILES was killed, perhaps because there is too little memory; use fewer processes (--num-workers). "
                "Run the same command again to continue where this one ended."
            ) from None
        finally:
            for process in processes:
                process.process.kill()
            pool.shutdown(cancel_futures=True)
            for process in processes:
                process.end()
