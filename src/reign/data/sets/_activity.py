"""MoleculeACE (van Tilborg et al. 2022): the activity of molecules on 30 targets, and which of them are activity cliffs."""

import urllib.request
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch_geometric.data import Data

from reign.data._base import DATASETS, GraphDataset
from reign.data._files import download_folder, local_file
from reign.data._problem import random_split
from reign.disk import first_line

if TYPE_CHECKING:
    import pandas as pd

PLACE = (
    "https://raw.githubusercontent.com/molML/MoleculeACE/7e6de0bd2968c56589c580f2a397f01c531ede26/MoleculeACE/Data/benchmark_data/"
)
SETS = [
    "CHEMBL1862_Ki",
    "CHEMBL1871_Ki",
    "CHEMBL2034_Ki",
    "CHEMBL2047_EC50",
    "CHEMBL204_Ki",
    "CHEMBL2147_Ki",
    "CHEMBL214_Ki",
    "CHEMBL218_EC50",
    "CHEMBL219_Ki",
    "CHEMBL228_Ki",
    "CHEMBL231_Ki",
    "CHEMBL233_Ki",
    "CHEMBL234_Ki",
    "CHEMBL235_EC50",
    "CHEMBL236_Ki",
    "CHEMBL237_EC50",
    "CHEMBL237_Ki",
    "CHEMBL238_Ki",
    "CHEMBL239_EC50",
    "CHEMBL244_Ki",
    "CHEMBL262_Ki",
    "CHEMBL264_Ki",
    "CHEMBL2835_Ki",
    "CHEMBL287_Ki",
    "CHEMBL2971_Ki",
    "CHEMBL3979_EC50",
    "CHEMBL4005_Ki",
    "CHEMBL4203_Ki",
    "CHEMBL4616_EC50",
    "CHEMBL4792_Ki",
]


@DATASETS.register()
class MoleculeACE(GraphDataset):
    """A set of MoleculeACE with its own test split; a tenth of its training molecules, drawn with the seed 0, is for validation.

    The splits "cliff" and "noncliff" are the test molecules again: those that differ much in activity from a similar molecule, and the others. A set
    is read from ``<set>.csv``, in the folder REIGN_DATA or in its folder ``moleculeace``, from ``moleculeace.csv.xz``, or downloaded.
    """

    name = "moleculeace"
    about = "MoleculeACE, activity on 30 targets with activity cliffs (regression)"
    targets = ("-log10 nM",)
    splits = ("train", "val", "test", "cliff", "noncliff")
    node_encoder = "atom"
    edge_encoder = "bond"
    reads_smiles = True
    stereo = "parity"  # as for tables of molecules
    choices = {"set": SETS}  # noqa: RUF012

    @classmethod
    def variants(cls) -> list[dict[str, object]]:
        """Each of the 30 sets."""
        return [{"set": name} for name in SETS]

    def make(self) -> dict[str, list[Data]]:
        """Read the table of the set and its molecules."""
        from reign.data.molecules import Molecule

        table = self._table()
        graphs = []
        rows = zip(table["smiles"], table["y"], strict=True)
        for smiles, y in self.progress(list(rows), "reading molecules, molecule"):
            data = Molecule.read(smiles).graph()
            data.y, data.smiles = torch.tensor([[float(y)]]), torch.tensor(list(smiles.encode()), dtype=torch.uint8)
            graphs.append(data)
        test, cliff = (table["split"] == "test").tolist(), (table["cliff"] == 1).tolist()
        learn = [i for i, held in enumerate(test) if not held]
        parts = random_split([table["smiles"].iloc[i] for i in learn], (0.9, 0.1, 0.0), 0)
        ids = {split: [learn[int(i)] for i in parts[split]] for split in ("train", "val")}
        ids["test"] = [i for i, held in enumerate(test) if held]
        ids |= {"cliff": [i for i in ids["test"] if cliff[i]], "noncliff": [i for i in ids["test"] if not cliff[i]]}
        return {split: [graphs[i] for i in ids[split]] for split in self.splits}

    def _table(self) -> "pd.DataFrame":
        """The rows of the set, with the columns smiles, y, cliff and split."""
        import pandas as pd

        name = str(self.options["set"])
        own: Path | BytesIO | None = local_file(f"{name}.csv") or local_file(f"moleculeace/{name}.csv")
        several = local_file("moleculeace.csv.xz")
        if own is None and several is not None:
            table = pd.read_csv(several)
            if name in set(table["set"]):
                return _checked(table[table["set"] == name], str(several))
        table = pd.read_csv(self._official(name) if own is None else own).rename(columns={"cliff_mol": "cliff"})
        return _checked(table, PLACE + f"{name}.csv" if own is None else str(own))

    def _official(self, name: str) -> BytesIO:
        try:
            with download_folder(self.progress), urllib.request.urlopen(f"{PLACE}{name}.csv") as found:
                return BytesIO(found.read())
        except OSError as error:
            raise ValueError(
                f"{PLACE}{name}.csv cannot be downloaded ({first_line(error)}). Put {name}.csv, as it is there, into the folder given by the "
                "environment variable REIGN_DATA."
            ) from None


def _checked(table: "pd.DataFrame", where: str) -> "pd.DataFrame":
    """A table that has all columns and values that are needed."""
    if missing := [c for c in ("smiles", "y", "cliff", "split") if c not in table.columns]:
        raise ValueError(
            f"{where} has no column {missing[0]!r}, expected smiles, y, cliff_mol and split, as in MoleculeACE's tables."
        )
    if wrong := set(table["split"]) - {"train", "test"}:
        raise ValueError(f"{where} has the split {sorted(map(str, wrong))[0]!r}, expected train or test.")
    if wrong := set(table["cliff"]) - {0, 1}:
        raise ValueError(f"{where} has the cliff {sorted(map(str, wrong))[0]!r}, expected 0 or 1.")
    return table
