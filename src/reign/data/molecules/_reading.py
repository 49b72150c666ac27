"""Read blocks of SMILES in several processes. Rows in which a model sees the same graph are found by a key.

The key of a graph is a hash of its features with the atoms in the order of the canonical SMILES. Two graphs with the same key are isomorphic, with all
features, so that a model predicts the same for them. The same molecule, written in another way, has the same key, unless it has chiral centres: the
feature for chirality depends on the order in which the neighbours of an atom are written.
"""

import hashlib
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from typing import Generic, TypeVar

import numpy as np
import torch

from reign.data.molecules._descriptors import Descriptors
from reign.data.molecules._features import arrays_of
from reign.data.molecules._smiles import LARGE, Molecule, in_one_line

BLOCK = 512  # number of rows that a process reads at a time
AHEAD = 2  # number of groups of rows that are read before they are needed
T = TypeVar("T")
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]  # x, edge_index, edge_attr


@dataclass(frozen=True)
class Rows:
    """Some rows to read.

    Args:
        texts: the SMILES, without white space around them.
        wrong: rows that must not be read, with the reasons.
        numbers: the numbers of each row that are descriptors.
        descriptors: the descriptors that the model uses.
    """

    texts: list[str]
    wrong: dict[int, str]
    numbers: list[list[float]]
    descriptors: Descriptors


@dataclass(frozen=True)
class Graphs:
    """The graphs of some rows.

    Args:
        keys: the key of each row; empty if the row has an error.
        errors: the reasons for the rows that cannot be read.
        found: the different graphs by key, each with the SMILES that it was read from.
    """

    keys: list[bytes]
    errors: dict[int, str]
    found: dict[bytes, tuple[str, Arrays]]


def read_block(rows: Rows) -> Graphs:
    """Read some rows."""
    keys, errors = [b""] * len(rows.texts), dict(rows.wrong)
    found: dict[bytes, tuple[str, Arrays]] = {}
    seen: dict[str, bytes] = {}  # canonical SMILES without chirality: the features are the same, too
    for row, text in enumerate(rows.texts):
        if row in errors:
            continue
        try:
            molecule = Molecule.read(text)
            name, order = _canonical(molecule)
            plain = not rows.descriptors and bool(name) and "@" not in name
            if plain and name in seen:
                keys[row] = seen[name]
                continue
            x, edge_index, edge_attr = arrays = _features(molecule, rows, row)
            keys[row] = key_of(x, edge_index, edge_attr, order)
            found.setdefault(keys[row], (molecule.text, arrays))
            if plain:
                seen[name] = keys[row]
        except ValueError as error:
            errors[row] = str(error)
    return Graphs(keys, errors, found)


def key_of(x: np.ndarray, edge_index: np.ndarray, edge_attr: np.ndarray, order: np.ndarray | None) -> bytes:
    """The key of a graph. The second half of its edges is the first half in the other direction.

    Args:
        x, edge_index, edge_attr: the features.
        order: the nodes in an order that does not depend on how they are numbered; as they are if not given.
    """
    n, half = len(x), edge_index.shape[1] // 2
    place = np.arange(n)
    if order is not None:
        place[order] = np.arange(n)
        x = x[order]
    ends = np.sort(place[edge_index[:, :half]], axis=0)
    names = ends[0] * n + ends[1]
    edges = np.argsort(names, kind="stable")
    found = hashlib.blake2b(f"{x.shape} {x.dtype} {half}".encode(), digest_size=16)
    for part in (x, names[edges], edge_attr[:half][edges]):
        found.update(np.ascontiguousarray(part).tobytes())
    return found.digest()


def _features(molecule: Molecule, rows: Rows, row: int) -> Arrays:
    if not rows.descriptors:
        with in_one_line(molecule.text):
            return arrays_of(molecule.mol)
    data = rows.descriptors.attach(molecule.graph(), molecule, rows.numbers[row] if rows.numbers else ())
    return data.x.numpy(), data.edge_index.numpy(), data.edge_attr.numpy()


def _canonical(molecule: Molecule) -> tuple[str, np.ndarray | None]:
    """The canonical SMILES, and its order of atoms; empty and None if RDKit finds none."""
    if molecule.mol.GetNumAtoms() > LARGE:
        return "", None
    try:
        name = molecule.canonical()
        order = molecule.mol.GetProp("_smilesAtomOutputOrder")
    except (ValueError, KeyError):
        return "", None
    return name, np.array(order.strip("[],").split(","), dtype=np.int64)


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
            for name, blocks in groups:
                yield name, [read_block(block) for block in blocks]
            return
        waiting: deque[tuple[T, list[Future[Graphs]]]] = deque()
        context = get_context("spawn")  # a copy of this process would have its locks, but not its threads
        pool = ProcessPoolExecutor(self.num_workers, context, _begin)
        try:
            for name, blocks in groups:
                waiting.append((name, [pool.submit(read_block, block) for block in blocks]))
                if len(waiting) > AHEAD:
                    first, futures = waiting.popleft()
                    yield first, [future.result() for future in futures]
            while waiting:
                first, futures = waiting.popleft()
                yield first, [future.result() for future in futures]
        except BrokenProcessPool:
            raise OSError(
                "a process that reads SMILES was killed, perhaps because there is too little memory; use fewer processes (--num-workers). "
                "Run the same command again to continue where this one ended."
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin() -> None:
    """Leave Ctrl-C to the first process, and end with it, even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    parent = parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
