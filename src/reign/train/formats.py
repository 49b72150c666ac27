"""The number formats of a model: of its weights, and of matrix products."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def dtype_of(precision: str) -> torch.dtype:
    """The number format of weights, features and targets."""
    return torch.float64 if precision == "64-true" else torch.float32


@contextmanager
def number_format(device: torch.device, precision: str) -> Iterator[None]:
    """The number format of matrix products, which is the same in training and in prediction.

    "bf16-mixed" uses bfloat16. "32-true" uses float32; on GPUs its products are computed in TF32 (fewer digits, accumulated in float32).
    "32-ieee" uses full float32 everywhere.
    """
    before = torch.get_float32_matmul_precision()
    if device.type == "cuda" and precision in ("32-true", "bf16-mixed"):
        torch.set_float32_matmul_precision("high")
    try:
        with bfloat16_products(device, precision == "bf16-mixed"):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def bfloat16_products(device: torch.device, enabled: bool = True) -> torch.autocast:
    """Matrix products in bfloat16. Weights are converted at every use: they may change in between, and a CUDA graph reads them anew."""
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled, cache_enabled=False)
