"""Chirality of atoms, as a feature that does not depend on how a molecule is written.

RDKit's tag says how the neighbours of an atom turn *in the order of its bonds*, which differs between two SMILES of the same molecule. Here the
neighbours are in the order of their classes of symmetry, which depend on the molecule alone, and the tag becomes the parity of this order. The
classes do not see chirality: with ranks that do, cis- and trans-1,4-dimethylcyclohexane have the same parities, because the ranks turn with them.

Neighbours of the same class have no order of their own, as the two ways round the ring of 1,4-dimethylcyclohexane, or the two branches of a centre
that differ in chirality alone. For these molecules the graph is made from the canonical SMILES, in which neighbours of the same class are in the order
of the text. All writings have the same canonical SMILES, and so the same graph. RDKit's is not canonical for some cages with such centres, such as
7-norbornanol, until it was read and written once more.
"""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from reign.smiles._features import CHIRALITY, Arrays, arrays_of
from reign.smiles._rdkit import BlockLogs, Chem

CLOCKWISE, COUNTERCLOCKWISE = 1, 2  # places of the two tetrahedral tags in the column of chirality
TETRAHEDRAL = (Chem.ChiralType.CHI_TETRAHEDRAL_CW, Chem.ChiralType.CHI_TETRAHEDRAL_CCW)
Centres = Mapping[int, Sequence[tuple[int, int]]]  # for each centre, the classes and numbers of its neighbours


def arrays_with_parity(mol: Chem.Mol, largest: int) -> Arrays:
    """The features of the graph with parities in place of RDKit's tags. Molecules of more atoms than ``largest`` get none, with a warning."""
    x, edge_index, edge_attr = arrays_of(mol)
    if len(x) <= largest:
        centres = _centres(mol)
        if _apart(centres):
            return _turned(x, centres), edge_index, edge_attr
        with BlockLogs(), suppress(RuntimeError):
            return _from_canonical(mol)
    tagged = (x[:, CHIRALITY] == CLOCKWISE) | (x[:, CHIRALITY] == COUNTERCLOCKWISE)
    if tagged.any():
        warnings.warn(
            f"the chirality of a molecule of {len(x):,} atoms is not used, because RDKit cannot rank its atoms.", stacklevel=3
        )
    x[tagged, CHIRALITY] = 0
    return x, edge_index, edge_attr


def canonical_smiles(mol: Chem.Mol) -> str:
    """The canonical SMILES of a molecule, which determines its graph with parities."""
    text = str(Chem.MolToSmiles(mol))
    if "@" in text and not _apart(_centres(mol)):
        with BlockLogs(), suppress(RuntimeError):
            return str(Chem.MolToSmiles(_read(text)))
    return text


def output_order(mol: Chem.Mol) -> np.ndarray:
    """The atoms in the order of the SMILES that was written last."""
    return np.array(mol.GetProp("_smilesAtomOutputOrder").strip("[],").split(","), dtype=np.int64)


def _from_canonical(mol: Chem.Mol) -> Arrays:
    """The features as the canonical SMILES gives them, with atoms in their original order."""
    once = _read(Chem.MolToSmiles(mol))
    twice = _read(Chem.MolToSmiles(once))
    found, ends, kinds = arrays_of(twice)
    order = output_order(mol)[output_order(once)]
    x = np.empty_like(found)
    x[order] = _turned(found, _centres(twice))
    return x, order[ends], kinds


def _centres(mol: Chem.Mol) -> Centres:
    """The tetrahedral centres, with the classes of symmetry of their neighbours."""
    atoms = map(mol.GetAtomWithIdx, range(mol.GetNumAtoms()))
    found = [atom for atom in atoms if atom.GetChiralTag() in TETRAHEDRAL]
    if not found:
        return {}
    classes = list(Chem.CanonicalRankAtoms(mol, breakTies=False, includeChirality=False))
    return {atom.GetIdx(): [(classes[i], i) for i in (other.GetIdx() for other in atom.GetNeighbors())] for atom in found}


def _apart(centres: Centres) -> bool:
    """Whether no two neighbours of a centre are of the same class."""
    return all(len({rank for rank, _ in around}) == len(around) for around in centres.values())


def _turned(x: np.ndarray, centres: Centres) -> np.ndarray:
    """The features with tags turned into parities. Neighbours of the same class are in the order of their numbers."""
    for centre, around in centres.items():
        exchanges = sum(one > other for i, one in enumerate(around) for other in around[i + 1 :])
        if exchanges % 2:
            x[centre, CHIRALITY] = CLOCKWISE + COUNTERCLOCKWISE - x[centre, CHIRALITY]
    return x


def _read(text: str) -> Chem.Mol:
    if (mol := Chem.MolFromSmiles(text)) is None:
        raise RuntimeError(f"RDKit cannot read its own SMILES {text}")
    return mol
