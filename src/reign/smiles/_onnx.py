"""Predict molecules with an ONNX file made by ``reign export --onnx``: python predict_onnx.py model.onnx molecules.csv [output.csv].

This program needs RDKit, numpy and onnxruntime, and nothing else. ``OnnxPredictor("model.onnx").predict(["CCO"])`` predicts from Python.
"""

import csv
import json
import sys
from typing import Any

import numpy as np
import onnxruntime
from rdkit import Chem
from rdkit.rdBase import BlockLogs

Features = tuple[np.ndarray, np.ndarray, np.ndarray]
Columns = dict[str, Any]
TAGS = [Chem.ChiralType.names[f"CHI_{name}"] for name in ("UNSPECIFIED", "TETRAHEDRAL_CW", "TETRAHEDRAL_CCW", "OTHER")]
E_OR_Z = [Chem.BondStereo.names[f"STEREO{name}"] for name in ("NONE", "Z", "E", "CIS", "TRANS", "ANY")]
KINDS = [Chem.HybridizationType.names[name] for name in ("SP", "SP2", "SP3", "SP3D", "SP3D2")]
TYPES = [Chem.BondType.names[name] for name in ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")]
ATOM: Columns = {  # what is asked of an atom, and the values of this column in order; the place after the last is for others
    "GetAtomicNum": range(1, 119), "GetChiralTag": TAGS, "GetTotalDegree": range(11), "GetFormalCharge": range(-5, 6),
    "GetTotalNumHs": range(9), "GetNumRadicalElectrons": range(5), "GetHybridization": KINDS, "GetIsAromatic": [False, True],
    "IsInRing": [False, True],
}  # fmt: skip
BOND: Columns = {"GetBondType": TYPES, "GetStereo": E_OR_Z, "GetIsConjugated": [False, True]}


def columns(item: Any, table: Columns) -> list[int]:
    """The place of each value in its column. Other kinds of stereo of a bond have the last place, and not the one after it."""
    asked = ((getattr(item, name)(), values) for name, values in table.items())
    return [values.index(v) if v in values else len(values) - (values is E_OR_Z) for v, values in asked]


def plain(mol: Any) -> Features:
    """Types of atoms, both ends of bonds in each direction, and types of bonds."""
    x = np.array([columns(atom, ATOM) for atom in mol.GetAtoms()], np.int64)
    ends = np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()], np.int64).reshape(-1, 2).T
    kinds = np.array([columns(bond, BOND) for bond in mol.GetBonds()], np.int64).reshape(-1, 3)
    return x, np.concatenate([ends, ends[::-1]], axis=1), np.tile(kinds, (2, 1))


def centres(mol: Any) -> dict[int, list[tuple[int, int]]]:
    """The neighbours of each tetrahedral centre: their classes of symmetry without chirality, and their numbers."""
    found = [atom for atom in mol.GetAtoms() if atom.GetChiralTag() in TAGS[1:3]]
    ranks = list(Chem.CanonicalRankAtoms(mol, breakTies=False, includeChirality=False)) if found else []
    return {a.GetIdx(): [(ranks[b.GetIdx()], b.GetIdx()) for b in a.GetNeighbors()] for a in found}


def turned(x: np.ndarray, around: dict[int, list[tuple[int, int]]]) -> np.ndarray:
    """The types of atoms with the parity of each centre, which does not depend on the order of atoms, in place of RDKit's tag."""
    for centre, near in around.items():
        if sum(a > b for i, a in enumerate(near) for b in near[i + 1 :]) % 2:
            x[centre, 1] = 3 - x[centre, 1]
    return x


def features(mol: Any, stereo: str) -> Features:
    """The inputs of the model for a molecule."""
    if stereo == "none":
        Chem.RemoveStereochemistry(mol)
    (x, bonds, kinds), around = plain(mol), centres(mol) if stereo == "parity" else {}
    if all(len({rank for rank, _ in near}) == len(near) for near in around.values()):
        return turned(x, around), bonds, kinds
    once: Any = Chem.MolFromSmiles(Chem.MolToSmiles(mol))  # in the canonical SMILES, neighbours of the same class have an order
    twice: Any = None if once is None else Chem.MolFromSmiles(Chem.MolToSmiles(once))
    if twice is None:
        return x * ~((np.arange(9) == 1) & np.isin(x, (1, 2))), bonds, kinds  # without chirality
    mine, canonical = (np.array(m.GetProp("_smilesAtomOutputOrder").strip("[],").split(","), np.int64) for m in (mol, once))
    (found, bonds, kinds), order = plain(twice), mine[canonical]
    x[order] = turned(found, centres(twice))
    return x, order[bonds], kinds


class OnnxPredictor:
    """A model in an ONNX file, on one thread unless told otherwise."""

    def __init__(self, file: str, threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.about = json.loads(self.session.get_modelmeta().custom_metadata_map["reign"])

    def values(self, smiles: str) -> list[float]:
        """The predictions for a molecule, which are probabilities if targets are classes; ``ValueError`` says why there are none."""
        with BlockLogs():
            mol = Chem.MolFromSmiles(smiles.strip()) if len(smiles.split()) == 1 else None
            if mol is None or not mol.GetNumAtoms():
                raise ValueError(f"{smiles!r} is not a SMILES")
            if mol.GetNumAtoms() > (most := self.about["max_atoms"]):
                raise ValueError(f"the molecule has {mol.GetNumAtoms()} atoms, expected at most {most}; export with --max-atoms")
            inputs = features(mol, self.about["stereo"])
        found: list[float] = self.session.run(None, dict(zip(("atoms", "bonds", "bond_types"), inputs, strict=True)))[0].tolist()
        return found

    def predict(self, molecules: list[str] | str) -> list[Columns]:
        """The columns of each molecule: ``<target>_pred``, ``<target>_prob_<class>`` with several classes, and ``error``."""
        targets, classes, rows = self.about["targets"], self.about["classes"], []
        names = [f"{targets[0]}_prob_{name}" for name in classes] or [f"{target}_pred" for target in targets]
        for smiles in [molecules] if isinstance(molecules, str) else molecules:
            try:
                values, error = self.values(smiles), ""
            except ValueError as reason:
                values, error = list[float](), str(reason)
            best = {f"{targets[0]}_pred": classes[values.index(max(values))] if values else None} if classes else {}
            rows.append({**best, **dict.fromkeys(names), **dict(zip(names, values, strict=bool(values))), "error": error})
        return rows


if __name__ == "__main__":
    model = OnnxPredictor(sys.argv[1]) if len(sys.argv) in (3, 4) else sys.exit(__doc__)
    with open(sys.argv[2], newline="") as table:
        given = list(csv.DictReader(table))
    if not given or (column := model.about["smiles_column"]) not in given[0]:
        sys.exit(f"{sys.argv[2]} has no rows, or no column '{model.about['smiles_column']}'.")
    done = [{**row, **new} for row, new in zip(given, model.predict([row[column] or "" for row in given]), strict=True)]
    with open(sys.argv[3], "w", newline="") if len(sys.argv) == 4 else sys.stdout as out:
        csv.DictWriter(out, list(done[0])).writerows([dict(zip(done[0], done[0], strict=True)), *done])
    sys.stderr.write(f"{sum(bool(row['error']) for row in done)} of {len(done)} rows have an error in place of a prediction.\n")
