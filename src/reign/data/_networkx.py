"""Conversion of networkx graphs to PyG graphs."""

import networkx as nx
import torch
from torch_geometric.data import Data


def from_networkx(graph: nx.Graph) -> Data:
    """Convert a networkx graph to a PyG graph with the feature 1 at every node."""
    graph = nx.convert_node_labels_to_integers(graph)
    edges = torch.tensor(list(graph.edges), dtype=torch.long).reshape(-1, 2).t()
    return Data(x=torch.ones(graph.number_of_nodes(), 1), edge_index=torch.cat([edges, edges.flip(0)], dim=1))
