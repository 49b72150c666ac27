"""Batch norms as two vectors: ``alpha * y + beta`` forward, ``alpha * g + kappa * y + lam`` backward."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Norm:
    """One batch norm: its weights, and its running statistics, which are written to in training."""

    scale: Tensor
    shift: Tensor
    running_mean: Tensor
    running_var: Tensor
    momentum: float
    eps: float


@dataclass(frozen=True, eq=False)
class Affine:
    """What a norm does to its rows; ``number`` is how many rows its statistics come from, 0 if these are running ones."""

    alpha: Tensor
    beta: Tensor
    mean: Tensor
    inverse: Tensor
    number: int

    @classmethod
    def make(cls, mean: Tensor, var: Tensor, scale: Tensor, shift: Tensor, eps: float, dtype: torch.dtype, number: int) -> "Affine":
        """What norms with these statistics and weights do, computed in float64."""
        mean, inverse = mean.double(), (var.double() + eps).rsqrt()
        alpha = scale.double() * inverse
        beta = shift.double() - mean * alpha
        return cls(alpha.to(dtype), beta.to(dtype), mean.to(dtype), inverse.to(dtype), number)

    def tensors(self) -> tuple[Tensor, ...]:
        """Its vectors."""
        return self.alpha, self.beta, self.mean, self.inverse

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

    def finish(self, norm: Norm, training: bool) -> Affine:
        """The norm over all rows. In training running statistics are updated, and used where there is no variance."""
        number, dtype = sum(self.number), self.means[0].dtype
        mean, var, counted = norm.running_mean.double(), norm.running_var.double(), 0
        if training and number >= 2:
            share, counted = torch.tensor(self.number, dtype=torch.float64) / number, number
            means = torch.stack(self.means).double()
            mean = share @ means
            var = share @ (means - mean).square_().add_(torch.stack(self.vars))
            norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), norm.momentum)
            norm.running_var.lerp_((var * (number / (number - 1))).to(norm.running_var.dtype), norm.momentum)
        return Affine.make(mean, var, norm.scale, norm.shift, norm.eps, dtype, counted)


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

    def finish(self) -> tuple[Tensor, Tensor]:
        """Both sums in float64: the gradients of a norm's shift and scale."""
        return torch.stack(self.one).sum(0, dtype=torch.float64), torch.stack(self.two).sum(0, dtype=torch.float64)


def back(affine: Affine, sums: tuple[Tensor, Tensor]) -> Back:
    """How gradients flow back, given their sums."""
    if affine.number == 0:
        return Back(affine.alpha)
    alpha, _, mean, inverse = (v.double() for v in affine.tensors())
    kappa = -alpha * inverse * sums[1] / affine.number
    lam = -alpha * sums[0] / affine.number - kappa * mean
    return Back(affine.alpha, kappa.to(affine.alpha.dtype), lam.to(affine.alpha.dtype))


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
