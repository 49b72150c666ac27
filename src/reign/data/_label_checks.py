"""What looks wrong in the labels and splits of a problem before training, one line for each finding, and statistics of each split. Nothing is changed."""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from reign.data._problem import Problem, grouped

FAR = 1_000.0  # labels this many times as far from the median as most others are named
SHOWN = 5  # number of targets that a line names


@dataclass(frozen=True)
class Conflict:
    """Graphs that a model cannot tell apart, with different labels of a target.

    Args:
        target: the target.
        graphs: the ids of the graphs.
        labels: their labels; the names of classes for multiclass.
    """

    target: str
    graphs: list[int]
    labels: list[float | str]


def find_conflicts(problem: Problem, same: Sequence[Hashable]) -> list[Conflict]:
    """Equal graphs with different labels, those that differ most first.

    Args:
        problem: the problem.
        same: a key for each graph; graphs with equal keys are the same for a model.
    """
    found: list[tuple[float, Conflict]] = []
    rows = problem.y.tolist()
    for group in grouped(same):
        for t, target in enumerate(problem.targets):
            graphs = [g for g in group if not math.isnan(rows[g][t])] if len(group) > 1 else []
            labels = [rows[g][t] for g in graphs]
            if len(set(labels)) > 1:
                shown: list[float | str] = [problem.classes[int(y)] for y in labels] if problem.classes else [*labels]
                found.append((max(labels) - min(labels), Conflict(target, graphs, shown)))
    return [conflict for _, conflict in sorted(found, key=lambda each: -each[0])]


def find_shared(problem: Problem, same: Sequence[Hashable]) -> list[dict[str, list[int]]]:
    """Equal graphs that are in more than one split: for each, the ids of the graphs by split."""
    split_of = {g: split for split, ids in problem.splits.items() for g in ids.tolist()}
    found = []
    for group in grouped(same):
        splits: dict[str, list[int]] = defaultdict(list)
        for g in group if len(group) > 1 else ():
            if g in split_of:
                splits[split_of[g]].append(g)
        if len(splits) > 1:
            found.append(dict(splits))
    return found


def check_labels(problem: Problem, same: Sequence[Hashable]) -> list[str]:
    """What looks wrong in the labels and splits: a line for each kind of finding.

    Args:
        problem: the problem, with a training split.
        same: a key for each graph; graphs with equal keys are the same for a model.
    """
    what = "molecule" if problem.groups is not None else "graph"
    row = "rows" if problem.names is not None else "graphs"
    return [
        *_classes_as_numbers(problem),
        *_constants(problem),
        *_far_labels(problem),
        *_shared(problem, find_shared(problem, same), what, row),
        *_conflicts(problem, find_conflicts(problem, same), what, row),
    ]


def _classes_as_numbers(problem: Problem) -> list[str]:
    if problem.task != "regression":
        return []
    known = [problem.y[~problem.y[:, t].isnan(), t] for t in range(len(problem.targets))]
    binary = [target for target, y in zip(problem.targets, known, strict=True) if set(y.unique().tolist()) == {0.0, 1.0}]
    if not binary:
        return []
    holds, trains = ("holds", "is trained") if len(binary) == 1 else ("hold", "are trained")
    return [
        f"{_listed(binary)} {holds} only 0 and 1, and {trains} as regression; for probabilities of classes, use -t classification "
        "(from Python, the task classification or ReignClassifier)"
    ]


def _constants(problem: Problem) -> list[str]:
    train, found = problem.splits["train"], {}
    for t, target in enumerate(problem.targets):
        y = problem.y[train, t]
        y = y[~y.isnan()]
        if y.numel() > 1 and bool((y == y[0]).all()):
            found[target] = problem.classes[int(y[0])] if problem.classes else f"{float(y[0]):g}"
    if not found:
        return []
    same = f" ({next(iter(found.values()))})" if len(found) == 1 else ""
    return [
        f"{_listed(list(found))} {'has' if len(found) == 1 else 'have'} the same label{same} in all training rows, so a model learns nothing"
    ]


