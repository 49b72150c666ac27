"""Similarity of molecules: Morgan fingerprints and the Tanimoto similarity."""

from collections.abc import Sequence
from typing import Any

from rdkit import DataStructs
from rdkit.Chem import rdFingerprintGenerator

from reign.smiles import Molecule, in_one_line

RADIUS, BITS = 2, 2_048
SAMPLE = 1_000  # largest number of molecules used to estimate the usual similarity


class Neighbours:
    """The molecules of a set that are most similar to a given one.

    Args:
        molecules: the set; None for molecules that cannot be read, which are never neighbours.
    """

    def __init__(self, molecules: Sequence[Molecule | None]) -> None:
        made = [(i, fingerprint(molecule)) for i, molecule in enumerate(molecules) if molecule is not None]
        if not made:
            raise ValueError(f"none of the {len(molecules)} molecules can be read, expected at least one to compare with.")
        self.places = [i for i, _ in made]
        self.prints = [bits for _, bits in made]

    def nearest(self, molecule: Molecule, number: int) -> list[tuple[int, float]]:
        """The positions and similarities of the nearest molecules, the most similar first. Ties are in the order of the set."""
        return self._ranked(fingerprint(molecule), number)

    def usual(self, share: float = 0.05) -> float:
        """The similarity to the nearest other molecule that all but this share of the set reach, estimated from at most a thousand molecules."""
        step = max(1, len(self.prints) // SAMPLE)
        found = []
        for i in range(0, len(self.prints), step):
            alike = DataStructs.BulkTanimotoSimilarity(self.prints[i], self.prints)
            alike[i] = 0.0
            found.append(max(alike))
        return float(sorted(found)[int(share * len(found))])

    def _ranked(self, bits: Any, number: int) -> list[tuple[int, float]]:
        alike = DataStructs.BulkTanimotoSimilarity(bits, self.prints)
        order = sorted(range(len(alike)), key=lambda i: (-alike[i], i))[:number]
        return [(self.places[i], float(alike[i])) for i in order]


def fingerprint(molecule: Molecule) -> Any:
    """The Morgan fingerprint of radius 2, with 2,048 bits."""
    with in_one_line(molecule.text):
        return rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS).GetFingerprint(molecule.mol)
