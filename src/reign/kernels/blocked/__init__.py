"""Stages of a layer on a CPU, in blocks of rows that stay in the cache: PyTorch operations, and nothing to compile."""

from reign.kernels._stages import Messages, NodeInput, Norms, PairSlot, Rows, Stack
from reign.kernels.blocked._node_stage import NodeStage
from reign.kernels.blocked._passing import FEW_TYPES
from reign.kernels.blocked._stage import PairStage
from reign.kernels.blocked._sums import sums
from reign.kernels.blocked._threads import threads_for_blocks_only

WIDEST = None  # any number of channels

__all__ = [
    "FEW_TYPES",
    "WIDEST",
    "Messages",
    "NodeInput",
    "NodeStage",
    "Norms",
    "PairSlot",
    "PairStage",
    "Rows",
    "Stack",
    "sums",
    "threads_for_blocks_only",
]
