"""Freed memory is kept for the next operation."""

import ctypes
import json
import subprocess
import sys

import pytest

from reign.kernels import keep_freed_memory

glibc = sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt")

# Counts the pages that the operating system hands out for a tensor of 64 MB. A process of its own, in which nothing else allocates or frees.
COUNT = """
import json, resource, torch
from reign.kernels import keep_freed_memory

def fresh_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(64 * 2**18)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

pages = {"before": fresh_pages()}
with keep_freed_memory():
    for _ in range(10):  # the ends of up to seven aligned blocks stay in glibc's cache of small pieces, and keep the blocks from growing together
        fresh_pages()
    pages["within"] = fresh_pages()
    with keep_freed_memory():
        pass
    pages["after an inner context"] = fresh_pages()  # the first tensor: what was given back may be kept again from the second one on
pages["afterwards"] = fresh_pages()
print(json.dumps(pages))
"""


@pytest.mark.skipif(not glibc, reason="only glibc on Linux has these settings")
def test_memory_is_used_again_and_then_given_back() -> None:
    pages = json.loads(subprocess.run([sys.executable, "-c", COUNT], check=True, capture_output=True, text=True).stdout)
    assert pages["before"] >= 32  # 64 MB are 16,384 pages of 4 KB, or 32 large ones
    few = pages["before"] / 4
    assert pages["within"] < few
    assert pages["after an inner context"] < few
    assert pages["afterwards"] > few


def test_errors_pass_through() -> None:
    with pytest.raises(ValueError, match="inside"), keep_freed_memory():
        raise ValueError("inside")
