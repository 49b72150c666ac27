"""The basic operations of all layers: sums over ragged rows, and fused kernels for whole layers."""

from reign.kernels import blocked
from reign.kernels._gather import Gathered, gather_columns
from reign.kernels._indices import INNER, KEPT, OUTER, ROOT, Edges, Pairs, Picks, Segments
from reign.kernels._memory import keep_freed_memory
from reign.kernels._sums import Sum
from reign.kernels._switch import compile_ahead, fast_path, fast_path_state, kernels_for, stages_for
from reign.kernels.blocked import threads_for_blocks_only

__all__ = [
    "INNER",
    "KEPT",
    "OUTER",
    "ROOT",
    "Edges",
    "Gathered",
    "Pairs",
    "Picks",
    "Segments",
    "Sum",
    "blocked",
    "compile_ahead",
    "fast_path",
    "fast_path_state",
    "gather_columns",
    "keep_freed_memory",
    "kernels_for",
    "stages_for",
    "threads_for_blocks_only",
]
