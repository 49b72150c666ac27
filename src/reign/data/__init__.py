"""Data: graphs with targets and splits, from the paper's data sets, from tables of molecules, or from lists of PyG graphs."""

from reign.data.base import GraphDataset
from reign.data.catalogue import DATASETS, list_datasets, load_problem
from reign.data.counting import Counting
from reign.data.expressive import CSL, EXP, SR
from reign.data.molhiv import MolHIV
from reign.data.pack import GraphPack
from reign.data.problem import Problem
from reign.data.properties import GraphProperties
from reign.data.tu import TU
from reign.data.zinc import ZINC

__all__ = [
    "CSL",
    "DATASETS",
    "EXP",
    "SR",
    "TU",
    "ZINC",
    "Counting",
    "GraphDataset",
    "GraphPack",
    "GraphProperties",
    "MolHIV",
    "Problem",
    "list_datasets",
    "load_problem",
]
