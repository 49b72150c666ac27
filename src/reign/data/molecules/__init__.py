"""Tables of molecules: CSV files with SMILES. This needs ``pip install 'reign[chem]'``."""

from reign.data.molecules._csv_reader import need_columns, read_table
from reign.data.molecules._descriptors import FEATURIZERS, Descriptors
from reign.data.molecules._report import Report
from reign.data.molecules._similarity import Neighbours
from reign.data.molecules._smiles import Molecule, canonical, from_smiles, graphs_of, read_many, scaffold
from reign.data.molecules._table import load_table, read_molecules

__all__ = [
    "FEATURIZERS",
    "Descriptors",
    "Molecule",
    "Neighbours",
    "Report",
    "canonical",
    "from_smiles",
    "graphs_of",
    "load_table",
    "need_columns",
    "read_many",
    "read_molecules",
    "read_table",
    "scaffold",
]
