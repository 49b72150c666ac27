"""The fused operations as Triton kernels. Import this package only if triton is installed."""

from reign.kernels._plan import FUSED as LIMITS
from reign.kernels.fused._gather import gather
from reign.kernels.fused._launch import compile_ahead
from reign.kernels.fused._norm import NormState, norm_rows
from reign.kernels.fused._passing import FEW_TYPES, own_and_sum, pass_messages
from reign.kernels.fused._products import Squares, join_roots, square_product, triple_product
from reign.kernels.fused._stages import NodeStage, PairStage
from reign.kernels.fused._sums import lift, segment_sum, sums

__all__ = [
    "FEW_TYPES",
    "LIMITS",
    "NodeStage",
    "NormState",
    "PairStage",
    "Squares",
    "compile_ahead",
    "gather",
    "join_roots",
    "lift",
    "norm_rows",
    "own_and_sum",
    "pass_messages",
    "segment_sum",
    "square_product",
    "sums",
    "triple_product",
]
