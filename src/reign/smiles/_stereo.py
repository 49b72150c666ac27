"""Chirality of atoms, as a feature that does not depend on how a molecule is written.

RDKit's tag says how the neighbours of an atom turn *in the order of its bonds*, which differs between two writings of the same SMILES. Here the
neighbours are in the order of their classes of symmetry, which depend on the molecule alone, and the tag becomes the parity of this order. The
classes do not see chirality: with ranks that do, cis- and trans-1,4-dimethylcyclohexane have the same parities, because the ranks turn with them.

Neighbours of the same class have no order of their own, as the two ways round the ring of 1,4-dimethylcyclohexane, or the two branches of a centre
that differ in chirality alone. For these molecules the graph is made from the canonical SMILES, in which neighbours of the same class are in the order
of the text. All writings have the same canonical SMILES, and so the same graph.
"""

import warnings
from contextlib import suppress

import numpy as np

from reign.smiles._features import CHIRALITY, Arrays, arrays_of
from reign.smiles._rdkit import BlockLogs, Chem

CLOCKWISE, COUNTERCLOCKWISE = 1, 2  # places of the two tetrahedral tags in the column of chirality


def arrays_with_parity(mol: Chem.Mol, largest: int) -> Arrays:
    """The features of the graph with parities in place of RDKit's tags. Molecules of more atoms than ``largest`` get none, with a warning."""
    x, edge_index, edge_attr = arrays_of(mol)
    centres = _centres(x)
    if not centres:
        return x, edge_index, edge_attr
    if len(x) <= largest:
        if _turn(mol, x, centres):
            return x, edge_index, edge_attr
        if (found := _from_canonical(mol)) is not None:
            return found
    warnings.warn(
        f"the chirality of a molecule of {len(x):,} atoms is not used, because RDKit cannot rank its atoms.", stacklevel=3
    )
    x[centres, CHIRALITY] = 0
    return x, edge_index, edge_attr


def _from_canonical(mol: Chem.Mol) -> Arrays | None:
    """The features as the canonical SMILES gives them, with atoms in their original order; None if RDKit cannot write and read it."""
    again = None
    with BlockLogs(), suppress(RuntimeError):
        again = Chem.MolFromSmiles(Chem.MolToSmiles(mol))
    if again is None or again.GetNumAtoms() != mol.GetNumAtoms():
        return None
    order = np.array(mol.GetProp("_smilesAtomOutputOrder").strip("[],").split(","), dtype=np.int64)
    found, ends, kinds = arrays_of(again)
    _turn(again, found, _centres(found))
    x = np.empty_like(found)
    x[order] = found
    return x, order[ends], kinds


def _centres(x: np.ndarray) -> list[int]:
    """The atoms with a tetrahedral tag."""
    centres: list[int] = np.flatnonzero((x[:, CHIRALITY] == CLOCKWISE) | (x[:, CHIRALITY] == COUNTERCLOCKWISE)).tolist()
    return centres


def _turn(mol: Chem.Mol, x: np.ndarray, centres: list[int]) -> bool:
    """Turn tags into parities. Return whether all neighbours of centres have different classes; those of the same class are in the order of atoms."""
    classes = list(Chem.CanonicalRankAtoms(mol, breakTies=False, includeChirality=False))
    apart = True
    for centre in centres:
        places = [(classes[atom.GetIdx()], atom.GetIdx()) for atom in mol.GetAtomWithIdx(centre).GetNeighbors()]
        apart = apart and len({rank for rank, _ in places}) == len(places)
        swaps = sum(one > other for i, one in enumerate(places) for other in places[i + 1 :])
        if swaps % 2:
            x[centre, CHIRALITY] = CLOCKWISE + COUNTERCLOCKWISE - x[centre, CHIRALITY]
    return apart
