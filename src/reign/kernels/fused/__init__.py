"""The fused operations as Triton kernels; import it only where triton is installed."""

from reign.kernels.fused._gather import gather
from reign.kernels.fused._messages import FEW_TYPES
from reign.kernels.fused._passing import pass_messages
from reign.kernels.fused._stack import Norms, Rows, Stack
from reign.kernels.fused._stage import NodeStage, PairSlot, PairStage, segment_sum, sums

__all__ = [
    "FEW_TYPES",
    "NodeStage",
    "Norms",
    "PairSlot",
    "PairStage",
    "Rows",
    "Stack",
    "gather",
    "pass_messages",
    "segment_sum",
    "sums",
]
