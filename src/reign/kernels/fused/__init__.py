"""The fused operations as Triton kernels; import it only where triton is installed."""

from reign.kernels._stages import Messages, NodeInput, Norms, PairSlot, Rows, Stack
from reign.kernels.fused._gather import gather
from reign.kernels.fused._launch import compile_ahead
from reign.kernels.fused._lift import lift
from reign.kernels.fused._messages import FEW_TYPES
from reign.kernels.fused._node_stage import NodeStage
from reign.kernels.fused._pair_stage import PairStage
from reign.kernels.fused._sums import segment_sum, sums

WIDEST = 128  # channels that a kernel takes

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
    "compile_ahead",
    "gather",
    "lift",
    "segment_sum",
    "sums",
]
