"""Read blocks of SMILES. Rows in which a model sees the same graph are found by a key.

The key of a molecule is a hash of its canonical SMILES, which determines its features, except OGB's one for chirality: that depends on the order in which
the neighbours of an atom are written, and is hashed, too. If graphs have descriptors, which may differ from row to row, all features are hashed, with the atoms
in the order of the canonical SMILES. Two graphs with the same key are isomorphic, with all features, so that a model predicts the same for them.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from reign.smiles._features import Arrays
from reign.smiles._molecule import LARGE, Molecule, Stereo, in_one_line, output_order

# -- descriptors: numbers about a whole molecule that RDKit computes, as additional columns of its graph -----------------


BITS = 2_048
LARGEST = 3e38  # largest absolute value of a descriptor, close to the largest float32


def rdkit_2d(molecule: Molecule) -> list[float]:
    """The 2D descriptors of RDKit; NaN where RDKit cannot compute one."""
    from rdkit.Chem import Descriptors

    found = Descriptors.CalcMolDescriptors(molecule.mol, missingVal=math.nan, silent=True)
    return [value if math.isfinite(value) else math.nan for value in map(float, found.values())]


def descriptor_names() -> list[str]:
    """The names of the 2D descriptors of RDKit, in their order."""
    from rdkit.Chem import Descriptors

    return [name for name, _ in Descriptors.descList]


def descriptor(molecule: Molecule, name: str) -> float:
    """One of the 2D descriptors of RDKit, such as MolWt; NaN where RDKit cannot compute it."""
    from rdkit.Chem import Descriptors

    try:
        return float(getattr(Descriptors, name)(molecule.mol))
    except Exception:  # RDKit raises errors of many types
        return math.nan


def morgan_count(molecule: Molecule) -> list[float]:
    """The number of occurrences of each of 2,048 Morgan environments of radius 2."""
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=BITS)
    return list(map(float, generator.GetCountFingerprintAsNumPy(molecule.mol)))


def morgan_binary(molecule: Molecule) -> list[float]:
    """Which of 2,048 Morgan environments of radius 2 occur."""
    return [min(1.0, count) for count in morgan_count(molecule)]


def atom_pairs(molecule: Molecule) -> list[float]:
    """The number of occurrences of each of 2,048 pairs of atoms, with the number of bonds between them."""
    from rdkit.Chem import rdFingerprintGenerator

    return list(map(float, rdFingerprintGenerator.GetAtomPairGenerator(fpSize=BITS).GetCountFingerprintAsNumPy(molecule.mol)))


FEATURIZERS: dict[str, Callable[[Molecule], list[float]]] = {
    "rdkit_2d": rdkit_2d,
    "morgan_count": morgan_count,
    "morgan_binary": morgan_binary,
    "atom_pairs": atom_pairs,
}


def descriptors(molecule: Molecule, numbers: Sequence[float], featurizers: Sequence[str]) -> np.ndarray:
    """All descriptors of a molecule: these numbers, and those of RDKit."""
    with in_one_line(molecule.text):
        values = [*numbers, *(value for name in featurizers for value in FEATURIZERS[name](molecule))]
    return np.array(values, dtype=np.float64).clip(-LARGEST, LARGEST).astype(np.float32)


def described(molecule: Molecule, numbers: Sequence[float], featurizers: Sequence[str]) -> Arrays:
    """The arrays of a molecule with descriptors as additional columns of all its atoms."""
    x, edge_index, edge_attr = molecule.arrays()
    found = descriptors(molecule, numbers, featurizers)
    return np.concatenate([x.astype(np.float32), np.tile(found, (len(x), 1))], axis=1), edge_index, edge_attr


# -- blocks of rows ------------------------------------------------------------------------------------------------------


SEEN = 65_536  # number of recent SMILES that are recognised
KEY = 16  # bytes of a key


@dataclass(frozen=True)
class Rows:
    """Some rows to read.

    Args:
        texts: the SMILES, without white space around them.
        wrong: rows that must not be read, with the reasons.
        numbers: the numbers of each row that are descriptors; empty if there are none.
        featurizers: names of ``FEATURIZERS``, for further descriptors.
        stereo: what graphs say about chirality, as for ``Molecule.read``.
        alone: whether only the descriptors are wanted: the graph of a row is then one node, which has them, and no atom.
        columns: the SMILES of each column of the table, for rows of several. They are not sent to other processes.
    """

    texts: Sequence[str]
    wrong: dict[int, str] = field(default_factory=dict)
    numbers: Sequence[Sequence[float]] = ()
    featurizers: Sequence[str] = ()
    stereo: Stereo = "parity"
    alone: bool = False
    columns: Sequence[Sequence[str]] = ()

    def arrays(self, row: int, molecule: Molecule | None = None) -> Arrays:
        """The graph of a row; its molecule is read if it is not given."""
        molecule = molecule or Molecule.read(self.texts[row], stereo=self.stereo)
        if self.alone:
            x = descriptors(molecule, (), self.featurizers)[None]
            return x, np.zeros((2, 0), dtype=np.int64), np.zeros((0, 3), dtype=np.uint8)
        if not self.described:
            return molecule.arrays()
        return described(molecule, self.numbers[row] if self.numbers else (), self.featurizers)

    @property
    def described(self) -> bool:
        """Whether graphs have descriptors."""
        return bool(self.numbers or self.featurizers)


@dataclass(frozen=True)
class Graphs:
    """The graphs of some rows.

    Args:
        keys: the key of each row; empty if the row has an error.
        errors: the reasons for the rows that cannot be read.
        found: different graphs by row, without those that were found in earlier blocks.
    """

    keys: list[bytes]
    errors: dict[int, str]
    found: dict[int, Arrays]


class BlockReader:
    """Reads blocks of rows of one table one after another, and makes no graph of a molecule that it remembers."""

    def __init__(self) -> None:
        self.seen: dict[str, bytes] = {}  # keys by SMILES: canonical ones, and those of the table

    def read(self, rows: Rows) -> Graphs:
        """Read some rows."""
        found = Graphs([b""] * len(rows.texts), dict(rows.wrong), {})
        here: set[bytes] = set()
        for row, text in enumerate(rows.texts):
            if row in found.errors:
                continue
            try:
                key, arrays = self._read(rows, row, text)
            except ValueError as error:
                found.errors[row] = str(error)
                continue
            found.keys[row] = key
            if arrays is not None and key not in here:
                here.add(key)
                found.found[row] = arrays
        if len(self.seen) > SEEN:
            self.seen = dict(islice(self.seen.items(), len(self.seen) - SEEN // 2, None))
        return found

    def _read(self, rows: Rows, row: int, text: str) -> tuple[bytes, Arrays | None]:
        """The key of a row, and its graph, unless the molecule was seen before."""
        if not rows.described and text in self.seen:
            return self.seen[text], None
        molecule = Molecule.read(text, stereo=rows.stereo)
        name = "" if rows.alone else _canonical(molecule)
        if rows.described or not name:
            arrays = rows.arrays(row, molecule)
            return key_of(*arrays, output_order(molecule.mol) if name else None), arrays
        if rows.stereo == "ogb" and "@" in name:
            tags = np.array([int(atom.GetChiralTag()) for atom in molecule.mol.GetAtoms()])
            name = f"{name} {tags[output_order(molecule.mol)].tolist()}"
        if (known := self.seen.get(name)) is not None:
            return known, None
        key = hashlib.blake2b(name.encode(), digest_size=KEY).digest()
        arrays = rows.arrays(row, molecule)
        self.seen[name] = self.seen[text] = key
        return key, arrays


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
    found = hashlib.blake2b(f"{x.shape} {x.dtype} {half}".encode(), digest_size=KEY)
    for part in (x, names[edges], edge_attr[:half][edges]):
        found.update(np.ascontiguousarray(part).tobytes())
    return found.digest()


def _canonical(molecule: Molecule) -> str:
    """The canonical SMILES; empty if RDKit finds none."""
    if molecule.mol.GetNumAtoms() > LARGE:
        return ""
    try:
        return molecule.canonical()
    except ValueError:
        return ""
