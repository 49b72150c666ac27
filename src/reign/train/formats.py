"""The number formats of a model: of its weights, and of matrix products."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path

import torch

PROCESSOR = Path("/proc/cpuinfo")  # on Linux
MANY = 16_384  # rows for which oneDNN is worth its preparations, which it makes for every new number of rows

_lock = threading.Lock()
_users = 0  # contexts on a CPU that are open, in all threads: the setting belongs to the whole process
_usual = "highest"  # the setting before the first of them


def dtype_of(precision: str) -> torch.dtype:
    """The number format of weights, features and targets."""
    return torch.float64 if precision == "64-true" else torch.float32


@contextmanager
def number_format(device: torch.device, precision: str, rows: int = 0) -> Iterator[None]:
    """The number format of matrix products, which is the same in training and in prediction.

    "bf16-mixed" uses bfloat16. "32-true" uses float32; on GPUs its products are computed in TF32 (fewer digits, accumulated in float32),
    and on a CPU by the faster library (see ``onednn_pays``). "32-ieee" uses full float32 everywhere, from PyTorch's default library.

    Args:
        device: where products are computed.
        precision: the name of the format.
        rows: number of pairs (subgraph, node) that are computed together, or of nodes if the model has no subgraphs; 0 if it is not known.
    """
    with _products(device, precision, rows), bfloat16_products(device, precision == "bf16-mixed"):
        yield


def _products(device: torch.device, precision: str, rows: int) -> AbstractContextManager[None]:
    """The precision of float32 products, in PyTorch's words."""
    if device.type == "cuda" and precision in ("32-true", "bf16-mixed"):
        return _precision("high")
    if precision == "32-ieee":
        return _precision("highest") if device.type == "cuda" else _precision_on_cpu("highest")
    if device.type == "cpu" and precision == "32-true" and rows >= MANY and onednn_pays():
        return _precision_on_cpu("medium")
    return nullcontext()


@contextmanager
def _precision(name: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def _precision_on_cpu(name: str) -> Iterator[None]:
    """The same where threads compute at the same time: the last one to leave restores the setting of the first one to enter."""
    global _users, _usual
    with _lock:
        _usual = _usual if _users else torch.get_float32_matmul_precision()
        _users += 1
        torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                torch.set_float32_matmul_precision(_usual)


@cache
def onednn_pays() -> bool:
    """Whether oneDNN computes float32 products faster than MKL on this processor, with as many digits.

    PyTorch takes MKL, and oneDNN only where products may have fewer digits ("medium"). But MKL does not use AVX-512 on processors of AMD, where
    oneDNN takes half the time. It computes all digits if the processor has no matrix units for bfloat16 (AMX).
    """
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkl.is_available():
        return False
    if not torch.backends.mkldnn.is_available() or not PROCESSOR.is_file() or "AuthenticAMD" not in PROCESSOR.read_text():
        return False
    exact = torch.linspace(-1, 1, 64 * 64, dtype=torch.float64, device="cpu").view(64, 64)
    with torch.autocast("cpu", enabled=False), _precision_on_cpu("medium"):
        return bool((exact.float() @ exact.float() - exact @ exact).abs().max() < 1e-3)


def bfloat16_products(device: torch.device, enabled: bool = True) -> torch.autocast:
    """Matrix products in bfloat16. Weights are converted at every use: they may change in between, and a CUDA graph reads them anew."""
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled, cache_enabled=False)
