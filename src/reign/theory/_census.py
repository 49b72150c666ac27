"""What 1-WL cannot tell apart in a whole data set."""

from collections import Counter
from typing import Any

from reign.data import Counting
from reign.theory._wl import wl_classes


def census(rounds: int = 6, **options: Any) -> tuple[int, int]:
    """How many pairs of graphs of the counting set 1-WL leaves undistinguished after some rounds, and of how many pairs."""
    graphs = [data for split in Counting.splits for data in Counting(split=split, **options)]
    sizes = Counter(wl_classes(graphs, max_rounds=rounds)).values()
    return sum(n * (n - 1) // 2 for n in sizes), len(graphs) * (len(graphs) - 1) // 2
