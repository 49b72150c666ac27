"""Which version runs: the fused kernels where they can, plain PyTorch everywhere else."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

from reign.kernels import blocked

_enabled = True


@contextmanager
def fast_path(enabled: bool) -> Iterator[None]:
    """Within this context, fused kernels run where they can, or nowhere.

    >>> with fast_path(False):
    ...     kernels_for(torch.zeros(1)) is None
    True
    """
    global _enabled
    before, _enabled = _enabled, enabled
    try:
        yield
    finally:
        _enabled = before


def _set(enabled: bool) -> None:
    global _enabled
    _enabled = enabled


fast_path_state = (lambda: _enabled), _set  # for threads that take turns: how to read the switch, and how to set it


@cache
def _load() -> ModuleType | None:
    try:
        import triton  # noqa: F401
    except ModuleNotFoundError:
        return None
    from reign.kernels import fused

    return fused


def kernels_for(x: Tensor) -> ModuleType | None:
    """The fused kernels if they can work on this tensor: 32-bit numbers on a GPU (or in Triton's interpreter), outside of autocast."""
    if not _enabled or x.dtype != torch.float32 or torch.is_autocast_enabled(x.device.type):
        return None
    if not x.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        return None
    return _load()


def stages_for(x: Tensor) -> ModuleType | None:
    """The stages of layers that can work on this tensor: fused kernels on a GPU, blocks of rows on a CPU; None for plain operations.

    Blocks are for 32-bit and 64-bit numbers outside of autocast, and not where PyTorch has to see every single operation: in ``torch.compile``,
    ``torch.func``, forward-mode differentiation and traces.
    """
    if (kernels := kernels_for(x)) is not None:
        return kernels
    if not _enabled or x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64) or torch.is_autocast_enabled("cpu"):
        return None
    watched = torch.compiler.is_compiling() or torch._C._is_tracing() or torch._C._functorch.peek_interpreter_stack() is not None
    if watched or type(x) is not Tensor or torch.autograd.forward_ad._current_level >= 0:
        return None
    return blocked


def compile_ahead(device: torch.device, wait: bool = True) -> AbstractContextManager[None]:
    """Within this context, fused kernels are compiled on several cores and not run; ``wait`` for them at its end.

    What they would have computed stays undefined. Where there are no such kernels, nothing changes.
    """
    kernels = _load() if device.type == "cuda" else None
    return nullcontext() if kernels is None else kernels.compile_ahead(wait)
