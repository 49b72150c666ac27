"""PyG transforms that prepare graphs for bags of subgraphs."""

import reign._pyg  # noqa: F401  # isort: skip
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from reign.bags import SharedGraph, check_fits, hop_table


class AddHopDistance(BaseTransform):  # type: ignore[misc]
    """Store the hop distance of every ordered pair of nodes as ``data.hop_distance``, so that bags of ego nets of any depth can be made
    without a search.

    As a ``pre_transform`` of a data set it runs once. Batches of a PyG loader include it: ``policy.from_data(batch)``
    uses it, or you can pass ``hop_distance=batch.hop_distance`` to a policy. It takes 2 bytes per pair; ``reign.bags.FAR``
    stands for nodes of another component.
    """

    def forward(self, data: Data) -> Data:
        """Add the distances to one graph."""
        if getattr(data, "edge_index", None) is None:
            raise ValueError(f"data is {data!r}, expected a torch_geometric.data.Data with an edge_index.")
        x = data.x if data.x is not None else torch.ones(data.num_nodes, 1, device=data.edge_index.device)
        graph = SharedGraph.build(x, data.edge_index, batch=getattr(data, "batch", None))
        way_out = "Leave this transform out, and use domain='members', which searches only near the roots."
        check_fits(int((graph.sizes**2).sum()), x.device, f"AddHopDistance on {graph.num_nodes:,} nodes", way_out)
        data.hop_distance = hop_table(graph, torch.arange(graph.num_nodes, device=x.device)).distance
        return data
