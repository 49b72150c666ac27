"""Molecules as graphs, with OGB's columns of atom and bond types.

Not torch_geometric's ``from_smiles``: that turns a SMILES it cannot read into an empty molecule without a word.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch_geometric.data import Data

try:
    from rdkit import Chem
    from rdkit.rdBase import BlockLogs
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("reading SMILES needs rdkit: pip install 'reign[chem]'.", name=missing.name) from None

# the values of each column in order; the last place of a column with "misc" is for all others
MISC = "misc"
LARGE = 2_000  # atoms
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


def parse(smiles: Any, strict: bool = True) -> Chem.Mol:
    """A SMILES as an RDKit molecule; ``ValueError`` says why it is none.

    Args:
        smiles: the text; white space around it does not matter.
        strict: impossible valences are an error. Otherwise they are left as they are (OGB's molhiv has a few).
    """
    text = smiles.strip() if isinstance(smiles, str) else ""
    if not text:
        raise ValueError("no SMILES")
    if len(text.split()) > 1:  # RDKit would take the rest for a name
        raise ValueError(f"{text!r} holds white space, expected one SMILES")
    with BlockLogs():
        mol = Chem.MolFromSmiles(text, sanitize=False)
        if mol is None:
            raise ValueError(f"'{text}' is not a SMILES")
        if mol.GetNumAtoms() == 0:
            raise ValueError(f"'{text}' has no atoms")
        problems = Chem.DetectChemistryProblems(mol)
        if not problems:
            return Chem.MolFromSmiles(text)
        if strict:
            raise ValueError(f"'{text}': {problems[0].Message().strip().rstrip('.')}")
        Chem.SanitizeMol(mol, Chem.SANITIZE_ALL ^ Chem.SANITIZE_PROPERTIES)
        mol.UpdatePropertyCache(strict=False)
        return mol


def graph(mol: Chem.Mol) -> Data:
    """A molecule as a graph: atoms in their order, every bond in both directions."""
    x = torch.tensor([_columns(atom, ATOM) for atom in mol.GetAtoms()], dtype=torch.long)
    ends = torch.tensor([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()], dtype=torch.long).view(-1, 2).t()
    kinds = torch.tensor([_columns(bond, BOND) for bond in mol.GetBonds()], dtype=torch.long).view(-1, len(BOND))
    return Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], dim=1), edge_attr=kinds.repeat(2, 1))


def from_smiles(smiles: Any, strict: bool = True) -> Data:
    """A SMILES as a graph. Salts stay one graph of several components.

    >>> from_smiles("CO ")
    Data(x=[2, 9], edge_index=[2, 2], edge_attr=[2, 3])
    >>> from_smiles("C(C)(C)(C)(C)C")
    Traceback (most recent call last):
        ...
    ValueError: 'C(C)(C)(C)(C)C': Explicit valence for atom # 0 C, 5, is greater than permitted
    """
    return graph(parse(smiles, strict))


def from_many(texts: Iterable[Any]) -> tuple[list[Data | None], dict[int, str]]:
    """A graph for each SMILES, or None; and why those that are None cannot be read."""
    graphs: list[Data | None] = []
    wrong: dict[int, str] = {}
    for i, text in enumerate(texts):
        try:
            graphs.append(from_smiles(text))
        except ValueError as error:
            graphs.append(None)
            wrong[i] = str(error)
    return graphs, wrong


def canonical(smiles: str) -> str:
    """One spelling for each molecule; very large ones, which RDKit cannot rank, keep their own."""
    mol = parse(smiles)
    return Chem.MolToSmiles(mol) if mol.GetNumAtoms() <= LARGE else smiles.strip()


def scaffold(smiles: str) -> str:
    """The Bemis-Murcko scaffold: rings and what joins them; empty without rings."""
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    return MurckoScaffoldSmiles(mol=parse(smiles), includeChirality=False)


def _columns(item: Any, table: list[tuple[str, list[Any]]]) -> list[int]:
    return [place.get(getattr(item, name)(), other) for name, place, other in _PLACES[id(table)]]
