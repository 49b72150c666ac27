"""Stages of a layer on a CPU, in blocks of rows that stay in the cache: PyTorch operations, and nothing to compile."""

from reign.kernels._plan import BLOCKED as LIMITS
from reign.kernels.blocked._blocks import threads_for_blocks_only
from reign.kernels.blocked._passing import FEW_TYPES, sums
from reign.kernels.blocked._stages import NodeStage, PairStage

__all__ = ["FEW_TYPES", "LIMITS", "NodeStage", "PairStage", "sums", "threads_for_blocks_only"]
