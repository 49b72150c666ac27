"""Data: graphs with targets and splits, from named data sets, tables of molecules, or lists of PyG graphs."""

import reign._pyg  # noqa: F401
from reign.data import sets
from reign.data._base import DATASETS, GraphDataset, find_dataset, list_datasets, load_problem
from reign.data._example import write_example
from reign.data._files import Progress, cache_folder, from_networkx, need_file, read_arrays, unpack
from reign.data._label_checks import (
    Conflict,
    SplitStatistics,
    TargetStatistics,
    check_labels,
    find_conflicts,
    find_shared,
    graph_keys,
    split_statistics,
    target_statistics,
)
from reign.data._pack import GraphPack, MiniBatch
from reign.data._problem import TASKS, Ids, Problem, column_split, group_split, random_split, scaffold_split, time_split
from reign.data._roots import RootLoader, predict_nodes
from reign.data.sets import *  # noqa: F403

__all__ = [
    "DATASETS",
    "TASKS",
    "Conflict",
    "GraphDataset",
    "GraphPack",
    "Ids",
    "MiniBatch",
    "Problem",
    "Progress",
    "RootLoader",
    "SplitStatistics",
    "TargetStatistics",
    "cache_folder",
    "check_labels",
    "column_split",
    "find_conflicts",
    "find_dataset",
    "find_shared",
    "from_networkx",
    "graph_keys",
    "group_split",
    "list_datasets",
    "load_problem",
    "need_file",
    "predict_nodes",
    "random_split",
    "read_arrays",
    "scaffold_split",
    "split_statistics",
    "target_statistics",
    "time_split",
    "unpack",
    "write_example",
]
__all__ += sets.__all__
