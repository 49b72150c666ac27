"""The explorer: a page in the browser, served only to this machine, that shows bags, which graphs models tell apart, and predictions of a run.

It needs ``pip install 'reign[train,plot]'``, and the extra ``chem`` for molecules.
"""

import reign._pyg  # noqa: F401
from reign.explore._answers import MOST_NODES, MOST_NODES_TO_COMPARE, Answers, Graph, read_drawn
from reign.explore._server import MOST_BYTES, Explorer

__all__ = ["MOST_BYTES", "MOST_NODES", "MOST_NODES_TO_COMPARE", "Answers", "Explorer", "Graph", "read_drawn"]
