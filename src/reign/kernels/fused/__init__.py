"""The fused operations as Triton kernels; import it only where triton is installed."""

from reign.kernels.fused._gather import gather
from reign.kernels.fused._passing import Edges, pass_messages
from reign.kernels.fused._stack import Norms, Rows, Stack
from reign.kernels.fused._stage import NodeStage, Pairs, PairSlot, PairStage, Picks, Segments, segment_sum, sums

__all__ = [
    "Edges",
    "NodeStage",
    "Norms",
    "PairSlot",
    "PairStage",
    "Pairs",
    "Picks",
    "Rows",
    "Segments",
    "Stack",
    "gather",
    "pass_messages",
    "segment_sum",
    "sums",
]
