"""The few operations everything is made of."""

from reign.kernels.sums import Sum

__all__ = ["Sum"]
