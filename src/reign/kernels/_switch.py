"""The switch between fused kernels, where they are available, and plain PyTorch everywhere else."""

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
    """A context in which fused kernels are used where available (``enabled``) or not at all.

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


fast_path_state = (lambda: _enabled), _set  # functions to read and set the switch, for threads that take turns


@cache
def _load() -> ModuleType | None:
    try:
        import triton  # noqa: F401
    except ModuleNotFoundError:
        return None
    from reign.kernels import fused

    return fused


def kernels_for(x: Tensor) -> ModuleType | None:
    """The fused kernels if they support this tensor on a GPU or in Triton's interpreter: float32, or within autocast to bfloat16 also that; otherwise
    None."""
    kind, mixed = x.device.type, torch.is_autocast_enabled(x.device.type)
    if (
        not _enabled
        or x.dtype not in (torch.float32, torch.bfloat16)
        or (mixed and torch.get_autocast_dtype(kind) != torch.bfloat16)
    ):
        return None
    if x.dtype == torch.bfloat16 and not mixed:  # the weights may not be float32
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
    """A context in which fused kernels are compiled on several cores and not run. With ``wait`` its end waits for all compilations.

    The results of these kernels are undefined. Without fused kernels the context has no effect.
    """
    kernels = _load() if device.type == "cuda" else None
    return nullcontext() if kernels is None else kernels.compile_ahead(wait)
