"""Processes that read SMILES. They import RDKit and numpy, but not torch, so that they start quickly and need little memory."""

import json
import os
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import IO, Any, Generic, TypeVar

import numpy as np

from reign.smiles._features import Arrays
from reign.smiles._reading import KEY, BlockReader, Graphs, Rows

# -- messages: JSON, and the bytes of arrays; no message can run code ----------------------------------------------------


SIZES = struct.Struct("<QQ")  # the sizes of the JSON and of the arrays in bytes


def send_rows(file: IO[bytes], rows: Rows) -> None:
    """Send rows to read."""
    _send(file, [rows.texts, list(rows.wrong.items()), rows.numbers, rows.featurizers, rows.stereo, rows.alone])


def receive_rows(file: IO[bytes]) -> Rows | None:
    """Receive rows to read; None after the last ones."""
    if (message := _receive(file)) is None:
        return None
    (texts, wrong, numbers, featurizers, stereo, alone), _ = message
    return Rows(texts, dict(wrong), numbers, featurizers, stereo, alone)


def send_graphs(file: IO[bytes], graphs: Graphs) -> None:
    """Send graphs, the arrays of all of them end to end."""
    keys = np.frombuffer(b"".join(key.ljust(KEY, b"\0") for key in graphs.keys), dtype=np.uint8)
    arrays = [keys]
    if graphs.found:
        xs, edges, kinds = zip(*graphs.found.values(), strict=True)
        arrays += [np.concatenate(xs), np.concatenate(edges, axis=1), np.concatenate(kinds)]
    sizes = [(row, len(x), len(kinds)) for row, (x, _, kinds) in graphs.found.items()]
    _send(file, [list(graphs.errors.items()), sizes], arrays)


def receive_graphs(file: IO[bytes]) -> Graphs | None:
    """Receive graphs; None if the other process ended."""
    if (message := _receive(file)) is None:
        return None
    (errors, sizes), (keys, *whole) = message
    wrong, text = dict(errors), keys.tobytes()
    found: dict[int, Arrays] = {}
    node = edge = 0
    for row, nodes, edges in sizes:
        x, edge_index, edge_attr = whole
        found[row] = x[node : node + nodes], edge_index[:, edge : edge + edges], edge_attr[edge : edge + edges]
        node, edge = node + nodes, edge + edges
    each = [text[at : at + KEY] for at in range(0, len(text), KEY)]
    return Graphs([b"" if row in wrong else key for row, key in enumerate(each)], wrong, found)


def _send(file: IO[bytes], values: Any, arrays: Sequence[np.ndarray] = ()) -> None:
    head = json.dumps([values, [(array.dtype.str, array.shape) for array in arrays]]).encode()
    body = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    file.write(SIZES.pack(len(head), len(body)) + head + body)
    file.flush()


def _receive(file: IO[bytes]) -> tuple[Any, list[np.ndarray]] | None:
    sizes = file.read(SIZES.size)
    if len(sizes) < SIZES.size:
        return None
    expected = SIZES.unpack(sizes)
    head, body = map(file.read, expected)
    if (len(head), len(body)) != expected:  # the other process ended
        return None
    values, kinds = json.loads(head)
    arrays, at = [], 0
    for kind, shape in kinds:
        arrays.append(np.frombuffer(body, dtype=kind, count=int(np.prod(shape)), offset=at).reshape(shape))
        at += arrays[-1].nbytes
    return values, arrays


# -- processes -----------------------------------------------------------------------------------------------------------


BLOCK = 512  # number of rows that a process reads at a time
AHEAD = 2  # number of groups of rows that are read before they are needed
T = TypeVar("T")


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Process:
    """A process that reads blocks of rows one after another. Ctrl-C leaves it alone, and it ends with this one, even if this one is killed."""

    def __init__(self) -> None:
        path = os.pathsep.join(each or os.getcwd() for each in sys.path)
        env = os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-P", "-m", "reign.smiles"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, process_group=0)

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
