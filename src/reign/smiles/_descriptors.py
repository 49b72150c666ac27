"""Numbers about a whole molecule that RDKit computes, and graphs with such numbers as additional columns."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from reign.smiles._features import Arrays
from reign.smiles._molecule import Molecule, in_one_line

BITS = 2_048
LARGEST = 3e38  # largest absolute value of a descriptor, close to the largest float32


def rdkit_2d(molecule: Molecule) -> list[float]:
    """The 2D descriptors of RDKit; NaN where RDKit cannot compute one."""
    from rdkit.Chem import Descriptors

    found = Descriptors.CalcMolDescriptors(molecule.mol, missingVal=math.nan, silent=True)
    return [value if math.isfinite(value) else math.nan for value in map(float, found.values())]


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


FEATURIZERS: dict[str, Callable[[Molecule], list[float]]] = {
    "rdkit_2d": rdkit_2d,
    "morgan_count": morgan_count,
    "morgan_binary": morgan_binary,
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
