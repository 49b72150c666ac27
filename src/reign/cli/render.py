"""Tables for the terminal: policies, models, families of graphs, data sets."""

import time
from typing import TYPE_CHECKING

import torch
from rich.table import Table
from torch_geometric.data import Data

import reign

if TYPE_CHECKING:
    from reign.theory import Verdict


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
    for name, meaning in reign.policies.policy_meanings().items():
        table.add_row(name, meaning)
    return table


def model_table() -> Table:
    """The models by name."""
    table = Table(title="Models")
    table.add_column("name", style="bold")
    table.add_column("policy")
    table.add_column("what it is")
    for name in reign.list_models():
        model = reign.build_model(name, 8, 8, 2, 1)
        doc = " ".join((type(model).__doc__ or "").split("\n\n")[0].split())
        table.add_row(name, str(model.policy), doc)
    return table


def family_table() -> Table:
    """The families of graph pairs."""
    from reign.theory import FAMILIES

    table = Table(title="Families of graph pairs")
    table.add_column("name", style="bold")
    table.add_column("what it is")
    for name, (meaning, _) in FAMILIES.items():
        table.add_row(name, meaning)
    return table


def separation_table(family: str, verdicts: "list[Verdict]") -> Table:
    """How many pairs each method separates, and by how much."""
    table = Table(title=f"Pairs of {family} told apart", caption="Margins are in units of the threshold: above 1 is separated.")
    for column in ("method", "separated", "of", "smallest margin", "largest margin"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method in dict.fromkeys(v.method for v in verdicts):
        mine = [v for v in verdicts if v.method == method]
        margins = sorted(v.margin for v in mine)
        table.add_row(method, str(sum(v.separated for v in mine)), str(len(mine)), f"{margins[0]:.2g}", f"{margins[-1]:.2g}")
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


def dataset_table() -> Table:
    """The data sets by name."""
    from reign.data import DATASETS

    table = Table(title="Data sets", caption="reign data info NAME --set KEY=VALUE")
    for column in ("name", "what it is", "options"):
        table.add_column(column, style="bold" if column == "name" else "")
    for name, kind in DATASETS.items():
        table.add_row(name, kind.about, ", ".join(f"{key}={value}" for key, value in kind.defaults().items()))
    return table
