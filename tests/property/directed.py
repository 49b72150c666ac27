"""Directed graphs with types of nodes and edges."""

import torch
from torch_geometric.data import Data


def directed_graphs(types: int, bonds: int) -> list[Data]:
    """Four graphs without loops and parallel edges; the last two are not connected, and a single node."""
    rng = torch.Generator().manual_seed(1)
    found = []
    for n, share in ((6, 0.35), (5, 0.4), (7, 0.12), (1, 0.0)):
        edges = (torch.rand(n, n, generator=rng) < share).fill_diagonal_(False).nonzero().t()
        x, kinds = torch.randint(0, types, (n, 1), generator=rng), torch.randint(0, bonds, (edges.size(1), 1), generator=rng)
        found.append(Data(x=x, edge_index=edges, edge_attr=kinds))
    return found
