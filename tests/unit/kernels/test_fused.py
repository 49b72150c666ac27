"""The fused kernels in Triton's interpreter on the CPU; ``fused_checks.py`` holds the checks.

They run without the checks of shapes at import, which rewrite functions and so would hide the kernels from the interpreter.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

CHECKS = Path(__file__).with_name("fused_checks.py")
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # plugins of this machine may warn, as pytest-benchmark does beside pytest-xdist


def run(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--noconftest", "-p", "no:cacheprovider", str(CHECKS)]
    return subprocess.run(
        command, capture_output=True, text=True, env=os.environ | ALONE | environment, cwd=Path(__file__).parents[3]
    )


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_in_the_interpreter() -> None:
    done = run(TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    assert torch.cuda.is_available(), "this test needs a GPU"
    done = run(TRITON_INTERPRET="0")
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
