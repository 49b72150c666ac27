"""The basic operations of all layers: sums over ragged rows, and stages of whole layers, fused on a GPU and in blocks on a CPU."""

from reign.kernels import blocked
from reign.kernels._memory import keep_freed_memory

from reign.kernels._plan import (  # isort: skip
    BACKENDS, BLOCKED, FUSED, INNER, KEPT, OUTER, ROOT, CountedRows, Edges, Limits, NodeInput, Norms, PairIndex,
    PairSlot, PassedMessages, Picks, Segments, Stack,
)  # fmt: skip
from reign.kernels._switch import compile_ahead, fast_path, fast_path_state, kernels_for, stages_for
from reign.kernels.blocked import threads_for_blocks_only
from reign.kernels.ragged import Gathered, Sum, gather_columns

__all__ = [
    "BACKENDS", "BLOCKED", "FUSED", "INNER", "KEPT", "OUTER", "ROOT", "CountedRows", "Edges", "Gathered", "Limits",
    "NodeInput", "Norms", "PairIndex", "PairSlot", "PassedMessages", "Picks", "Segments", "Stack", "Sum", "blocked",
    "compile_ahead", "fast_path", "fast_path_state", "gather_columns", "keep_freed_memory", "kernels_for", "stages_for",
    "threads_for_blocks_only",
]  # fmt: skip
