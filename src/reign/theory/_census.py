"""Count the pairs of graphs in a data set that 1-WL cannot tell apart."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from torch_geometric.data import Data

from reign.theory._wl import wl_classes


@dataclass(frozen=True)
class Census:
    """The number of pairs of graphs that 1-WL does not distinguish (``alike``) after some rounds, and the number of all pairs."""

    rounds: int
    alike: int
    pairs: int


def census(graphs: Sequence[Data], rounds: int = 6) -> Census:
    """Count the pairs of graphs that 1-WL does not distinguish after some rounds."""
    sizes = Counter(wl_classes(list(graphs), max_rounds=rounds)).values()
    return Census(rounds, sum(n * (n - 1) // 2 for n in sizes), len(graphs) * (len(graphs) - 1) // 2)
