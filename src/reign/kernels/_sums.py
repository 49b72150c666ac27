"""Sums over ragged sets of rows, forward and backward without atomics. All terms are built from this operation.

Readout, needle, broadcast, transpose and message passing all have the form :math:`y_t = \\sum_{s \\in S(t)} x_s`, a product with a
sparse 0/1 matrix. The gradient is a product with the transposed matrix. Both matrices are stored grouped by their targets, so results do
not depend on the order of execution.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Int, Shaped
from torch import Tensor

from reign.kernels import ragged
from reign.kernels._plan import Segments
from reign.kernels._switch import kernels_for

Spaces = tuple[str, str]  # the spaces of rows before and after a sum


@dataclass(frozen=True, eq=False)
class Sum:
    """``sum(x)[t]`` is the sum of ``x[index[ptr[t]:ptr[t + 1]]]``; without ``ptr`` it is ``x[index[t]]``, a broadcast.

    The fields ending in ``_t`` are those of the transposed matrix. ``source`` and ``target`` are the spaces of input and output rows
    ("pair", "node", ...).
    """

    index: Int[Tensor, "entries"]
    ptr: Int[Tensor, "bounds"] | None
    index_t: Int[Tensor, "entries"]
    ptr_t: Int[Tensor, "bounds_t"] | None
    source: str = ""
    target: str = ""

    @classmethod
    def build(cls, source: Tensor, target: Tensor, num_sources: int, num_targets: int, between: Spaces = ("", "")) -> "Sum":
        """Make the sum that adds row ``source[e]`` to row ``target[e]``, for every entry e."""
        index, ptr = _grouped(target, source, num_targets)
        index_t, ptr_t = _grouped(source, target, num_sources)
        return cls(index, ptr, index_t, ptr_t, *between)

    @classmethod
    def broadcast(cls, index: Tensor, num_sources: int, between: Spaces = ("", "")) -> "Sum":
        """Make the broadcast in which row t of the result is row ``index[t]`` of the input."""
        target = torch.arange(index.numel(), device=index.device)
        return cls(index, None, *_grouped(index, target, num_sources), *between)

    @property
    def t(self) -> "Sum":
        """The transposed sum."""
        return Sum(self.index_t, self.ptr_t, self.index, self.ptr, self.target, self.source)

    def __call__(self, x: Shaped[Tensor, "sources channels"]) -> Shaped[Tensor, "targets channels"]:
        """Sum the rows of x."""
        return _applied(x, self.index, self.ptr, self.index_t, self.ptr_t)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, index: Tensor, ptr: Tensor | None, index_t: Tensor, ptr_t: Tensor | None) -> Tensor:
        return _sum(x, index, ptr)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        index, ptr, index_t, ptr_t = ctx.saved_tensors
        return _applied(grad.contiguous(), index_t, ptr_t, index, ptr), None, None, None, None


def _applied(x: Tensor, index: Tensor, ptr: Tensor | None, index_t: Tensor, ptr_t: Tensor | None) -> Tensor:
    """The sum, as a function with a gradient only where one is needed: PyTorch takes longer to call it than a small sum takes."""
    if not x.requires_grad or not torch.is_grad_enabled():
        return _sum(x, index, ptr)
    out: Tensor = _Sum.apply(x, index, ptr, index_t, ptr_t)  # type: ignore[no-untyped-call]
    return out


def _sum(x: Tensor, index: Tensor, ptr: Tensor | None) -> Tensor:
    if ptr is None:
        return x.index_select(0, index)
    if (kernels := kernels_for(x)) is not None:
        out: Tensor = kernels.segment_sum(x.contiguous(), Segments(ptr, index))
        return out
    if index.numel() == 0:
        return x.new_zeros(ptr.numel() - 1, x.size(1))
    if not x.is_floating_point():  # integers: differences of running sums, which are exact modulo 2^64 even if the sums overflow
        running = F.pad(x.index_select(0, index).cumsum(0), (0, 0, 1, 0))
        return running.index_select(0, ptr[1:]) - running.index_select(0, ptr[:-1])
    return F.embedding_bag(index, x, ptr, mode="sum", include_last_offset=True)


def _grouped(by: Tensor, value: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The values in the order of their groups, and the start of each group."""
    count = torch.bincount(by, minlength=size)
    return value[torch.argsort(by, stable=True)], ragged.offsets(count)
