"""Tables of molecules: CSV files with SMILES. Needs ``pip install 'reign[chem]'``."""

from reign.data.molecules._csv_reader import need_columns, read_table
from reign.data.molecules._smiles import canonical, from_many, from_smiles, scaffold
from reign.data.molecules._table import Report, load_table, read_molecules

__all__ = [
    "Report",
    "canonical",
    "from_many",
    "from_smiles",
    "load_table",
    "need_columns",
    "read_molecules",
    "read_table",
    "scaffold",
]
