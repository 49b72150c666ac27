r"""A Gaussian process on counts of Morgan environments and atom pairs and on RDKit descriptors, which predicts numbers for small tables of molecules.

Its kernel is a mean of Tanimoto's similarities of both kinds of counts, and of one of the D descriptors z, which have mean 0 and deviation 1:

.. math:: k(a, b) = \frac{w}{2} \sum_{\text{kinds}} \frac{\sum_c \min(a_c, b_c)}{\sum_c \max(a_c, b_c)}
    + (1 - w) \exp \Big( -\frac{|z_a - z_b|^2}{2 \ell^2 D} \Big)

The share w, the length l and the noise of the labels are those under which the training labels are most likely, so that there is nothing to tune.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import Ids, Problem
from reign.disk import read_tensors, write_tensors
from reign.train.engine.callbacks import Callback
from reign.train.predict.forest import digest, kinds_of_columns
from reign.train.settings.losses import label_weights

MOST_ROWS, JUDGES = 5_000, 1_000  # rows that it learns from, and rows that choose share, length and noise
HIGHEST, FURTHEST = 8, 4.0  # larger counts are as this one; descriptors go no further than this many deviations from their mean
SHARES, LENGTHS = (0.6, 0.3, 0.8), (1.0, 0.5, 2.0)  # the search begins with the first ones
NOISES = np.logspace(-2.5, 0, 16)  # of labels with deviation 1
AT_ONCE = 512  # molecules that are predicted at a time

Matrix = np.ndarray
ARRAYS = {"counts": "uint8", "numbers": "float32", "alpha": "float64", "kernel": "float64"}  # those of molecules and targets
PLACES = {"of_counts": "int32", "of_numbers": "int32", "usual": "float64", "mean": "float64", "deviation": "float64"}


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A Gaussian process for each target.

    Args:
        counts, numbers: the counts and the scaled descriptors of the molecules that it learned from.
        alpha: the weight of each of these molecules in the prediction of each target, in the units of the target.
        kernel: share and length for each target, and the mean of its labels.
        of_counts, of_numbers: the columns of ``describe`` that hold counts and descriptors.
        usual, mean, deviation: of each of these descriptors; the median stands for descriptors without a number.
        width: the number of columns of ``describe``.
    """

    counts: Matrix
    numbers: Matrix
    alpha: Matrix
    kernel: Matrix
    of_counts: Matrix
    of_numbers: Matrix
    usual: Matrix
    mean: Matrix
    deviation: Matrix
    width: int

    def __call__(self, x: Matrix) -> Float[Tensor, "graphs outputs"]:
        """The predictions for rows of ``describe``."""
        if x.shape[1] != self.width:
            raise ValueError(f"the Gaussian process was fitted to {self.width} columns of descriptors, and here are {x.shape[1]}.")
        known, out = self._known, np.empty((len(x), len(self.kernel)))
        for at in range(0, len(x), AT_ONCE):
            counts, numbers = self._read(x[at : at + AT_ONCE])
            same, apart = known.to(counts, numbers)
            for t, (share, length, mean) in enumerate(self.kernel):
                out[at : at + AT_ONCE, t] = mean + _kernel(same, apart, share, length) @ self.alpha[:, t]
        return torch.from_numpy(out)

    def _read(self, x: Matrix) -> tuple[Matrix, Matrix]:
        """Counts and scaled descriptors of rows of ``describe``."""
        counts = np.nan_to_num(x[:, self.of_counts]).clip(0, HIGHEST).astype(np.uint8)
        z = (_finite(x[:, self.of_numbers], self.usual) - self.mean) / self.deviation
        return counts, z.clip(-FURTHEST, FURTHEST).astype(np.float32)

    @cached_property
    def _known(self) -> "_Similar":
        return _Similar(self.counts, self.numbers, self._kinds())

    def _kinds(self) -> Matrix:
        """The kind of each column of counts."""
        return kinds_of_columns(self.width)[self.of_counts]

    @property
    def size(self) -> dict[str, int]:
        """The number of molecules that it learned from, and of columns."""
        return {"molecules": len(self.counts), "columns": len(self.of_counts) + len(self.of_numbers)}

    @classmethod
    def fit(
        cls,
        x: Matrix,
        problem: Problem,
        ids: Ids,
        class_balance: bool = False,
        callback: Callback | None = None,
        threads: int | None = None,
    ) -> "GaussianProcess":
        """Fit it to some graphs of a problem, with the weights that their rows have in training; see ``Forest.fit`` for the arguments.

        Of more than ``MOST_ROWS`` graphs, it learns from so many that are drawn at random among those with labels, and from fewer for each of several targets.
        For a target without labels it predicts 0.
        """
        from threadpoolctl import threadpool_limits

        callback, draw = callback or Callback(), np.random.default_rng(0)
        y, weights = problem.y[ids].numpy(), label_weights(problem, class_balance)
        w = np.ones_like(y) if weights is None else weights[ids].numpy()
        targets, y = y.shape[1], np.where(w > 0, y, np.nan)
        y = _drawn(y, draw.permutation(len(y)))
        rows = np.flatnonzero(~np.isnan(y).all(1))
        rows = rows if len(rows) else np.arange(1)
        x, y, w = x[rows], y[rows], w[rows]
        among = kinds_of_columns(x.shape[1]) != "rdkit_2d"
        of_counts, of_numbers = np.flatnonzero(among & (np.nan_to_num(x) != 0).any(0)), np.flatnonzero(~among)
        own = x[:, of_numbers].astype(np.float64)
        usual = np.array([np.median(each[np.isfinite(each)]) if np.isfinite(each).any() else 0.0 for each in own.T])
        own = _finite(own, usual)
        differ = own.std(0) > 1e-6 * (1 + np.abs(own.mean(0)))
        of_numbers, usual, own = of_numbers[differ], usual[differ], own[:, differ]
        empty = np.zeros((0, 0))
        shape = of_counts.astype(np.int32), of_numbers.astype(np.int32), usual, own.mean(0), own.std(0), x.shape[1]
        blank = cls(empty, empty, empty, empty, *shape)
        (counts, numbers), kinds = blank._read(x), blank._kinds()
        alpha, kernel = np.zeros((len(x), targets)), np.tile([SHARES[0], LENGTHS[0], 0.0], (targets, 1))
        with threadpool_limits(threads, "blas"):
            for t in callback.track(range(targets), "fitting the Gaussian process"):
                there = np.flatnonzero(~np.isnan(y[:, t]))
                if len(there):
                    molecules = _Similar(counts[there], numbers[there], kinds)
                    alpha[there, t], kernel[t] = _learn(molecules, y[there, t], w[there, t], draw, callback)
        return cls(counts, numbers, alpha, kernel, *shape)

    def save(self, file: Path) -> None:
        """Write as safetensors."""
        arrays = {name: torch.from_numpy(np.ascontiguousarray(getattr(self, name))) for name in ARRAYS | PLACES}
        write_tensors(file, arrays, {"width": str(self.width), "descriptors": digest()})

    @classmethod
    def load(cls, file: Path, outputs: int) -> "GaussianProcess":
        """Read what ``save`` wrote. Everything is checked before it is used; see ``Forest.load``."""
        tensors, about = read_tensors(file)
        readable = {
            name: each.numpy()
            for name, each in tensors.items()
            if each.dtype in (torch.uint8, torch.int32, torch.float32, torch.float64)
        }
        if set(tensors) != set(ARRAYS | PLACES) or set(readable) != set(tensors):
            raise ValueError(
                f"{file} is damaged (it has {', '.join(sorted(tensors)):.80}, expected the arrays of a Gaussian process)."
            )
        if about.get("descriptors") != digest():
            raise ValueError(
                f"the Gaussian process in {file} was fitted to other descriptors, as by another version of RDKit; use that version, or train again."
            )
        arrays, width = readable, about.get("width", "")
        made = cls(**arrays, width=int(width) if width.isdecimal() and len(width) < 8 else 0)
        if (why := made._why_wrong(outputs)) is not None:
            raise ValueError(f"{file} is damaged ({why}); do not use it, or train again.")
        return made

    def _why_wrong(self, outputs: int) -> str | None:
        rows, numbers = self.counts.shape[0] if self.counts.ndim else 0, self.of_numbers.size
        if not 1 <= rows <= MOST_ROWS:
            return f"it has {rows:,} molecules, expected 1 to {MOST_ROWS:,}"
        shapes: dict[str, tuple[int, ...]] = {
            "counts": (rows, self.of_counts.size),
            "numbers": (rows, numbers),
            "alpha": (rows, outputs),
            "kernel": (outputs, 3),
        }
        shapes |= {"of_counts": (self.of_counts.size,), "of_numbers": (numbers,)} | dict.fromkeys(
            ("usual", "mean", "deviation"), (numbers,)
        )
        for name, kind in (ARRAYS | PLACES).items():
            array = getattr(self, name)
            if array.dtype != kind or array.shape != shapes[name] or not np.isfinite(array).all():
                return f"{name} has the type {array.dtype} and the shape {array.shape}, or a number that is not finite"
        for columns in (self.of_counts, self.of_numbers):
            if columns.size and (columns[0] < 0 or columns[-1] >= self.width or (np.diff(columns) <= 0).any()):
                return f"its columns are not different numbers from 0 to {self.width - 1} in order"
        share, length = self.kernel[:, 0], self.kernel[:, 1]
        if (self.deviation <= 0).any() or (length <= 0).any() or (share < 0).any() or (share > 1).any():
            return "a deviation or a length is not above 0, or a share not between 0 and 1"
        return None


