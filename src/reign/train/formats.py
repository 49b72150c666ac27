"""The number formats of a model: of its weights, and of matrix products."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch

PROCESSOR = Path("/proc/cpuinfo")  # on Linux
MANY = 16_384  # rows for which oneDNN is worth its preparations, which it makes for every new number of rows


def dtype_of(precision: str) -> torch.dtype:
    """The number format of weights, features and targets."""
    return torch.float64 if precision == "64-true" else torch.float32


@contextmanager
def number_format(device: torch.device, precision: str, rows: int = MANY) -> Iterator[None]:
    """The number format of matrix products, which is the same in training and in prediction.

    "bf16-mixed" uses bfloat16. "32-true" uses float32; on GPUs its products are computed in TF32 (fewer digits, accumulated in float32),
    and on a CPU by the faster library (see ``onednn_pays``). "32-ieee" uses full float32 everywhere, as PyTorch does by default.

    Args:
        device: where products are computed.
        precision: the name of the format.
        rows: number of pairs (subgraph, node) that are computed together, or of nodes if the model has no subgraphs.
    """
    with _precision_of_products(_wanted(device, precision, rows)), bfloat16_products(device, precision == "bf16-mixed"):
        yield


def _wanted(device: torch.device, precision: str, rows: int) -> str | None:
    """PyTorch's name for the precision of products; None if it stays as it is."""
    if device.type == "cuda" and precision in ("32-true", "bf16-mixed"):
        return "high"
    return "medium" if device.type == "cpu" and precision == "32-true" and rows >= MANY and onednn_pays() else None


@contextmanager
def _precision_of_products(name: str | None) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    if name is not None:
        torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@cache
def onednn_pays() -> bool:
    """Whether oneDNN computes float32 products faster than MKL on this processor, with as many digits.

    PyTorch takes MKL, and oneDNN only where products may have fewer digits ("medium"). But MKL uses AVX-512 on processors of Intel
    only. On others that have it, oneDNN takes half the time, and computes all digits if there are no units for bfloat16.
    """
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkldnn.is_available():
        return False
    if not PROCESSOR.is_file() or "GenuineIntel" in PROCESSOR.read_text():
        return False
    a, b = torch.linspace(-1, 1, 64 * 64).view(64, 64), torch.linspace(0, 1, 64 * 64).view(64, 64)
    with _precision_of_products("medium"):
        return torch.allclose((a @ b).double(), a.double() @ b.double(), rtol=0, atol=1e-3)


def bfloat16_products(device: torch.device, enabled: bool = True) -> torch.autocast:
    """Matrix products in bfloat16. Weights are converted at every use: they may change in between, and a CUDA graph reads them anew."""
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled, cache_enabled=False)
