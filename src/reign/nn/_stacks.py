"""The weights of slots of the same shape, as the stages of kernels take them."""

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from reign.nn._mlp import BatchNorm, Linear
from reign.nn._slots import EncoderSlot, Slot


def shape_of(slot: Slot) -> tuple[bool, int, int, bool]:
    """The shape of a slot: whether it is linear, its hidden and input channels, and whether it has an inner norm. Slots of equal shape can
    be stacked."""
    maps: Any = slot.encoder.mlp if isinstance(slot, EncoderSlot) else slot.transform
    if isinstance(maps, Linear):
        return True, 0, maps.in_features, False
    return False, maps.lin1.out_features, maps.lin1.in_features, isinstance(maps.norm, BatchNorm)


def stack_of(kernels: ModuleType, slots: Sequence[Slot], outer_norm: bool = True) -> Any:
    """The weights of some slots of the same shape, as a ``Stack`` of the kernels.

    Args:
        kernels: fused kernels, or blocks.
        slots: the slots.
        outer_norm: whether the norms after encoders are part of it.
    """
    maps: list[Any] = [slot.encoder.mlp if isinstance(slot, EncoderSlot) else slot.transform for slot in slots]
    outer = _norms(kernels, [slot.norm if isinstance(slot, EncoderSlot) and outer_norm else None for slot in slots])
    if isinstance(maps[0], Linear):
        return kernels.Stack([m.weight for m in maps], [_bias(m) for m in maps], outer=outer)
    return kernels.Stack(
        [m.lin1.weight for m in maps],
        [_bias(m.lin1) for m in maps],
        _norms(kernels, [m.norm for m in maps]),
        [m.lin2.weight for m in maps],
        [_bias(m.lin2) for m in maps],
        outer,
    )


def _norms(kernels: ModuleType, norms: Sequence[nn.Module | None]) -> Any:
    real = [norm if isinstance(norm, BatchNorm) else None for norm in norms]
    some = next((norm for norm in real if norm is not None), None)
    if some is None:
        return None
    parts = [
        [None if norm is None else getattr(norm, name) for norm in real]
        for name in ("weight", "bias", "running_mean", "running_var")
    ]
    return kernels.Norms(*parts, some.momentum, some.eps)


def _bias(linear: nn.Linear) -> Tensor:
    """The bias of a linear map, or zeros if it has none."""
    return _zeros(linear.out_features, linear.weight.device, linear.weight.dtype) if linear.bias is None else linear.bias


@cache
def _zeros(channels: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Zeros that stay where they are: kernels keep the addresses of weights."""
    return torch.zeros(channels, dtype=dtype, device=device)
