"""A molecule as a graph, with OGB's columns of atom and bond types."""

from typing import Any

import torch
from torch_geometric.data import Data

from reign.data.molecules._rdkit import Chem

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
_PLACES = {
    id(table): [(name, {v: p for p, v in enumerate(values)}, len(values) - 1) for name, values in table] for table in (ATOM, BOND)
}


def graph_of(mol: Chem.Mol) -> Data:
    """A molecule as a graph: atoms in their order, every bond in both directions."""
    x = torch.tensor([_columns(atom, ATOM) for atom in mol.GetAtoms()], dtype=torch.long)
    ends = torch.tensor([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()], dtype=torch.long).view(-1, 2).t()
    kinds = torch.tensor([_columns(bond, BOND) for bond in mol.GetBonds()], dtype=torch.long).view(-1, len(BOND))
    return Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], dim=1), edge_attr=kinds.repeat(2, 1))


def _columns(item: Any, table: list[tuple[str, list[Any]]]) -> list[int]:
    return [place.get(getattr(item, name)(), other) for name, place, other in _PLACES[id(table)]]
