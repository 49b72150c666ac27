"""Molecules from SMILES. A SMILES is read once; graph, canonical SMILES and scaffold are derived from the molecule.

torch_geometric's ``from_smiles`` is not used, because it silently turns an unreadable SMILES into an empty molecule.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from reign.smiles._features import CHIRALITY, CLOCKWISE, COUNTERCLOCKWISE, Arrays, BlockLogs, Chem, arrays_of, graph_of

if TYPE_CHECKING:
    from torch_geometric.data import Data


# -- chirality of atoms, as a feature that does not depend on how a molecule is written ----------------------------------
# RDKit's tag says how the neighbours of an atom turn *in the order of its bonds*, which differs between two SMILES of the same molecule. Here the
# neighbours are in the order of their classes of symmetry, which depend on the molecule alone, and the tag becomes the parity of this order. The
# classes do not see chirality: with ranks that do, cis- and trans-1,4-dimethylcyclohexane have the same parities, because the ranks turn with them.
# Neighbours of the same class have no order of their own, as the two ways round the ring of 1,4-dimethylcyclohexane, or the two branches of a centre
# that differ in chirality alone. For these molecules the graph is made from the canonical SMILES, in which neighbours of the same class are in the order
# of the text. All writings have the same canonical SMILES, and so the same graph. RDKit's is not canonical for some cages with such centres, such as
# C1C[C@H]2[C@@H]1[C@H]1CC[C@H]12, until it was read and written once more.


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


# -- molecules -----------------------------------------------------------------------------------------------------------


Stereo = Literal["parity", "ogb", "none"]
LARGE = 2_000  # number of atoms above which RDKit cannot rank them


@dataclass(frozen=True, eq=False)
class Molecule:
    """A molecule that was read from a SMILES.

    Args:
        text: the SMILES, without white space around it.
        mol: the RDKit molecule.
        stereo: what the graph says about chirality, see ``read``.
    """

    text: str
    mol: Chem.Mol
    stereo: Stereo = "parity"

    @classmethod
    def read(cls, smiles: Any, strict: bool = True, stereo: Stereo = "parity") -> "Molecule":
        """Read a SMILES. ``ValueError`` gives the reason if it cannot be read.

        Args:
            smiles: the text; white space around it is ignored.
            strict: whether impossible valences are an error. Otherwise they are accepted (OGB's molhiv has a few).
            stereo: "parity" for a feature of chirality that is the same for all SMILES of a molecule, "ogb" for RDKit's tag, which OGB and PyG use
                and which depends on the order of atoms, "none" to drop chirality and E/Z.
        """
        if stereo not in get_args(Stereo):
            raise ValueError(f"stereo is {stereo!r}, expected {', '.join(get_args(Stereo))}.")
        text = smiles.strip() if isinstance(smiles, str) else ""
        if not text:
            raise ValueError("no SMILES")
        if len(text.split()) > 1:  # RDKit would read the rest as a name
            raise ValueError(f"{shortened(text)!r} holds white space, expected one SMILES")
        mol = _parse(text, strict)
        if stereo == "none":
            Chem.RemoveStereochemistry(mol)
        return cls(text, mol, stereo)

    def graph(self) -> "Data":
        """The molecule as a graph. Salts are one graph of several components."""
        return graph_of(self.arrays())

    def arrays(self) -> Arrays:
        """The features of the graph as arrays."""
        with in_one_line(self.text):
            return arrays_with_parity(self.mol, LARGE) if self.stereo == "parity" else arrays_of(self.mol)

    def canonical(self) -> str:
        """The canonical SMILES. Very large molecules, whose atoms RDKit cannot rank, keep their original SMILES."""
        with in_one_line(self.text):
            if self.mol.GetNumAtoms() > LARGE:
                return self.text
            return canonical_smiles(self.mol) if self.stereo == "parity" else Chem.MolToSmiles(self.mol)

    def scaffold(self) -> str:
        """The Bemis-Murcko scaffold: the rings and the chains that join them; empty if there are no rings."""
        from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

        with in_one_line(self.text):
            return MurckoScaffoldSmiles(mol=self.mol, includeChirality=False)


@contextmanager
def in_one_line(text: str) -> Iterator[None]:
    """Turn any error of RDKit into a ``ValueError`` of one line about the SMILES. RDKit's internal errors have many lines."""
    try:
        yield
    except Exception as error:
        if type(error) is ValueError:  # one of our own errors
            raise
        reason = " ".join(line.strip() for line in str(error).strip().splitlines()[:2])
        raise ValueError(f"'{shortened(text)}': {reason.rstrip('.') or type(error).__name__}") from None


def shortened(text: str) -> str:
    """The beginning of a long SMILES, for messages."""
    return text if len(text) <= 200 else f"{text[:200]}..."


def _parse(text: str, strict: bool) -> Chem.Mol:
    with BlockLogs(), in_one_line(text):
        mol = Chem.MolFromSmiles(text)
        if mol is not None and mol.GetNumAtoms():
            return mol
        mol = Chem.MolFromSmiles(text, sanitize=False)  # step by step, to find the reason
        if mol is None:
            raise ValueError(f"'{shortened(text)}' is not a SMILES")
        if mol.GetNumAtoms() == 0:
            raise ValueError(f"'{shortened(text)}' has no atoms")
        problems = Chem.DetectChemistryProblems(mol)
        if problems and strict:
            raise ValueError(f"'{shortened(text)}': {problems[0].Message().strip().rstrip('.')}")
        if problems:
            Chem.SanitizeMol(mol, Chem.SANITIZE_ALL ^ Chem.SANITIZE_PROPERTIES)
            mol.UpdatePropertyCache(strict=False)
            return mol
        # the steps of MolFromSmiles after parsing: remove hydrogens, sanitise, and find stereo centres
        mol = Chem.RemoveHs(mol, updateExplicitCount=True)
        Chem.AssignStereochemistry(mol, cleanIt=True)
        return mol


def read_many(texts: Iterable[Any], stereo: Stereo = "parity") -> tuple[list[Molecule | None], dict[int, str]]:
    """A molecule for each SMILES, or None, and the reasons why these cannot be read.

    Args:
        texts: the SMILES.
        stereo: as for ``Molecule.read``.
    """
    molecules: list[Molecule | None] = []
    wrong: dict[int, str] = {}
    for i, text in enumerate(texts):
        try:
            molecules.append(Molecule.read(text, stereo=stereo))
        except ValueError as error:
            molecules.append(None)
            wrong[i] = str(error)
    return molecules, wrong


def graphs_of(molecules: Iterable[Molecule | None], wrong: dict[int, str]) -> "tuple[list[Data | None], dict[int, str]]":
    """The graphs of molecules, or None, and all reasons, starting with those of molecules that cannot be read."""
    graphs: "list[Data | None]" = []
    wrong = dict(wrong)
    for i, molecule in enumerate(molecules):
        graphs.append(None)
        if molecule is not None and i not in wrong:
            try:
                graphs[i] = molecule.graph()
            except ValueError as error:
                wrong[i] = str(error)
    return graphs, wrong


def from_smiles(smiles: Any, strict: bool = True, stereo: Stereo = "ogb") -> "Data":
    """Convert a SMILES to a graph with OGB's columns, as PyG's ``from_smiles`` does.

    Runs on tables of molecules see chirality in another way: their graphs are ``Molecule.read(smiles).graph()``. ``Molecule.read`` also gives the
    molecule, its canonical SMILES and its scaffold.

    >>> from_smiles("CO ")
    Data(x=[2, 9], edge_index=[2, 2], edge_attr=[2, 3])
    >>> from_smiles("C(C)(C)(C)(C)C")
    Traceback (most recent call last):
        ...
    ValueError: 'C(C)(C)(C)(C)C': Explicit valence for atom # 0 C, 5, is greater than permitted
    """
    return Molecule.read(smiles, strict, stereo).graph()


def canonical(smiles: str) -> str:
    """The canonical form of a SMILES.

    >>> canonical("OCC") == canonical("CCO")
    True
    """
    return Molecule.read(smiles).canonical()


def scaffold(smiles: str) -> str:
    """The Bemis-Murcko scaffold of a SMILES.

    >>> scaffold("Cc1ccccc1")
    'c1ccccc1'
    """
    return Molecule.read(smiles).scaffold()
