"""A forest on counts of Morgan environments and atom pairs and on RDKit descriptors: the usual baseline for tables of molecules, which can also predict together with the models.

For numbers, its trees are extremely randomised (Geurts et al. 2006). For classes, and where most labels are equal, these would take far longer, and it is a
random forest. They are fitted with scikit-learn, bounded in time and size, and stored as plain arrays. One kind of tree serves all tasks: for classes, trees learn
columns of 0 and 1, whose squared errors are the Gini impurity, so that leaves hold probabilities.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import GraphPack, Ids, Problem
from reign.disk import read_tensors, write_tensors
from reign.train.engine.callbacks import Callback
from reign.train.settings.config import DataConfig
from reign.train.settings.losses import label_weights

FEWEST, MOST = 50, 20_000  # training rows below which, and rows above which, no forest is fitted for comparison
TREES, LEAST_TREES = 100, 10  # all trees, and those of a target that needs its own at least
# the estimator of scikit-learn, and which of the columns a split looks at
NUMBERS, CLASSES = ("ExtraTreesRegressor", 0.3), ("RandomForestRegressor", "sqrt")
AT_ONCE = 10  # trees that are fitted between two events of progress
DEEPEST = 300  # levels of a tree, which bound the time of a prediction
PRESENT = 3  # training molecules that must differ from the usual value of a column, as by having a Morgan environment
LARGEST = 20_000_000  # bytes of a file, which bound the leaves of a tree
NODE = 16  # bytes of a node; a leaf has four more for each output
KINDS = ("morgan_count", "rdkit_2d", "atom_pairs")
BLOCK, FEW = (
    32,
    300,
)  # rows that a process describes at a time, and the least number of rows for which processes are worth their start


# -- what a forest sees of a molecule --------------------------------------------------------------------------------------


def describe(
    graphs: GraphPack,
    columns: Sequence[Sequence[str]],
    config: DataConfig,
    callback: Callback,
    num_workers: int | None = None,
) -> Float[np.ndarray, "graphs numbers"]:
    """The counts and descriptors of molecules, for each column of SMILES; NaN where there is none.

    What the graphs have already, because the model gets it, too, is not computed again.

    Args:
        graphs: the graphs of the molecules.
        columns: the SMILES of each column.
        config: the settings of the table.
        callback: receives progress events.
        num_workers: number of processes; None for a number that suits the molecules and the machine.
    """
    if len(columns) != len(config.smiles_columns):
        raise ValueError(
            f"the forest of the run needs the SMILES of {', '.join(config.smiles_columns)} apart; predict for a table with these columns."
        )
    known = _of_graphs(graphs, config) if len(columns) == 1 else {}
    missing = [kind for kind in KINDS if kind not in known]
    texts = list(dict.fromkeys(text.strip() for column in columns for text in column))
    place = {text: row for row, text in enumerate(texts)}
    found = _numbers(texts, missing, config, callback, num_workers) if missing else np.zeros((len(texts), 0), np.float32)
    widths = _widths()
    parts = []
    for column in columns:
        rows, at = found[[place[text.strip()] for text in column]], 0
        for kind in KINDS:
            if kind in known:
                part = known[kind]
            else:
                part, at = rows[:, at : at + widths[kind]], at + widths[kind]
            parts.append(part)
    return np.concatenate(parts, axis=1)


def _widths() -> dict[str, int]:
    from reign.data.molecules import BITS, descriptor_names

    return {"morgan_count": BITS, "morgan_binary": BITS, "atom_pairs": BITS, "rdkit_2d": len(descriptor_names())}


def _of_graphs(graphs: GraphPack, config: DataConfig) -> dict[str, np.ndarray]:
    """The descriptors that graphs have, which are the last columns of all their nodes."""
    found, widths = {}, _widths()
    x = graphs.x[graphs.node_ptr[:-1]].numpy() if config.molecule_featurizers else np.zeros((len(graphs), 0))
    for kind in reversed(config.molecule_featurizers):
        x, found[kind] = x[:, : -widths[kind]], x[:, -widths[kind] :]
    return found


def _numbers(texts: list[str], kinds: list[str], config: DataConfig, callback: Callback, num_workers: int | None) -> np.ndarray:
    """The descriptors of each SMILES; NaN for one that RDKit cannot describe."""
    from reign.data.molecules import Reader, Rows, cores

    workers = (0 if len(texts) < FEW or cores() == 1 else min(16, cores())) if num_workers is None else num_workers
    blocks = [
        Rows(texts[at : at + BLOCK], featurizers=kinds, stereo=config.stereo_of_graphs, alone=True)
        for at in range(0, len(texts), BLOCK)
    ]
    step, widths = max(1, workers), _widths()
    groups = [(at * BLOCK, blocks[at : at + step]) for at in range(0, len(blocks), step)]
    numbers = np.full((len(texts), sum(widths[kind] for kind in kinds)), np.nan, np.float32)
    for start, made in Reader[int](workers).read(callback.track(groups, "descriptors for the forest")):
        for b, block in enumerate(made):
            by_key = {block.keys[row]: x[0] for row, (x, _, _) in block.found.items()}
            for row, key in enumerate(block.keys):
                if key:
                    numbers[start + b * BLOCK + row] = by_key[key]
    return numbers


def kinds_of_columns(width: int) -> np.ndarray:
    """The kind of each column of ``describe``."""
    widths = _widths()
    return np.resize(np.repeat(KINDS, [widths[kind] for kind in KINDS]), width)


def digest() -> str:
    """What a forest or a Gaussian process depends on besides its columns: the kinds of columns and the names of RDKit's descriptors, in order."""
    from reign.data.molecules import descriptor_names

    return hashlib.sha256(" ".join([*KINDS, *descriptor_names()]).encode()).hexdigest()[:16]


