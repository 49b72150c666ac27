"""Many SMILES as graphs with RDKit's 2D descriptors, in other processes, which import RDKit and numpy but not torch."""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from typing import Any

import numpy as np

from reign.smiles._features import BlockLogs
from reign.smiles._molecule import Molecule, Stereo

SLOW = ("qed", "SPS", "BertzCT", "MaxAbsEStateIndex", "MinAbsEStateIndex")  # over a third of the time of all descriptors
WILD = ("Ipc", "AvgIpc")  # which grow exponentially with the number of atoms
BLOCK = 1_024  # number of SMILES that a process reads at a time


@dataclass(frozen=True)
class Described:
    """The molecules of a block that can be read, end to end.

    Args:
        x, edge_index, edge_attr: the features of all atoms and bonds; the numbers of atoms begin anew in every molecule.
        nodes, edges: the number of atoms and of directed bonds of each molecule.
        values: the descriptors of each molecule; NaN where RDKit cannot compute one.
        failed: number of SMILES that were left out.
    """

    x: np.ndarray
    edge_index: np.ndarray
    edge_attr: np.ndarray
    nodes: np.ndarray
    edges: np.ndarray
    values: np.ndarray
    failed: int


def quick_descriptors() -> list[str]:
    """The names of RDKit's 2D descriptors, without those that are slow or grow exponentially."""
    from rdkit.Chem import Descriptors

    return [name for name, _ in Descriptors._descList if name not in SLOW + WILD]


def describe(texts: Sequence[str], stereo: Stereo = "parity", largest: int = 100) -> Described:
    """Read some SMILES. Molecules with more than ``largest`` atoms are left out, like those that cannot be read."""
    from rdkit.Chem import Descriptors

    functions = [function for name, function in Descriptors._descList if name not in SLOW + WILD]
    found, values = [], []
    with BlockLogs():
        for text in texts:
            try:
                molecule = Molecule.read(text, stereo=stereo)
                arrays = molecule.arrays()
            except ValueError:
                continue
            if 0 < len(arrays[0]) <= largest:
                found.append(arrays)
                values.append([_value(function, molecule) for function in functions])
    xs, edges, kinds = zip(*found, strict=True) if found else ((), (), ())
    none = (np.zeros((0, 9), np.uint8), np.zeros((2, 0), np.int64), np.zeros((0, 3), np.uint8))
    return Described(
        np.concatenate([*xs, none[0]]),
        np.concatenate([*edges, none[1]], axis=1).astype(np.int16),
        np.concatenate([*kinds, none[2]]),
        np.array([len(x) for x in xs], dtype=np.int64),
        np.array([len(kind) for kind in kinds], dtype=np.int64),
        np.array(values, dtype=np.float32).reshape(len(found), len(functions)),
        len(texts) - len(found),
    )


def _value(function: Callable[[Any], float], molecule: Molecule) -> float:
    try:
        value = float(function(molecule.mol))
    except Exception:  # RDKit raises errors of many types
        return math.nan
    return value if abs(value) < 1e30 else math.nan  # also for infinity and NaN


def describe_all(texts: Sequence[str], num_workers: int, stereo: Stereo = "parity") -> Iterator[Described]:
    """The blocks of many SMILES in their order, read in other processes; with no workers, in this one."""
    blocks = (texts[start : start + BLOCK] for start in range(0, len(texts), BLOCK))
    if not num_workers:
        yield from (describe(block, stereo) for block in blocks)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(num_workers, context) as pool:
        waiting: list[Future[Described]] = [pool.submit(describe, block, stereo) for block in islice(blocks, 4 * num_workers)]
        try:
            while waiting:
                found = waiting.pop(0).result()
                waiting += [pool.submit(describe, block, stereo) for block in islice(blocks, 1)]
                yield found
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
