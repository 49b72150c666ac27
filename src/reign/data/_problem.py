"""A learning problem: graphs, targets, splits, and the meaning of the columns."""

import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import networkx as nx
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch_geometric.data import Data

from reign._validate import check
from reign.data._pack import GraphPack

# -- splits; equal molecules are always in the same one ------------------------------------------------------------------


Ids = Int[Tensor, "_"]
SPLITS = ("train", "val", "test")
WORDS = {"train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


def random_split(keys: Sequence[Hashable], sizes: Sequence[float], seed: int) -> dict[str, Ids]:
    """Split items at random into shares. Items with equal keys stay together.

    >>> {split: ids.tolist() for split, ids in random_split("abcdeabcde", (0.6, 0.2, 0.2), 0).items()}
    {'train': [0, 1, 4, 5, 6, 9], 'val': [3, 8], 'test': [2, 7]}
    """
    return _fill(_shuffle(grouped(keys), seed), sizes, len(keys))


def scaffold_split(scaffolds: Sequence[Hashable], keys: Sequence[Hashable], sizes: Sequence[float], seed: int) -> dict[str, Ids]:
    """Split molecules by scaffold. Molecules with the same scaffold stay together; scaffolds larger than half a validation or test set
    go to training.

    A molecule without rings has no scaffold and is a group of its own.
    """
    groups = grouped([("ring", scaffold) if scaffold else ("none", key) for scaffold, key in zip(scaffolds, keys, strict=True)])
    limit = min((size for size in sizes[1:] if size > 0), default=1.0) * len(keys) / 2
    large = [group for group in groups if len(group) > limit]
    small = [group for group in groups if len(group) <= limit]
    return _fill(_shuffle(large, seed) + _shuffle(small, seed), sizes, len(keys))


def group_split(keys: Sequence[Hashable], sizes: Sequence[float], seed: int) -> dict[str, Ids]:
    """Split items at random. Groups of items with equal keys stay whole, and large ones go to training, as for scaffolds. Every share above 0 gets a group if there are
    enough.

    >>> {split: ids.tolist() for split, ids in group_split("aaaabbcc", (0.6, 0.2, 0.2), 0).items()}
    {'train': [0, 1, 2, 3], 'val': [4, 5], 'test': [6, 7]}
    """
    splits = scaffold_split(keys, keys, sizes, seed)
    owner = {key: split for split, ids in splits.items() for key in (keys[i] for i in ids.tolist())}
    often = Counter(keys)
    for split in [split for split, size in zip(SPLITS, sizes, strict=True) if size > 0 and split not in splits]:
        several = {name for name, number in Counter(owner.values()).items() if number > 1}
        if several:
            owner[min((key for key in owner if owner[key] in several), key=lambda key: often[key])] = split
    places = {split: [i for i, key in enumerate(keys) if owner[key] == split] for split in SPLITS}
    return {split: torch.tensor(ids, dtype=torch.long) for split, ids in places.items() if ids}


def time_split(times: Sequence[int] | Sequence[float], sizes: Sequence[float]) -> dict[str, Ids]:
    """Split items by time: first those for training, last those for the test. Items of the same time stay together. With too few
    times for all shares, the validation gets none.

    >>> {split: ids.tolist() for split, ids in time_split([2001, 2003, 2002, 2001, 2004], (0.4, 0.2, 0.4)).items()}
    {'train': [0, 3], 'val': [2], 'test': [1, 4]}
    """
    order = sorted(range(len(times)), key=times.__getitem__)
    ends = [p for p in range(1, len(order)) if times[order[p]] != times[order[p - 1]]]
    cuts = [0]
    for s in range(len(sizes) - 1):
        later = sum(size > 0 for size in sizes[s + 1 :])
        free = [p for p in ends if p > cuts[-1]]
        free = (free[: len(free) + 1 - later] or free) if later else []  # leave an end for each later split
        wanted = sum(sizes[: s + 1]) * len(order)
        cuts.append(
            cuts[-1] if sizes[s] == 0 else min(free, key=lambda p: abs(p - wanted), default=cuts[s] if s and later else len(order))
        )
    parts = [order[a:b] for a, b in pairwise([*cuts, len(order)])]
    return {split: torch.tensor(sorted(part), dtype=torch.long) for split, part in zip(SPLITS, parts, strict=True) if part}


def column_split(words: Sequence[str]) -> tuple[dict[str, Ids], dict[int, str]]:
    """The splits given by a column of words, and an error message for each item with an unknown word."""
    found = [WORDS.get(word.strip().lower()) for word in words]
    splits = {split: torch.tensor([i for i, f in enumerate(found) if f == split], dtype=torch.long) for split in SPLITS}
    wrong = {i: f"the split is {words[i]!r}, expected train, val or test" for i, f in enumerate(found) if f is None}
    return {split: ids for split, ids in splits.items() if ids.numel()}, wrong


def grouped(keys: Sequence[Hashable]) -> list[list[int]]:
    """The places of equal keys, together."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for i, key in enumerate(keys):
        groups[key].append(i)
    return list(groups.values())


def _joined(*words: Sequence[Hashable]) -> list[int]:
    """A number for each item: items that have a word in common with each other, or with others in between, have the same one.

    >>> _joined("aabcd", "xyyzw")
    [0, 0, 0, 3, 4]
    """
    graph = nx.empty_graph(len(words[0]))
    for group in (group for column in words for group in grouped(column)):
        nx.add_path(graph, group)
    first = {i: min(part) for part in nx.connected_components(graph) for i in part}
    return [first[i] for i in graph]


def _shuffle(groups: list[list[int]], seed: int) -> list[list[int]]:
    return [groups[int(g)] for g in torch.randperm(len(groups), generator=torch.Generator().manual_seed(seed))]


def _fill(groups: list[list[int]], sizes: Sequence[float], number: int) -> dict[str, Ids]:
    """Assign each group to the first split with enough space for all of it, or else to the first split that is not full."""
    room = [size * number for size in sizes]
    parts: list[list[int]] = [[] for _ in sizes]
    for group in groups:
        fits = [s for s in range(len(sizes)) if len(parts[s]) + len(group) <= room[s] + 1e-9]
        open_ones = [s for s in range(len(sizes)) if len(parts[s]) < room[s] - 1e-9]
        parts[(fits or open_ones or [0])[0]] += group
    return {split: torch.tensor(sorted(part), dtype=torch.long) for split, part in zip(SPLITS, parts, strict=True) if part}


# -- the problem ---------------------------------------------------------------------------------------------------------


LARGEST = 3e38  # largest absolute value of a target, close to the largest float32
TASKS = ("regression", "classification", "multiclass")


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """A learning problem: graphs with targets (NaN for a missing one), and their splits.

    Args:
        name: name of the problem, for messages.
        graphs: all graphs of all splits.
        splits: ids of the graphs of "train", "val" and "test"; a split may be missing.
        task: "regression", "classification" (0 or 1, one or several targets) or "multiclass" (one target).
        targets: a name for each column of ``graphs.y``.
        node_encoder, edge_encoder: the encoders of features, as in ``reign.nn.make_encoder``.
        classes: names of the classes, for multiclass.
        names: a name for each graph, for files of predictions.
        texts: columns of such files that describe the graphs, such as SMILES: one text per graph, by the name of the column.
        weights: the weight of each graph in training; None for equal weights.
        groups: a word for each graph; graphs with the same word are the same molecule, and stay in the same fold.
        together: a word for each graph, for larger groups such as clusters; graphs with the same word stay in the same fold, and so do those of one molecule. None for molecules alone.
    """

    name: str
    graphs: GraphPack
    splits: dict[str, Ids]
    task: str = "regression"
    targets: list[str] = field(default_factory=lambda: ["y"])
    node_encoder: Any = None
    edge_encoder: Any = None
    classes: list[str] = field(default_factory=list)
    names: list[str] | None = None
    texts: dict[str, list[str]] = field(default_factory=dict)
    weights: Float[Tensor, "graphs"] | None = None
    groups: list[str] | None = None
    together: list[str] | None = None

    def __repr__(self) -> str:
        splits = ", ".join(f"{split}: {len(ids)}" for split, ids in self.splits.items())
        shown = f"{len(self.targets)} targets" if len(self.targets) > 5 else ", ".join(self.targets)
        return f"Problem({self.name!r}, {len(self.graphs)} graphs, {splits}, {self.task} of {shown})"

    def __post_init__(self) -> None:
        if self.graphs.y is None or self.graphs.y.size(1) != len(self.targets):
            shape = None if self.graphs.y is None else tuple(self.graphs.y.shape)
            raise ValueError(
                f"{self.name} has targets {self.targets} and y of shape {shape}, expected one column of y for each target."
            )
        check("task", self.task, self.task in TASKS, " or ".join(map(repr, TASKS)))
        labels = self.y[~self.y.isnan()]
        if labels.isinf().any():
            raise ValueError(f"{self.name} has infinite targets, expected finite numbers, or NaN for a missing label.")
        if labels.numel() and float(labels.abs().max()) > LARGEST:
            raise ValueError(
                f"{self.name} has targets with absolute values up to {float(labels.abs().max()):g}, expected at most {LARGEST:g}, because models "
                "compute in float32; use other units."
            )
        if self.task == "multiclass":
            if len(self.targets) != 1 or not self.classes:
                raise ValueError(
                    f"{self.name} has targets {self.targets} and classes {self.classes}, expected one target and its classes."
                )
            good = bool(((labels >= 0) & (labels < len(self.classes)) & (labels == labels.round())).all())
            check("y", sorted(set(labels.tolist())), good, f"whole numbers from 0 to {len(self.classes) - 1}")
        if self.task == "classification":
            check("y", sorted(set(labels.tolist())), bool(((labels == 0) | (labels == 1)).all()), "0, 1 or NaN")

    @classmethod
    def of(
        cls,
        train: Sequence[Data],
        val: Sequence[Data] = (),
        test: Sequence[Data] = (),
        *,
        name: str = "graphs",
        targets: Sequence[str] | None = None,
        **options: Any,
    ) -> "Problem":
        """Make a problem from lists of PyG graphs, each with a ``y`` of one number per target."""
        graphs = GraphPack.of([*train, *val, *test])
        ends = [0, len(train), len(train) + len(val), len(train) + len(val) + len(test)]
        splits = {split: torch.arange(ends[s], ends[s + 1]) for s, split in enumerate(("train", "val", "test"))}
        if graphs.y is None:
            raise ValueError("the graphs have no y, expected one number per target.")
        columns = (
            list(targets) if targets is not None else ["y"] if graphs.y.size(1) == 1 else [f"y{t}" for t in range(graphs.y.size(1))]
        )
        return cls(name, graphs, {s: ids for s, ids in splits.items() if ids.numel()}, targets=columns, **options)

    @property
    def y(self) -> Float[Tensor, "graphs targets"]:
        """The targets of all graphs."""
        assert self.graphs.y is not None
        return self.graphs.y

    @property
    def num_outputs(self) -> int:
        """The number of outputs that a model needs for each graph."""
        return len(self.classes) if self.task == "multiclass" else len(self.targets)

    def select(self, targets: Sequence[str]) -> "Problem":
        """The same problem with only some of its targets."""
        if unknown := [t for t in targets if t not in self.targets]:
            raise ValueError(f"{self.name} has no target {unknown[0]!r}; it has {', '.join(self.targets)}.")
        columns = [self.targets.index(t) for t in targets]
        return replace(self, graphs=self.graphs.with_targets(self.y[:, columns]), targets=list(targets))

    def with_one_edge_type(self) -> "Problem":
        """The same problem with the type 0 for all edges. Models then have a vector for it: messages of GIN become relu(x_j + e)."""
        if self.graphs.edge_attr is not None:
            raise ValueError(f"{self.name} has edge features, so its edges cannot all get the same type; leave out one_edge_type.")
        types = self.graphs.edge_index.new_zeros(self.graphs.edge_index.size(1))
        return replace(self, graphs=replace(self.graphs, edge_attr=types), edge_encoder=1)

    def without(self, graphs: Collection[int]) -> "Problem":
        """The same problem without some of its graphs. A split that loses all of its graphs is removed."""
        kept = [g for g in range(len(self.graphs)) if g not in graphs]
        place = {g: i for i, g in enumerate(kept)}
        splits = {
            s: torch.tensor([place[g] for g in ids.tolist() if g in place], dtype=torch.long) for s, ids in self.splits.items()
        }
        return replace(
            self,
            graphs=self.graphs.select(torch.tensor(kept, dtype=torch.long)),
            splits={split: ids for split, ids in splits.items() if ids.numel()},
            names=None if self.names is None else [self.names[g] for g in kept],
            texts={column: [texts[g] for g in kept] for column, texts in self.texts.items()},
            weights=None if self.weights is None else self.weights[kept],
            groups=None if self.groups is None else [self.groups[g] for g in kept],
            together=None if self.together is None else [self.together[g] for g in kept],
        )

    def limit(self, number: int) -> "Problem":
        """The same problem with at most this number of graphs in each split, spread over the split because data sets are often sorted."""

        def some(ids: Ids) -> Ids:
            order = torch.randperm(ids.numel(), generator=torch.Generator().manual_seed(0))[:number]
            return ids[order.sort().values]

        return replace(self, splits={split: some(ids) for split, ids in self.splits.items()})

    def fewer(self, num_train: int, seed: int) -> "Problem":
        """The same problem with only this number of training graphs, drawn at random with the seed."""
        train = self.splits["train"]
        if num_train > train.numel():
            raise ValueError(f"num_train is {num_train}, expected at most the {train.numel()} training graphs of {self.name}.")
        chosen = torch.randperm(train.numel(), generator=torch.Generator().manual_seed(seed))[:num_train]
        return replace(self, splits={**self.splits, "train": train[chosen.sort().values]})

    def folds(self, number: int, seed: int) -> "list[Problem]":
        """Stratified cross-validation over the graphs of train, val and test; other splits may repeat some of them. Each fold is used for validation once.

        Graphs of one group are in the same fold, and the class of the first one counts as the class of the group. Larger groups (``together``), which are joined
        where they share a molecule, are spread over folds of about equal size.
        """
        from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold

        every = torch.cat([self.splits[split] for split in SPLITS if split in self.splits] or [*self.splits.values()]).sort().values
        if self.together is not None:
            columns = [self.together] if self.groups is None else [self.together, self.groups]
            words = _joined(*([column[g] for g in every.tolist()] for column in columns))
            if number > len(set(words)):
                raise ValueError(f"folds is {number}, expected at most {len(set(words))}, the number of groups of {self.name}.")
            classes = (
                self.y[every, 0].nan_to_num(-1) if self.task != "regression" and len(self.targets) == 1 else torch.zeros(len(words))
            )
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The least populated class")
                pairs = list(StratifiedGroupKFold(number, shuffle=True, random_state=seed).split(words, classes.numpy(), words))
            return [
                replace(self, splits={"train": every[torch.from_numpy(a)], "val": every[torch.from_numpy(b)]}) for a, b in pairs
            ]
        names: list[str] | list[int] = every.tolist() if self.groups is None else [self.groups[g] for g in every.tolist()]
        firsts = dict(reversed(list(zip(names, every.tolist(), strict=True))))
        ids = torch.tensor(sorted(firsts.values()), dtype=torch.long)
        kind = StratifiedKFold if self.task == "multiclass" or (self.task == "classification" and len(self.targets) == 1) else KFold
        rarest = ids.numel() if kind is KFold else int(self.y[ids, 0].unique(return_counts=True)[1].min())
        if number > rarest:
            of = "" if kind is KFold else "of the rarest class "
            raise ValueError(f"folds is {number}, expected at most {rarest}, the number of different graphs {of}of {self.name}.")
        parts = kind(number, shuffle=True, random_state=seed).split(ids.numpy(), self.y[ids, 0].numpy())
        found = []
        for _, held in parts:
            chosen = set(ids[torch.from_numpy(held)].tolist())
            in_fold = torch.tensor([firsts[name] in chosen for name in names])
            found.append(replace(self, splits={"train": every[~in_fold], "val": every[in_fold]}))
        return found
