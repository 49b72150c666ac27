"""The few operations that everything is made of: sums over ragged rows, and fused versions of what layers do."""

from reign.kernels._gather import gather_columns
from reign.kernels._indices import INNER, KEPT, OUTER, ROOT, Edges, Pairs, Picks, Segments
from reign.kernels._sums import Sum
from reign.kernels._switch import fast_path, kernels_for

__all__ = [
    "INNER",
    "KEPT",
    "OUTER",
    "ROOT",
    "Edges",
    "Pairs",
    "Picks",
    "Segments",
    "Sum",
    "fast_path",
    "gather_columns",
    "kernels_for",
]
