"""Tables for the terminal."""

import time

import torch
from rich.table import Table
from torch_geometric.data import Data

import reign

MEANING = {
    "null": "the graph itself, once per node",
    "nd": "the root loses its edges",
    "nm": "a mark on the root",
    "nm+distance": "marks with the hop distance from the root",
    "ego:3": "the nodes within 3 hops of the root",
    "ego+:3": "the same, with a mark on the root",
    "ego+distance:3": "the same, marks with the hop distance from the root",
    "ed": "without one edge, once per edge",
    "2-nd": "two nodes lose their edges, once per ordered pair of nodes",
    "2-nm": "a mark on each of two nodes",
    "2-ego:2": "the nodes within 2 hops of either of two nodes",
    "whole": "the graph itself, once: for plain message passing",
}


def molecule() -> Data:
    """Naphthalene with a tail, as a graph: two fused 6-rings (nodes 0 to 9), and a chain of 10, 11 from node 4."""
    bonds = [(i, (i + 1) % 10) for i in range(10)] + [(0, 5), (4, 10), (10, 11)]
    edge_index = torch.tensor(bonds).t()
    return Data(x=torch.ones(12, 1), edge_index=torch.cat([edge_index, edge_index.flip(0)], dim=1))


def policy_table() -> Table:
    """The policies by name."""
    table = Table(title="Selection policies", caption="Depths can be any number; add @0.5 or @8 to sample subgraphs.")
    table.add_column("name", style="bold")
    table.add_column("each subgraph is")
    for name in reign.list_policies():
        table.add_row(name, MEANING.get(name, ""))
    return table


def bag_table(data: Data | None = None) -> Table:
    """The bag of one graph under every policy."""
    data = molecule() if data is None else data
    table = Table(title=f"Bags of a graph of {data.num_nodes} nodes and {data.num_edges // 2} edges")
    for column in ("policy", "subgraphs", "pairs", "members", "edges", "channels", "ms"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for name in reign.list_policies():
        start = time.perf_counter()
        bag = reign.policy(name).from_data(data)
        edges = bag.pair_edges.edge.numel() // 2
        ms = 1000 * (time.perf_counter() - start)
        sizes = (bag.num_subgraphs, bag.num_pairs, int(bag.member.sum()), edges, bag.x.size(1))
        table.add_row(name, *(f"{size:,}" for size in sizes), f"{ms:.1f}")
    return table
