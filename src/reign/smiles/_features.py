"""A molecule as a graph, with OGB's columns of atom and bond types."""

from typing import TYPE_CHECKING, Any

import numpy as np

try:
    from rdkit import Chem as Chem
    from rdkit.rdBase import BlockLogs as BlockLogs
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("reading SMILES needs rdkit: pip install 'reign[chem]'.", name=missing.name) from None

if TYPE_CHECKING:
    from torch_geometric.data import Data

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]  # x, edge_index, edge_attr

# The values of each column in order. In a column with "misc", the last place is for all other values.
MISC = "misc"
ATOM: list[tuple[str, list[Any]]] = [
    ("GetAtomicNum", [*range(1, 119), MISC]),
    (
        "GetChiralTag",
        [
            Chem.ChiralType.CHI_UNSPECIFIED,
            Chem.ChiralType.CHI_TETRAHEDRAL_CW,
            Chem.ChiralType.CHI_TETRAHEDRAL_CCW,
            Chem.ChiralType.CHI_OTHER,
            MISC,
        ],
    ),
    ("GetTotalDegree", [*range(11), MISC]),
    ("GetFormalCharge", [*range(-5, 6), MISC]),
    ("GetTotalNumHs", [*range(9), MISC]),
    ("GetNumRadicalElectrons", [*range(5), MISC]),
    (
        "GetHybridization",
        [
            Chem.HybridizationType.SP,
            Chem.HybridizationType.SP2,
            Chem.HybridizationType.SP3,
            Chem.HybridizationType.SP3D,
            Chem.HybridizationType.SP3D2,
            MISC,
        ],
    ),
    ("GetIsAromatic", [False, True]),
    ("IsInRing", [False, True]),
]
BOND: list[tuple[str, list[Any]]] = [
    ("GetBondType", [Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE, Chem.BondType.AROMATIC, MISC]),
    (
        "GetStereo",
        [
            Chem.BondStereo.STEREONONE,
            Chem.BondStereo.STEREOZ,
            Chem.BondStereo.STEREOE,
            Chem.BondStereo.STEREOCIS,
            Chem.BondStereo.STEREOTRANS,
            Chem.BondStereo.STEREOANY,
        ],
    ),
    ("GetIsConjugated", [False, True]),
]
CHIRALITY = [name for name, _ in ATOM].index("GetChiralTag")
CLOCKWISE, COUNTERCLOCKWISE = 1, 2  # places of the two tetrahedral tags in the column of chirality
_PLACES = {
    id(table): [(getattr(kind, name), {v: p for p, v in enumerate(values)}, len(values) - 1) for name, values in table]
    for kind, table in ((Chem.Atom, ATOM), (Chem.Bond, BOND))
}


def graph_of(arrays: Arrays) -> "Data":
    """The features of a molecule as a graph: atoms in their order, every bond in both directions."""
    import torch
    from torch_geometric.data import Data

    x, edge_index, edge_attr = map(torch.from_numpy, arrays)
    return Data(x=x.long(), edge_index=edge_index, edge_attr=edge_attr.long())


def arrays_of(mol: Chem.Mol) -> Arrays:
    """The features of the atoms, with RDKit's tags of chirality, the bonds in both directions, and the types of bonds."""
    atoms = [mol.GetAtomWithIdx(i) for i in range(mol.GetNumAtoms())]  # faster than GetAtoms and GetBonds
    bonds = [mol.GetBondWithIdx(i) for i in range(mol.GetNumBonds())]
    x = np.array([_columns(atom, ATOM) for atom in atoms], dtype=np.uint8)
    ends = np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in bonds], dtype=np.int64).reshape(-1, 2).T
    kinds = np.array([_columns(bond, BOND) for bond in bonds], dtype=np.uint8).reshape(-1, len(BOND))
    return x, np.concatenate([ends, ends[::-1]], axis=1), np.tile(kinds, (2, 1))


def _columns(item: Any, table: list[tuple[str, list[Any]]]) -> list[int]:
    return [place.get(name(item), other) for name, place, other in _PLACES[id(table)]]


# what an atom or a bond of a kind is called, for each column; for yes or no, first what it is called without
_ATOM_WORDS: list[str | tuple[str, str]] = [
    "the element {}",
    "an atom of chirality {}",
    "an atom of degree {}",
    "an atom of charge {}",
    "an atom with {} hydrogens",
    "an atom with {} unpaired electrons",
    "an atom of hybridization {}",
    ("an atom that is not aromatic", "an aromatic atom"),
    ("an atom outside rings", "an atom in a ring"),
]
_BOND_WORDS: list[str | tuple[str, str]] = [
    "a bond of type {}",
    "a bond of stereo type {}",
    ("a bond that is not conjugated", "a conjugated bond"),
]
# for each place in the column of chirality, if it has parities of neighbours and not RDKit's tags
_PARITY_WORDS = ["an atom without chirality", *["a chiral centre"] * 2, *["a chiral centre that is not tetrahedral"] * 2]


def in_words(features: str, column: int, place: int, stereo: str = "ogb", seen: list[int] | tuple[()] = ()) -> str:
    """What has this value in a column of features.

    >>> in_words("atom", 0, 53), in_words("atom", 3, 7), in_words("bond", 0, 2)
    ('the element Xe', 'an atom of charge 2', 'a bond of type TRIPLE')

    Args:
        features: "atom" or "bond".
        column: the column.
        place: the place of the value in the column.
        stereo: what the column of chirality says, as for ``Molecule.read``.
        seen: the places that others have in this column. A parity is only distinguished from the other one if they have that.
    """
    if (features, column, stereo) == ("atom", CHIRALITY, "parity"):
        other = {CLOCKWISE: COUNTERCLOCKWISE, COUNTERCLOCKWISE: CLOCKWISE}.get(place)
        return _PARITY_WORDS[place] + (" of this parity" if other in seen else "")
    words, values = (_ATOM_WORDS, ATOM) if features == "atom" else (_BOND_WORDS, BOND)
    said, value = words[column], values[column][1][place]
    if isinstance(said, tuple):
        return said[int(value)]
    if column == 0 and features == "atom":
        value = "*" if value == MISC else Chem.GetPeriodicTable().GetElementSymbol(value)
    return said.format(getattr(value, "name", "other" if value == MISC else value))
