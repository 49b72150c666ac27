"""Statistics of a problem: the sizes of its graphs and the values of its targets, split by split."""

import math
from dataclasses import dataclass

from reign.data._problem import Problem


@dataclass(frozen=True)
class SplitStatistics:
    """Statistics of the graphs of a split. Edges are counted as undirected.

    Args:
        split: name of the split.
        graphs: number of graphs.
        nodes, edges: mean number of nodes and edges of a graph.
        largest: number of nodes of the largest graph.
    """

    split: str
    graphs: int
    nodes: float
    largest: int
    edges: float


@dataclass(frozen=True)
class TargetStatistics:
    """The values of a target in a split: mean, standard deviation (NaN for a single value), smallest and largest value."""

    target: str
    split: str
    mean: float
    std: float
    smallest: float
    largest: float


def split_statistics(problem: Problem) -> list[SplitStatistics]:
    """Statistics of the graphs of every split."""
    sizes, num_edges = problem.graphs.sizes, problem.graphs.edge_ptr.diff()
    found = []
    for split, ids in problem.splits.items():
        nodes, edges = sizes[ids].double(), num_edges[ids].double() / 2
        found.append(SplitStatistics(split, ids.numel(), float(nodes.mean()), int(nodes.max()), float(edges.mean())))
    return found


def target_statistics(problem: Problem) -> list[TargetStatistics]:
    """Statistics of every target in every split."""
    found = []
    for t, target in enumerate(problem.targets):
        for split, ids in problem.splits.items():
            y = problem.y[ids, t].double()
            std = float(y.std()) if y.numel() > 1 else math.nan
            found.append(TargetStatistics(target, split, float(y.mean()), std, float(y.min()), float(y.max())))
    return found
