"""Several processes that give the same result as one: the statistics of batch norms range over the rows of all processes."""

from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce

from reign.nn import BatchNorm


class SyncedBatchNorm(BatchNorm):
    """Batch norm whose statistics range over the rows of all processes. A process may have any number of rows, even none."""

    def forward(self, x: Float[Tensor, "rows channels"]) -> Float[Tensor, "rows channels"]:
        """Normalise this process's rows."""
        if not self.training or not several():
            return super().forward(x)
        wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        count = wide.new_tensor([wide.size(0)])
        dist.all_reduce(count)
        rows = float(count)
        if rows < 2:
            return self._with(x, self.running_mean, self.running_var)
        mean = all_reduce(wide.sum(0)) / rows
        variance = all_reduce((wide - mean).square().sum(0)) / rows
        with torch.no_grad():
            self._track(self.running_mean, mean)
            self._track(self.running_var, variance * rows / (rows - 1))
            if self.num_batches_tracked is not None:
                self.num_batches_tracked += 1
        return self._with(x, mean, variance)

    def _track(self, kept: Tensor | None, new: Tensor) -> None:
        if kept is not None:
            kept.lerp_(new.to(kept.dtype), self.momentum or 0.0)

    def _with(self, x: Tensor, mean: Any, variance: Any) -> Tensor:
        out = (x - mean) * torch.rsqrt(variance + self.eps)
        return (out * self.weight + self.bias).to(x.dtype)


def synchronise(model: nn.Module) -> nn.Module:
    """Make all batch norms of a model use the rows of all processes. Weights and their names do not change."""
    for module in model.modules():
        if type(module) in (BatchNorm, nn.BatchNorm1d):
            module.__class__ = SyncedBatchNorm
    return model


def total(value: Shaped[Tensor, "*size"]) -> Shaped[Tensor, "*size"]:
    """The sum of a value over all processes."""
    if several():
        value = value.clone()
        dist.all_reduce(value)
    return value


def most(value: int) -> int:
    """The maximum of a value over all processes."""
    if not several():
        return value
    tensor = torch.tensor([value], device="cuda" if dist.get_backend() == "nccl" else "cpu")
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return int(tensor)


def several() -> bool:
    """Whether there are several processes."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
