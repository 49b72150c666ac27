"""The size of the bag of a graph for every policy."""

import time
from dataclasses import dataclass

import torch
from torch_geometric.data import Data

from reign.policies._names import list_policies, policy


@dataclass(frozen=True)
class BagSizes:
    """The size of a bag, and the time it took to make it.

    Args:
        policy: name of the policy.
        subgraphs: number of subgraphs.
        pairs: number of pairs (subgraph, node) that are stored.
        members: number of pairs whose node is in the subgraph.
        edges: number of undirected edges of all subgraphs.
        channels: number of channels of the features, marks included.
        seconds: time it took to make the bag.
    """

    policy: str
    subgraphs: int
    pairs: int
    members: int
    edges: int
    channels: int
    seconds: float


def bag_sizes(data: Data) -> list[BagSizes]:
    """The sizes of the bags of a graph, for every policy in ``list_policies``.

    >>> found = {bag.policy: bag for bag in bag_sizes(example_graph())}
    >>> found["nd"].subgraphs, found["nd"].edges, found["ed"].subgraphs, found["nm"].channels
    (12, 130, 13, 3)
    """
    return [_size_of_bag(name, data) for name in list_policies()]


def _size_of_bag(name: str, data: Data) -> BagSizes:
    start = time.perf_counter()
    bag = policy(name).from_data(data)
    edges = bag.pair_edges.edge.numel() // 2
    seconds = time.perf_counter() - start
    return BagSizes(name, bag.num_subgraphs, bag.num_pairs, int(bag.member.sum()), edges, bag.x.size(1), seconds)


def example_graph() -> Data:
    """Naphthalene with a tail, as a graph: two fused 6-rings (nodes 0 to 9), and a chain of nodes 10 and 11 attached to node 4."""
    bonds = [(i, (i + 1) % 10) for i in range(10)] + [(0, 5), (4, 10), (10, 11)]
    edge_index = torch.tensor(bonds).t()
    return Data(x=torch.ones(12, 1), edge_index=torch.cat([edge_index, edge_index.flip(0)], dim=1))
