"""The fused operations as Triton kernels. Import this package only if triton is installed."""

from reign.kernels._plan import FUSED as LIMITS
from reign.kernels.fused._gather import gather
from reign.kernels.fused._launch import compile_ahead
from reign.kernels.fused._lift import lift
from reign.kernels.fused._messages import FEW_TYPES
from reign.kernels.fused._node_stage import NodeStage
from reign.kernels.fused._norm import NormState, norm_rows
from reign.kernels.fused._pair_stage import PairStage
from reign.kernels.fused._passing import own_and_sum, pass_messages
from reign.kernels.fused._product import Squares, square_product
from reign.kernels.fused._sums import segment_sum, sums

__all__ = [
    "FEW_TYPES",
    "LIMITS",
    "NodeStage",
    "NormState",
    "PairStage",
    "Squares",
    "compile_ahead",
    "gather",
    "lift",
    "norm_rows",
    "own_and_sum",
    "pass_messages",
    "segment_sum",
    "square_product",
    "sums",
]
