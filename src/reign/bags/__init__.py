"""Bags of subgraphs: which pairs (k, i) exist, how they are stored, and the maps between scopes."""

import reign._pyg  # noqa: F401
from reign._validate import SMALL, STATE_BYTES, DoesNotFit, check_fits, free_memory, out_of_memory, warn_of_size
from reign.bags._assembly import Assembly, maps_of
from reign.bags._bag import Domain, SubgraphBag
from reign.bags._blocks import block_triples, blocks
from reign.bags._graph import Bound, PerRow, SharedGraph
from reign.bags._hops import FAR, HopTable, hop_table, near_table, node_values, pair_values, stored_table
from reign.bags._kernel import kernel_edges, kernel_near, kernel_pairs, kernel_triples
from reign.bags._store import BagStore, Column, Frame, all_real
from reign.bags._views import ALL, DenseBag, Slices, along, check_along
from reign.bags._wiring import FeaturedWiring, FolkloreMessages, Messages, Neighbours, Where, Wiring

__all__ = [
    "ALL", "FAR", "SMALL", "STATE_BYTES", "Assembly", "BagStore", "Bound", "Column", "DenseBag", "DoesNotFit", "Domain",
    "FeaturedWiring", "FolkloreMessages", "Frame", "HopTable", "Messages", "Neighbours", "PerRow", "SharedGraph", "Slices",
    "SubgraphBag", "Where", "Wiring", "all_real", "along", "block_triples", "blocks", "check_along", "check_fits", "free_memory",
    "hop_table", "kernel_edges", "kernel_near", "kernel_pairs", "kernel_triples", "maps_of", "near_table", "node_values",
    "out_of_memory", "pair_values", "stored_table", "warn_of_size",
]  # fmt: skip
