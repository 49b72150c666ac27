"""Similarity of molecules: Morgan fingerprints with counts, and the Tanimoto similarity.

A count is the number of atoms with the same environment, so that a long chain is unlike a short one. The similarity of counts a and b is
sum(min(a, b)) / sum(max(a, b)); where no count is above 1, it is the similarity of the bits.
"""

from collections.abc import Sequence

import numpy as np
from rdkit.Chem import rdFingerprintGenerator

from reign.smiles import Molecule, in_one_line

RADIUS = 2
SAMPLE = 1_000  # largest number of molecules used to estimate the usual similarity
Counts = tuple[np.ndarray, np.ndarray]  # environments, and how many atoms have each of them


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
        self.prints = [counts for _, counts in made]
        self.totals = np.array([counts.sum() for _, counts in self.prints])
        every = np.concatenate([environments for environments, _ in self.prints])
        order = np.argsort(every, kind="stable")  # equal environments next to each other
        self.environments, self.starts = np.unique(every[order], return_index=True)
        self.ends = np.append(self.starts[1:], len(every))
        self.owners = np.repeat(np.arange(len(made)), [len(counts) for _, counts in self.prints])[order]
        self.counts = np.concatenate([counts for _, counts in self.prints])[order]

    def nearest(self, molecule: Molecule, number: int) -> list[tuple[int, float]]:
        """The positions and similarities of the nearest molecules, the most similar first. Ties are in the order of the set."""
        alike = self._alike(fingerprint(molecule))
        order = np.argsort(-alike, kind="stable")[:number]
        return [(self.places[i], float(alike[i])) for i in order]

    def usual(self, share: float = 0.05) -> float:
        """The similarity to the nearest other molecule that all but this share of the set reach, estimated from at most a thousand molecules."""
        step = max(1, len(self.prints) // SAMPLE)
        found = []
        for i in range(0, len(self.prints), step):
            alike = self._alike(self.prints[i])
            alike[i] = 0.0
            found.append(alike.max())
        return float(sorted(found)[int(share * len(found))])

    def _alike(self, given: Counts) -> np.ndarray:
        """The similarity to each molecule of the set. Only molecules that share an environment are looked at."""
        common = np.zeros(len(self.prints))
        places = np.searchsorted(self.environments, given[0])
        for environment, count, place in zip(*given, places, strict=True):
            if place < len(self.environments) and self.environments[place] == environment:
                there = slice(self.starts[place], self.ends[place])
                common[self.owners[there]] += np.minimum(self.counts[there], count)  # a molecule is in it once
        return common / (self.totals + given[1].sum() - common)


def fingerprint(molecule: Molecule) -> Counts:
    """The Morgan fingerprint of radius 2 with counts."""
    with in_one_line(molecule.text):
        found = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS).GetSparseCountFingerprint(molecule.mol)
    counts = found.GetNonzeroElements()
    return np.fromiter(counts.keys(), dtype=np.uint64), np.fromiter(counts.values(), dtype=np.int64)
