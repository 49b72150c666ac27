"""The fused operations as Triton kernels. Import this package only if triton is installed."""

from reign.kernels.fused._gather import gather
from reign.kernels.fused._launch import compile_ahead
from reign.kernels.fused._lift import lift
from reign.kernels.fused._messages import FEW_TYPES
from reign.kernels.fused._node_stage import NodeInput, NodeStage
from reign.kernels.fused._pair_stage import PairSlot, PairStage
from reign.kernels.fused._passing import Messages
from reign.kernels.fused._stack import Norms, Rows, Stack
from reign.kernels.fused._sums import segment_sum, sums

__all__ = [
    "FEW_TYPES",
    "Messages",
    "NodeInput",
    "NodeStage",
    "Norms",
    "PairSlot",
    "PairStage",
    "Rows",
    "Stack",
    "compile_ahead",
    "gather",
    "lift",
    "segment_sum",
    "sums",
]
