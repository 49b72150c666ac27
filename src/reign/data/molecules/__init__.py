"""Tables of molecules: files with SMILES. This needs ``pip install 'reign[chem]'``."""

from reign.data.molecules._corpus import Corpus
from reign.data.molecules._csv_reader import endings, need_columns
from reign.data.molecules._descriptors import Descriptors, Neighbours, check_rows
from reign.data.molecules._table import Report, load_table, molecule_texts, read_molecules
from reign.data.molecules._table_file import Chunk, TableFile, import_parquet, is_parquet, read_table

from reign.smiles import (  # isort: skip
    BITS, BLOCK, FEATURIZERS, LARGE, Graphs, Molecule, Reader, Rows, Stereo, canonical, cores, descriptor_names, from_smiles,
    graphs_of, in_words, read_many, scaffold,
)  # fmt: skip

__all__ = [
    "BITS", "BLOCK", "FEATURIZERS", "LARGE", "Chunk", "Corpus", "Descriptors", "Graphs", "Molecule", "Neighbours", "Reader", "Report", "Rows",
    "Stereo", "TableFile", "canonical", "check_rows", "cores", "descriptor_names", "endings", "from_smiles", "graphs_of", "import_parquet",
    "in_words", "is_parquet", "load_table", "molecule_texts", "need_columns", "read_many", "read_molecules", "read_table", "scaffold",
]  # fmt: skip
