"""Freed memory is kept for the next operation."""

import ctypes
import sys

import pytest
import torch

from reign.kernels import keep_freed_memory

glibc = sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt")


def _fresh_pages(megabytes: int) -> int:
    """The number of pages that the operating system hands out for a tensor of a given size."""
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(megabytes * 2**18)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(not glibc, reason="only glibc on Linux has these settings")
def test_memory_is_used_again_and_then_given_back() -> None:
    with keep_freed_memory():
        _fresh_pages(64)
        again = _fresh_pages(64)
    afterwards = _fresh_pages(64)
    assert again < 100  # 64 MB are 16,384 pages of 4 KB, or 32 large ones
    assert afterwards > 2 * again + 16


def test_errors_pass_through() -> None:
    with pytest.raises(ValueError, match="inside"), keep_freed_memory():
        raise ValueError("inside")
