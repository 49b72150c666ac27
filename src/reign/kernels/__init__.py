"""The few operations that everything is made of: sums over ragged rows."""

from reign.kernels._sums import Sum

__all__ = ["Sum"]
