"""The results of recent graphs, from which rows with the same graph are filled."""

from collections import deque

from reign.train.table_jobs import Cells

WINDOW = 65_536  # number of different graphs whose results are kept


class Window:
    """The results of recent graphs by key. The oldest are forgotten first."""

    def __init__(self) -> None:
        self.size = WINDOW
        self.found: dict[bytes, tuple[Cells | None, str]] = {}
        self.order: deque[bytes] = deque()

    def add(self, key: bytes, cells: Cells | None, error: str) -> None:
        """Add the cells of a graph, or None and an error."""
        self.found[key] = (cells, error)
        self.order.append(key)

    def trim(self) -> None:
        """Forget the oldest results beyond the size of the window."""
        while len(self.order) > self.size:
            del self.found[self.order.popleft()]