def _far_labels(problem: Problem) -> list[str]:
    """A label of 1e38 among ordinary ones. Labels of classes are 0 and 1, or numbers of classes."""
    found = []
    for t, target in enumerate(problem.targets if problem.task == "regression" else ()):
        graphs = (~problem.y[:, t].isnan()).nonzero().flatten()
        y = problem.y[graphs, t].double()
        if y.numel() < 3:
            continue
        away = (y - y.median()).abs()
        usual = away.sort().values[int(0.9 * (away.numel() - 1))]
        far = away > FAR * usual
        if usual > 0 and far.any():
            worst, rest = int(away.argmax()), y[~far]
            labels = "a label" if int(far.sum()) == 1 else f"{int(far.sum()):,} labels"
            found.append(
                f"{target} has {labels} far from all others, such as {float(y[worst]):g} in {_named(problem, [int(graphs[worst])])}, where most are "
                f"from {float(rest.min()):g} to {float(rest.max()):g}; if this is a mistake, correct it, because it dominates training"
            )
    return found


def _shared(problem: Problem, found: list[dict[str, list[int]]], what: str, row: str) -> list[str]:
    if not found:
        return []
    graphs = {graphs[0]: split for split, graphs in found[0].items()}
    many = f"1 {what} is" if len(found) == 1 else f"{len(found):,} {what}s are"
    where = _listed([f"{_name(problem, g)} ({split})" for g, split in graphs.items()])
    return [f"{many} in more than one split, as in {row} {where}; all are kept, and results on them look better than they are"]


def _conflicts(problem: Problem, found: list[Conflict], what: str, row: str) -> list[str]:
    if not found:
        return []
    first, number = found[0], len({each.graphs[0] for each in found})
    ends = sorted(first.labels.index(end) for end in (min(first.labels), max(first.labels)))
    where = " and ".join(_name(problem, first.graphs[e]) for e in ends)
    labels = " and ".join(label if isinstance(label := first.labels[e], str) else f"{label:g}" for e in ends)
    many = f"1 {what} has" if number == 1 else f"{number:,} {what}s have"
    return [
        f"{many} contradicting labels, as in {row} {where}, where {first.target} is {labels}; all are kept, and a model cannot match them all"
    ]


def graph_keys(problem: Problem) -> list[bytes]:
    """A key for each graph, by its features and edges as they are: the same graph with its nodes in another order has another key."""
    pack, keys = problem.graphs, []
    for g in range(len(pack)):
        nodes, edges = slice(*pack.node_ptr[g : g + 2].tolist()), slice(*pack.edge_ptr[g : g + 2].tolist())
        parts = [pack.x[nodes], pack.edge_index[:, edges], *([] if pack.edge_attr is None else [pack.edge_attr[edges]])]
        keys.append(b"|".join(part.contiguous().numpy().tobytes() for part in parts))
    return keys


def _name(problem: Problem, graph: int) -> str:
    return str(graph) if problem.names is None else problem.names[graph]


def _named(problem: Problem, graphs: list[int]) -> str:
    return f"{'row' if problem.names is not None else 'graph'} {_name(problem, graphs[0])}"


def _listed(names: list[str]) -> str:
    """Some names, and the number of further ones.

    >>> _listed(["a"]), _listed(["a", "b", "c"]), _listed(list("abcdefg"))
    ('a', 'a, b and c', 'a, b, c, d, e and 2 more')
    """
    if len(names) == 1:
        return names[0]
    first, last = (names[:-1], names[-1]) if len(names) <= SHOWN else (names[:SHOWN], f"{len(names) - SHOWN:,} more")
    return f"{', '.join(first)} and {last}"


# -- statistics of each split --------------------------------------------------------------------------------------------


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
