"""Predict molecules with an ONNX file made by ``reign export --onnx``: python predict_onnx.py model.onnx molecules.csv [output.csv].

This program needs RDKit, numpy and onnxruntime, and nothing else. ``OnnxPredictor("model.onnx").predict(["CCO"])`` predicts from Python."""

import csv
import json
import sys
from typing import Any

import numpy as np
import onnxruntime
from rdkit import Chem
from rdkit.rdBase import BlockLogs

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


def plain(mol: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Types of atoms, both ends of bonds in each direction, and types of bonds. Other kinds of stereo of a bond have the last place of the column."""
    x, kinds = (
        [[p.index(v) if (v := getattr(item, ask)()) in p else len(p) - (p is E_OR_Z) for ask, p in table.items()] for item in items]
        for items, table in ((mol.GetAtoms(), ATOM), (mol.GetBonds(), BOND))
    )
    ends = np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()], np.int64).reshape(-1, 2).T
    return np.array(x, np.int64), np.hstack([ends, ends[::-1]]), np.tile(np.array(kinds, np.int64).reshape(-1, 3), (2, 1))


def turned(mol: Any, x: np.ndarray) -> bool:
    """Put the parity of each centre, which does not depend on the order of atoms, in place of RDKit's tag; whether all neighbours of each centre differ."""
    found = [atom for atom in mol.GetAtoms() if atom.GetChiralTag() in TAGS[1:3]]
    ranks = list(Chem.CanonicalRankAtoms(mol, breakTies=False, includeChirality=False)) if found else []
    around = {a.GetIdx(): [(ranks[b.GetIdx()], b.GetIdx()) for b in a.GetNeighbors()] for a in found}
    swapped = [k for k, near in around.items() if sum(a > b for i, a in enumerate(near) for b in near[i + 1 :]) % 2]
    x[swapped, 1] = 3 - x[swapped, 1]
    return all(len({rank for rank, _ in near}) == len(near) for near in around.values())


def features(mol: Any, stereo: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The inputs of the model for a molecule."""
    if stereo == "none":
        Chem.RemoveStereochemistry(mol)
    x, bonds, kinds = plain(mol)
    if stereo != "parity" or turned(mol, x):
        return x, bonds, kinds
    once: Any = Chem.MolFromSmiles(Chem.MolToSmiles(mol))  # in the canonical SMILES, neighbours of the same class have an order
    twice: Any = None if once is None else Chem.MolFromSmiles(Chem.MolToSmiles(once))
    if twice is None:
        return x * ~((np.arange(9) == 1) & np.isin(x, (1, 2))), bonds, kinds  # without chirality
    mine, canonical = (np.array(m.GetProp("_smilesAtomOutputOrder").strip("[],").split(","), np.int64) for m in (mol, once))
    (found, bonds, kinds), order = plain(twice), mine[canonical]
    turned(twice, found)
    x[order] = found
    return x, order[bonds], kinds


class OnnxPredictor:
    """A model in an ONNX file, on one thread unless told otherwise."""

    def __init__(self, file: str, threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        try:
            self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
            self.about = json.loads(self.session.get_modelmeta().custom_metadata_map["reign"])
        except Exception as error:  # onnxruntime's errors have no other class in common
            raise ValueError(f"{file} is not a file made by reign export --onnx ({type(error).__name__}: {error})") from None

    def values(self, smiles: str) -> tuple[list[float], str]:
        """The predictions for a molecule, which are probabilities if targets are classes, or none and the reason."""
        with BlockLogs():
            mol = Chem.MolFromSmiles(smiles.strip()) if len(smiles.split()) == 1 and smiles.isascii() else None
            if mol is None or not (atoms := mol.GetNumAtoms()):
                return [], f"{smiles!r} is not a SMILES"
            if atoms > (most := self.about["max_atoms"]):
                return [], f"the molecule has {atoms} atoms, expected at most {most}; export with --max-atoms"
            inputs = features(mol, self.about["stereo"])
        return self.session.run(None, dict(zip(("atoms", "bonds", "bond_types"), inputs, strict=True)))[0].tolist(), ""

    def predict(self, molecules: list[str] | str) -> list[Columns]:
        """The columns of each molecule: ``<target>_pred``, ``<target>_prob_<class>`` with several classes, and ``error``."""
        targets, classes, rows = self.about["targets"], self.about["classes"], []
        names = [f"{targets[0]}_prob_{name}" for name in classes] or [f"{target}_pred" for target in targets]
        for values, error in map(self.values, [molecules] if isinstance(molecules, str) else molecules):
            best = {f"{targets[0]}_pred": classes[values.index(max(values))] if values else None} if classes else {}
            rows.append({**best, **dict.fromkeys(names), **dict(zip(names, values, strict=bool(values))), "error": error})
        return rows


def main(file: str, source: str, *output: str) -> None:
    """Write a table with the columns of its predictions. Bytes that are not UTF-8 stay as they are."""
    model = OnnxPredictor(file)
    with open(source, encoding="utf-8-sig", errors="surrogateescape", newline="") as table:
        given, column = list(csv.DictReader(table)), model.about["smiles_column"]
    if not given or column not in given[0]:
        raise ValueError(f"{source} has no rows, or no column '{column}'; expected a CSV in UTF-8")
    if wide := [number for number, row in enumerate(given, 1) if None in row]:
        raise ValueError(f"row {wide[0]} of {source} has more fields than the table has columns")
    if taken := given[0].keys() & model.predict("")[0].keys():
        raise ValueError(f"{source} already has a column '{min(taken)}', which the predictions need; rename it")
    done = [{**row, **new} for row, new in zip(given, model.predict([row[column] or "" for row in given]), strict=True)]
    with open(output[0] if output else sys.stdout.fileno(), "w", encoding="utf-8", errors="surrogateescape", newline="") as out:
        csv.DictWriter(out, list(done[0])).writerows([dict(zip(done[0], done[0], strict=True)), *done])
    sys.stderr.write(f"{sum(bool(row['error']) for row in done)} of {len(done)} rows have an error in place of a prediction.\n")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:]) if len(sys.argv) in (3, 4) else sys.exit(__doc__)
    except (OSError, ValueError, csv.Error) as error:
        sys.exit(" ".join(f"{error}.".split()))