# -- trees and forests as arrays -------------------------------------------------------------------------------------------


NODES = {"feature": "int32", "threshold": "float32", "left": "int32", "right": "int32", "value": "float32", "roots": "int32"}
PLAIN = {"columns": "int32", "usual": "float32", "mean": "float64", "deviation": "float64"}


@dataclass(frozen=True, eq=False)
class Trees:
    """Some trees, whose nodes lie in memory one tree after another, children after their parents.

    Args:
        feature: the column that a node looks at; -1 for a leaf.
        threshold: rows up to this value go to the left.
        left, right: the children; the place in ``value`` for a leaf.
        value: the outputs of each leaf.
        roots: the first node of each tree.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    roots: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The mean over trees for each row."""
        total = np.zeros((len(x), self.value.shape[1]))
        for root in self.roots:
            node, rows = np.full(len(x), root), np.arange(len(x))
            while (inner := self.feature[node[rows]] >= 0).any():
                rows = rows[inner]
                here = node[rows]
                goes_left = x[rows, self.feature[here]] <= self.threshold[here]
                node[rows] = np.where(goes_left, self.left[here], self.right[here])
            total += self.value[self.left[node]]
        return total / len(self.roots)

    @classmethod
    def fit(
        cls,
        x: np.ndarray,
        y: np.ndarray,
        weights: np.ndarray,
        trees: int,
        leaves: int,
        how: tuple[str, float | str],
        callback: Callback,
        threads: int,
    ) -> "Trees":
        """Fit trees of at most this number of leaves each, as ``NUMBERS`` or ``CLASSES`` say."""
        from sklearn import ensemble

        least = -(-len(x) // leaves)
        kind = getattr(ensemble, how[0])
        model = kind(max_features=how[1], min_samples_leaf=least, max_depth=DEEPEST, random_state=0, warm_start=True)
        for number in callback.track([*range(AT_ONCE, trees, AT_ONCE), trees], "fitting the forest"):
            model.set_params(n_estimators=number, n_jobs=threads).fit(x, y.ravel() if y.shape[1] == 1 else y, weights)
        return cls.of([each.tree_ for each in model.estimators_])

    @classmethod
    def of(cls, trees: Sequence[Any]) -> "Trees":
        """Trees of scikit-learn."""
        sizes = [tree.node_count for tree in trees]
        roots = np.cumsum([0, *sizes[:-1]])
        shift = np.repeat(roots, sizes)
        feature, exact, left, right, value = (
            np.concatenate([getattr(tree, name) for tree in trees])
            for name in ("feature", "threshold", "children_left", "children_right", "value")
        )
        leaf = left < 0
        # scikit-learn compares float32 with float64: the float32 below its threshold divides them in the same way
        threshold = exact.astype(np.float32)
        threshold = np.where(threshold > exact, np.nextafter(threshold, np.float32(-np.inf)), threshold)
        return cls(
            np.where(leaf, -1, feature).astype(np.int32),
            np.where(leaf, 0, threshold).astype(np.float32),
            np.where(leaf, np.cumsum(leaf) - 1, left + shift).astype(np.int32),
            np.where(leaf, 0, right + shift).astype(np.int32),
            value[leaf, :, 0].astype(np.float32),
            roots.astype(np.int32),
        )

    def why_wrong(self, columns: int) -> str | None:
        """Why these are no trees on this number of columns; None if they are. An inner node comes before its children, so that every way ends."""
        for name, kind in NODES.items():
            array = getattr(self, name)
            if array.dtype != kind or array.ndim != 1 + (name == "value") or not array.size:
                return f"{name} has the type {array.dtype} and the shape {array.shape}"
        nodes = len(self.feature)
        if any(len(each) != nodes for each in (self.threshold, self.left, self.right)):
            return "its nodes have parts of different lengths"
        if not (np.isfinite(self.threshold).all() and np.isfinite(self.value).all()):
            return "a number is not finite"
        starts = np.append(self.roots.astype(np.int64), nodes)
        if starts[0] != 0 or (np.diff(starts) <= 0).any():
            return "the trees do not follow each other"
        if ((self.feature < -1) | (self.feature >= columns)).any():
            return f"a node looks at a column that is not one of {columns}"
        own, end = np.arange(nodes), np.repeat(starts[1:], np.diff(starts))
        inner = self.feature >= 0
        for child in (self.left, self.right):
            if ((child <= own) | (child >= end))[inner].any():
                return "a child does not follow its parent in the same tree"
        parents = np.bincount(np.concatenate([self.left[inner], self.right[inner], self.roots]), minlength=nodes)
        if (parents != 1).any():
            return "a node has two parents, or none"
        level, depth = self.roots, 0
        while (level := level[inner[level]]).size:
            level, depth = np.concatenate([self.left[level], self.right[level]]), depth + 1
            if depth > DEEPEST:
                return f"a tree has more than {DEEPEST} levels"
        leaves = self.left[~inner]
        return "a leaf has no value" if ((leaves < 0) | (leaves >= len(self.value))).any() else None


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees for all outputs of a run: the same for all of them, or where labels are missing, some for each target.

    Args:
        columns: the columns of ``describe`` that it sees.
        usual: their medians over the training molecules, for molecules without a number.
        mean, deviation: of the labels of each output; trees predict labels of mean 0 and deviation 1.
        trees: trees with all outputs, or for each output.
        width: the number of columns of ``describe``.
    """

    columns: np.ndarray
    usual: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    trees: list[Trees]
    width: int

    def __call__(self, x: np.ndarray) -> Float[Tensor, "graphs outputs"]:
        """The predictions for rows of ``describe``; probabilities for classes."""
        if x.shape[1] != self.width:
            raise ValueError(f"the forest was fitted to {self.width} columns of descriptors, and here are {x.shape[1]}.")
        chosen = self._chosen(x, self.columns, self.usual)
        return torch.from_numpy(np.concatenate([trees(chosen) for trees in self.trees], axis=1) * self.deviation + self.mean)

    @staticmethod
    def _chosen(x: np.ndarray, columns: np.ndarray, usual: np.ndarray) -> np.ndarray:
        chosen = x[:, columns]
        return np.where(np.isnan(chosen), usual, chosen).astype(np.float32)

    @property
    def size(self) -> dict[str, int]:
        """The number of trees and of columns."""
        return {"trees": sum(len(each.roots) for each in self.trees), "columns": len(self.columns)}

    @classmethod
    def fit(
        cls,
        x: np.ndarray,
        problem: Problem,
        ids: Ids,
        class_balance: bool = False,
        callback: Callback | None = None,
        threads: int | None = None,
    ) -> "Forest":
        """Fit it to some graphs of a problem, with the weights that their rows and classes have in training. Weights of targets (``task_weights``) are not
        used. For a target without labels, it predicts the probability 0.5, or the number 0.

        Args:
            x: their rows of ``describe``.
            problem, ids: the problem and the graphs.
            class_balance: as in ``label_weights``.
            callback: receives progress events.
            threads: number of trees to fit at once; as many as there are cores if not given.
        """
        from reign.data.molecules import cores

        y, callback, threads = problem.y[ids].numpy(), callback or Callback(), threads or cores()
        weights = label_weights(problem, class_balance)
        w = np.ones_like(y) if weights is None else weights[ids].numpy()
        if problem.task == "multiclass":
            there = ~np.isnan(y[:, 0])
            x, w, y = x[there], w[there], np.eye(len(problem.classes))[y[there, 0].astype(int)]
        usual = np.nan_to_num(np.array([np.median(each[~np.isnan(each)]) if not np.isnan(each).all() else 0 for each in x.T]))
        differ = (np.where(np.isnan(x), usual, x) != usual).sum(0)
        columns = np.flatnonzero(differ >= min(PRESENT, differ.max()))
        width, x, usual = x.shape[1], cls._chosen(x, columns, usual[columns]), usual[columns].astype(np.float32)
        mean, deviation = np.zeros(y.shape[1]), np.ones(y.shape[1])
        if problem.task == "regression":
            labels = [y[~np.isnan(y[:, t]), t] for t in range(y.shape[1])]
            mean = np.array([each.mean() if each.size else 0.0 for each in labels])
            deviation = np.array([each.std() or 1.0 if each.size else 1.0 for each in labels])
        y = (y - mean) / deviation
        if not np.isnan(y).any() and bool((w == w[:, :1]).all()):
            parts = [(np.arange(len(y)), slice(None))]
        else:
            parts = [(np.flatnonzero(~np.isnan(y[:, t]) & (w[:, t] > 0)), slice(t, t + 1)) for t in range(y.shape[1])]
        number = max(LEAST_TREES, TREES // len(parts))
        leaves = max(1, LARGEST // (number * len(parts) * (2 * NODE + 4 * y[:, parts[0][1]].shape[1])))
        often = np.unique(y[~np.isnan(y)], return_counts=True)[1]
        trees, how = [], NUMBERS if problem.task == "regression" and 2 * often.max() <= often.sum() else CLASSES
        for own, of in parts:
            if len(own):
                trees.append(Trees.fit(x[own], y[own, of], w[own, of][:, 0], number, leaves, how, callback, threads))
            else:  # trees of one leaf, for what is not known
                unknown = np.full((1, 1), 0.0 if problem.task == "regression" else 0.5)
                trees.append(Trees.fit(x[:1], unknown, np.ones(1), number, leaves, how, callback, threads))
        return cls(columns.astype(np.int32), usual, mean, deviation, trees, width)

    def save(self, file: Path) -> None:
        """Write as safetensors."""
        arrays = {name: getattr(self, name) for name in PLAIN}
        arrays |= {f"{t}.{name}": getattr(each, name) for t, each in enumerate(self.trees) for name in NODES}
        about = {"width": str(self.width), "descriptors": digest()}
        write_tensors(file, {name: torch.from_numpy(array) for name, array in arrays.items()}, about)

    @classmethod
    def load(cls, file: Path, outputs: int) -> "Forest":
        """Read what ``save`` wrote. Everything is checked before it is used.

        Args:
            file: the file.
            outputs: the number of outputs of the run.
        """
        tensors, about = read_tensors(file)
        arrays = {name: each.numpy() for name, each in tensors.items() if each.dtype in (torch.float32, torch.float64, torch.int32)}
        number = (len(arrays) - len(PLAIN)) // len(NODES)
        names = [*PLAIN, *(f"{t}.{name}" for t in range(number) for name in NODES)]
        if number < 1 or set(arrays) != set(names) or set(tensors) != set(names):
            raise ValueError(f"{file} is damaged (it has {', '.join(sorted(tensors)):.80}, expected the arrays of a forest).")
        if about.get("descriptors") != digest():
            raise ValueError(
                f"the forest in {file} was fitted to other descriptors, as by another version of RDKit; use that version, or train again."
            )
        columns, usual, mean, deviation = (arrays[name] for name in PLAIN)
        trees = [Trees(*(arrays[f"{t}.{name}"] for name in NODES)) for t in range(number)]
        width = about.get("width", "")
        made = cls(columns, usual, mean, deviation, trees, int(width) if width.isdecimal() and len(width) < 8 else 0)
        if (why := made._why_wrong(outputs)) is not None:
            raise ValueError(f"{file} is damaged ({why}); do not use it, or train again.")
        return made

    def _why_wrong(self, outputs: int) -> str | None:
        sizes = {"columns": len(self.columns.ravel()), "usual": len(self.columns.ravel()), "mean": outputs, "deviation": outputs}
        for (name, kind), size in zip(PLAIN.items(), sizes.values(), strict=True):
            array = getattr(self, name)
            if array.dtype != kind or array.shape != (size,) or not np.isfinite(array).all():
                return f"{name} has the type {array.dtype} and the shape {array.shape}, or a number that is not finite"
        if (
            not len(self.columns)
            or self.columns.min() < 0
            or self.columns.max() >= self.width
            or (np.diff(self.columns) <= 0).any()
        ):
            return f"its columns are not different numbers from 0 to {self.width - 1} in order"
        for each in self.trees:
            if (why := each.why_wrong(len(self.columns))) is not None:
                return why
        widths = [each.value.shape[1] for each in self.trees]
        return None if widths in ([outputs], [1] * outputs) else f"its trees have {widths} outputs, expected {outputs}"
