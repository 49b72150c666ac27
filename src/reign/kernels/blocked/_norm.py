"""Batch norms as two vectors: ``alpha * y + beta`` forward, ``alpha * g + kappa * y + lam`` backward.

The vectors are computed in float64, by NumPy, which takes a fraction of PyTorch's time for so few numbers.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Vector = NDArray[np.float64]


def vector(x: Tensor) -> Vector:
    """A tensor as numbers for NumPy."""
    return x.detach().numpy().astype(np.float64)


def tensor(x: Vector, dtype: torch.dtype) -> Tensor:
    """The inverse of ``vector``."""
    return torch.from_numpy(x).to(dtype, copy=True)  # no two tensors share their numbers


@dataclass(frozen=True, eq=False)
class Norm:
    """One batch norm: its weights, and its running statistics, which are written to in training."""

    scale: Tensor
    shift: Tensor
    running_mean: Tensor
    running_var: Tensor
    momentum: float
    eps: float

    def update(self, mean: Vector, var: Vector, number: int) -> None:
        """Move the running statistics towards those of some rows."""
        for running, here in ((self.running_mean, mean), (self.running_var, var * (number / (number - 1)))):
            values = running.numpy()
            values += self.momentum * (here - values)


@dataclass(frozen=True, eq=False)
class Affine:
    """What a norm does to its rows; ``number`` is how many rows its statistics come from, 0 if these are running ones."""

    alpha: Tensor
    beta: Tensor
    mean: Tensor
    inverse: Tensor
    number: int

    @classmethod
    @np.errstate(all="ignore")  # what is not finite is found in the loss, or in the predictions
    def make(cls, mean: Vector, var: Vector, scale: Vector, shift: Vector, eps: float, dtype: torch.dtype, number: int) -> "Affine":
        """What norms with these statistics and weights do."""
        inverse = 1 / np.sqrt(var + eps)
        alpha = scale * inverse
        beta = shift - mean * alpha
        one, two, three, four = tensor(np.stack([alpha, beta, mean, inverse]), dtype)
        return cls(one, two, three, four, number)

    def of(self, slot: int) -> "Affine":
        """That of one of several slots."""
        return Affine(self.alpha[slot], self.beta[slot], self.mean[slot], self.inverse[slot], self.number)

    def __call__(self, y: Tensor) -> Tensor:
        """Normalise a block."""
        return torch.addcmul(self.beta, y, self.alpha)


@dataclass(frozen=True, eq=False)
class Back:
    """How a gradient flows back through a norm."""

    alpha: Tensor
    kappa: Tensor | None = None
    lam: Tensor | None = None

    def __call__(self, g: Tensor, y: Tensor, skipped: Tensor | None) -> Tensor:
        """The gradient of the rows ``y`` of a block, from that of the normalised rows; rows that do not count have none."""
        if self.kappa is None or self.lam is None:
            return g * self.alpha
        out = torch.addcmul(self.lam, y, self.kappa).addcmul_(g, self.alpha)
        return out if skipped is None else out.index_fill_(0, skipped, 0)


class Moments:
    """The mean and variance of rows, block by block; blocks are merged in their order, in float64.

    Args:
        blocks: number of blocks.
        like: a tensor of the rows' number format, with as many channels.
    """

    def __init__(self, blocks: int, like: Tensor) -> None:
        nothing = like.new_zeros(like.size(-1))
        self.number, self.means, self.vars = [0] * blocks, [nothing] * blocks, [nothing] * blocks

    def add(self, b: int, y: Tensor, counted: Tensor | None) -> None:
        """Look at a block; ``counted`` are the rows that count, None for all."""
        y = y if counted is None else y.index_select(0, counted)
        self.number[b] = y.size(0)
        if y.size(0):
            self.means[b], self.vars[b] = torch.batch_norm_update_stats(y, None, None, 0.0)

    @np.errstate(all="ignore")
    def finish(self, norm: Norm, training: bool) -> Affine:
        """The norm over all rows. In training running statistics are updated, and used where there is no variance."""
        number, dtype = sum(self.number), self.means[0].dtype
        scale, shift = vector(norm.scale), vector(norm.shift)
        if not training or number < 2:
            return Affine.make(vector(norm.running_mean), vector(norm.running_var), scale, shift, norm.eps, dtype, 0)
        share = np.array(self.number) / number
        means, own = vector(torch.stack(self.means)), vector(torch.stack(self.vars))
        mean = share @ means
        var = share @ ((means - mean) ** 2 + own)
        norm.update(mean, var, number)
        return Affine.make(mean, var, scale, shift, norm.eps, dtype, number)


class Slopes:
    """Sums over rows of gradients, and of gradients times normalised rows, block by block.

    Args:
        blocks: number of blocks.
        like: a tensor of the rows' number format, with as many channels.
    """

    def __init__(self, blocks: int, like: Tensor) -> None:
        nothing = like.new_zeros(like.size(-1))
        self.one, self.two = [nothing] * blocks, [nothing] * blocks

    def add(self, b: int, g: Tensor, y: Tensor | None = None, affine: Affine | None = None) -> None:
        """Look at the gradients of a block, and at its rows if a norm comes after them."""
        if y is None or affine is None:
            self.one[b] = g.sum(0)
            return
        _, self.two[b], self.one[b] = torch.ops.aten.native_batch_norm_backward(
            g, y, None, None, None, affine.mean, affine.inverse, True, 0.0, [False, True, True]
        )

    def finish(self) -> tuple[Vector, Vector]:
        """Both sums: the gradients of a norm's shift and scale."""
        return vector(torch.stack(self.one)).sum(0), vector(torch.stack(self.two)).sum(0)


@np.errstate(all="ignore")
def back(affine: Affine, sums: tuple[Vector, Vector]) -> Back:
    """How gradients flow back, given their sums."""
    if affine.number == 0:
        return Back(affine.alpha)
    alpha, mean, inverse = vector(affine.alpha), vector(affine.mean), vector(affine.inverse)
    kappa = -alpha * inverse * sums[1] / affine.number
    lam = -alpha * sums[0] / affine.number - kappa * mean
    return Back(affine.alpha, tensor(kappa, affine.alpha.dtype), tensor(lam, affine.alpha.dtype))


def bias_back(affine: Affine, total: Vector) -> Vector:
    """The gradient of a bias before a norm, given the sum of those after it: none if the norm takes the mean of its rows away."""
    return total * vector(affine.alpha) if affine.number == 0 else np.zeros_like(total)


def plain_norm(
    y: Tensor, affine: Affine | None, norm: Norm | None, counted: Tensor | None, scale: Tensor | None, shift: Tensor | None
) -> Tensor:
    """A norm in operations that can be differentiated as often as one likes, over the rows that count, all if not given."""
    if affine is None or norm is None or scale is None or shift is None:
        return y
    if affine.number == 0:
        out = (y - affine.mean) * affine.inverse * scale + shift
    else:
        some = y if counted is None else y[counted]
        mean = some.mean(0)
        out = (y - mean) * ((some - mean).square().mean(0) + norm.eps).rsqrt() * scale + shift
    return out if counted is None else torch.where(counted[:, None], out, 0)