def _drawn(y: Matrix, order: Matrix) -> Matrix:
    """The labels to learn from: those of the first rows in an order for each target, so many that no more than ``MOST_ROWS`` rows have any; NaN for others."""
    most = int(MOST_ROWS / y.shape[1] ** 0.5)
    while True:
        number = np.empty(y.shape, int)  # of a label, counted in this order
        number[order] = (~np.isnan(y[order])).cumsum(0)
        chosen = np.where(number <= most, y, np.nan)
        if most <= 1 or (~np.isnan(chosen).all(1)).sum() <= MOST_ROWS:
            return chosen
        most = most * 3 // 4


def _finite(x: Matrix, usual: Matrix) -> Matrix:
    """Descriptors that RDKit could compute, in double precision, as some have more than 30 digits; for others the usual ones."""
    return np.where(np.isfinite(x), x, usual).astype(np.float64)


class _Similar:
    """Some molecules, to which others are compared."""

    def __init__(self, counts: Matrix, numbers: Matrix, kinds: Matrix) -> None:
        self.counts, self.numbers = counts, numbers.astype(np.float64)
        self.groups = [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]
        self.highest = counts.max(0, initial=0)
        self.ones = [self._reached(counts, columns) for columns in self.groups]

    def _reached(self, counts: Matrix, columns: Matrix) -> Matrix:
        """A column of 0 and 1 for each count that is reached, so that a product of rows is a sum of minima."""
        parts = [counts[:, columns[self.highest[columns] >= n]] >= n for n in range(1, HIGHEST + 1)]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def to(self, counts: Matrix, numbers: Matrix) -> tuple[Matrix, Matrix]:
        """The mean of Tanimoto's similarities to each of the molecules, and the mean squared distance of descriptors."""
        same = np.zeros((len(counts), len(self.counts)), np.float32)
        for columns, ones in zip(self.groups, self.ones, strict=True):
            least = self._reached(counts, columns) @ ones.T
            most = counts[:, columns].sum(1, dtype=np.float32)[:, None] + ones.sum(1) - least
            same += least / np.maximum(most, 1) / len(self.groups)
        z = numbers.astype(np.float64)
        apart = np.square(z).sum(1)[:, None] + np.square(self.numbers).sum(1) - 2 * z @ self.numbers.T
        return same, apart.clip(0) / max(1, numbers.shape[1])


