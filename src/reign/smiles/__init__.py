"""Molecules from SMILES, with RDKit and numpy alone: torch is imported only where a graph is asked for. This needs ``pip install 'reign[chem]'``."""

from reign.smiles._corpus import Described, describe_all, quick_descriptors
from reign.smiles._features import Arrays, in_words
from reign.smiles._molecule import LARGE, Molecule, Stereo, canonical, from_smiles, graphs_of, in_one_line, read_many, scaffold
from reign.smiles._processes import BLOCK, Reader, cores
from reign.smiles._reading import BITS, FEATURIZERS, LARGEST, Graphs, Rows, descriptor, descriptor_names, descriptors

__all__ = [
    "BITS", "BLOCK", "FEATURIZERS", "LARGE", "LARGEST", "Arrays", "Described", "Graphs", "Molecule", "Reader", "Rows", "Stereo", "canonical", "cores",
    "describe_all", "descriptor", "descriptor_names", "descriptors", "from_smiles", "graphs_of", "in_one_line", "in_words", "quick_descriptors",
    "read_many", "scaffold",
]  # fmt: skip
