"""Bags of subgraphs: which pairs (k, i) exist, how they lie in memory, and the maps between scopes."""

from reign.bags._bag import Domain, SubgraphBag
from reign.bags._graph import SharedGraph
from reign.bags._hops import FAR, HopTable, hop_table, near_table, stored_table
from reign.bags._memory import DoesNotFit, check_fits, free_memory, out_of_memory
from reign.bags._triples import Neighbours, Where
from reign.bags._views import DenseBag
from reign.bags._wiring import Messages

__all__ = [
    "FAR",
    "DenseBag",
    "DoesNotFit",
    "Domain",
    "HopTable",
    "Messages",
    "Neighbours",
    "SharedGraph",
    "SubgraphBag",
    "Where",
    "check_fits",
    "free_memory",
    "hop_table",
    "near_table",
    "out_of_memory",
    "stored_table",
]
