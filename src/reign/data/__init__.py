"""Data: graphs with targets and splits, from the paper's data sets, from tables of molecules, or from lists of PyG graphs."""

from reign.data._base import DATASETS, GraphDataset
from reign.data._catalogue import find_dataset, list_datasets, load_problem
from reign.data._files import cache_folder, need_file, read_arrays, unpack
from reign.data._networkx import from_networkx
from reign.data._pack import GraphPack, MiniBatch
from reign.data._problem import TASKS, Ids, Problem
from reign.data._splits import column_split, random_split, scaffold_split
from reign.data._statistics import SplitStatistics, TargetStatistics, split_statistics, target_statistics
from reign.data.sets import CSL, EXP, SR, TU, ZINC, Counting, GraphProperties, MolHIV, exp_graphs

__all__ = [
    "CSL",
    "DATASETS",
    "EXP",
    "SR",
    "TASKS",
    "TU",
    "ZINC",
    "Counting",
    "GraphDataset",
    "GraphPack",
    "GraphProperties",
    "Ids",
    "MiniBatch",
    "MolHIV",
    "Problem",
    "SplitStatistics",
    "TargetStatistics",
    "cache_folder",
    "column_split",
    "exp_graphs",
    "find_dataset",
    "from_networkx",
    "list_datasets",
    "load_problem",
    "need_file",
    "random_split",
    "read_arrays",
    "scaffold_split",
    "split_statistics",
    "target_statistics",
    "unpack",
]
