"""The number formats of a model: those of its weights, and those in which products are computed."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def dtype_of(precision: str) -> torch.dtype:
    """The number format of weights, features and targets."""
    return torch.float64 if precision == "64-true" else torch.float32


@contextmanager
def number_format(device: torch.device, precision: str) -> Iterator[None]:
    """The number formats of products, the same in training and afterwards.

    "bf16-mixed" asks for bfloat16; "32-true" for float32, on GPUs with products in TF32 (float32 with fewer digits, added up in float32).
    "32-ieee" asks for full float32 everywhere.
    """
    before = torch.get_float32_matmul_precision()
    if device.type == "cuda" and precision in ("32-true", "bf16-mixed"):
        torch.set_float32_matmul_precision("high")
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed"):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
