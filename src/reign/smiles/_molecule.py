"""Molecules from SMILES. A SMILES is read once; graph, canonical SMILES and scaffold are derived from the molecule.

torch_geometric's ``from_smiles`` is not used, because it silently turns an unreadable SMILES into an empty molecule.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from reign.smiles._features import Arrays, arrays_of, graph_of
from reign.smiles._rdkit import BlockLogs, Chem
from reign.smiles._stereo import arrays_with_parity, canonical_smiles

if TYPE_CHECKING:
    from torch_geometric.data import Data

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