def _kernel(same: Matrix, apart: Matrix, share: float, length: float) -> Matrix:
    return share * same.astype(np.float64) + (1 - share) * np.exp(-apart / (2 * length**2))


def _learn(molecules: _Similar, y: Matrix, w: Matrix, draw: np.random.Generator, callback: Callback) -> tuple[Matrix, Matrix]:
    """The weights of molecules; and share, length and mean, chosen by some of them."""
    from scipy.linalg import cho_factor, cho_solve

    mean = np.average(y, weights=w)
    deviation = np.sqrt(np.average((y - mean) ** 2, weights=w)) or 1.0
    root = np.sqrt(w)  # a row of weight 2 has half the noise
    same, apart = molecules.to(molecules.counts, molecules.numbers)
    few = draw.permutation(len(y))[:JUDGES]
    part, scaled = np.ix_(few, few), root * (y - mean) / deviation

    def likelihood(share: float, length: float) -> tuple[float, float, float, float]:
        """The largest likelihood over noises, with the noise."""
        values, vectors = np.linalg.eigh(root[few, None] * _kernel(same[part], apart[part], share, length) * root[few])
        spread = np.maximum(values, 0)[:, None] + NOISES
        size = (np.square(vectors.T @ scaled[few])[:, None] / spread).mean(0)
        found = -np.log(spread).sum(0) - len(few) * np.log(np.maximum(size, 1e-12))
        best = int(found.argmax())
        return float(found[best]), share, length, float(NOISES[best])

    best = max(likelihood(share, LENGTHS[0]) for share in callback.track(SHARES, "kernels of the Gaussian process"))
    best = max([best, *(likelihood(best[1], length) for length in callback.track(LENGTHS[1:], "kernels of the Gaussian process"))])
    _, share, length, noise = best
    matrix = root[:, None] * _kernel(same, apart, share, length) * root
    matrix[np.diag_indices_from(matrix)] += noise
    return deviation * root * cho_solve(cho_factor(matrix, lower=True, overwrite_a=True), scaled), np.array([share, length, mean])
