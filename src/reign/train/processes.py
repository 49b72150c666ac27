"""The interface of devices and processes: the part of Lightning's Fabric that training uses.

A single process does not need Lightning, which takes seconds to import. Several processes use a Fabric.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from reign.train.formats import bfloat16_products


@runtime_checkable
class Fabric(Protocol):
    """A device, and a process among others. ``lightning.fabric.Fabric`` has this interface."""

    @property
    def device(self) -> torch.device:
        """The device of this process."""

    @property
    def world_size(self) -> int:
        """The number of processes."""

    @property
    def global_rank(self) -> int:
        """The rank of this process."""

    @property
    def is_global_zero(self) -> bool:
        """Whether this is the first process, which writes files."""

    def setup(self, module: nn.Module, *optimisers: Optimizer) -> Any:
        """Prepare a model and its optimiser."""

    def backward(self, tensor: Tensor) -> None:
        """Compute gradients, and average them over processes."""

    def no_backward_sync(self, module: Any, enabled: bool = True) -> AbstractContextManager[Any]:
        """A context in which gradients are not averaged over processes."""

    def clip_gradients(self, module: Any, optimizer: Any, *, max_norm: float) -> Any:
        """Bound the norm of the gradient."""

    def barrier(self) -> None:
        """Wait for all processes."""

    def broadcast(self, obj: Any) -> Any:
        """The object of the first process."""


class OneProcess:
    """One process on one device.

    Args:
        device: the device.
        precision: "32-true", or "bf16-mixed" for products in bfloat16.
    """

    world_size = 1
    global_rank = 0
    is_global_zero = True

    def __init__(self, device: torch.device, precision: str = "32-true") -> None:
        self.device, self.precision = device, precision

    def setup(self, module: nn.Module, *optimisers: Optimizer) -> Any:
        """Return the model on the device, in the form that training calls, and the optimisers unchanged."""
        module.to(self.device)
        called: Any = _Bfloat16(module, self.device) if self.precision == "bf16-mixed" else module
        return (called, *optimisers) if optimisers else called

    def backward(self, tensor: Tensor) -> None:
        """Compute gradients."""
        tensor.backward()

    def no_backward_sync(self, module: Any, enabled: bool = True) -> AbstractContextManager[Any]:
        """Do nothing, because gradients are not averaged."""
        return nullcontext()

    def clip_gradients(self, module: nn.Module, optimizer: Any, *, max_norm: float) -> Tensor:
        """Bound the norm of the gradient."""
        return nn.utils.clip_grad_norm_(module.parameters(), max_norm)

    def barrier(self) -> None:
        """Do nothing, because there are no other processes."""

    def broadcast(self, obj: Any) -> Any:
        """The object itself."""
        return obj


class _Bfloat16(nn.Module):
    """A model whose products are computed in bfloat16, and whose outputs are float32."""

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.module, self.device = module, device

    def forward(self, *args: Any, **more: Any) -> Tensor:
        with bfloat16_products(self.device):
            out: Tensor = self.module(*args, **more)
        return out.float()


def precision_of(fabric: Any) -> str:
    """The precision that a fabric was made for."""
    return str(fabric.precision if isinstance(fabric, OneProcess) else fabric._precision.precision)
