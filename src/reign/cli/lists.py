"""``reign models`` and ``reign policies``: lists of models and policies."""

from typing import Annotated

import typer

from reign.cli.tools import plain_console
from reign.tables import Table


def policies(
    example: Annotated[bool, typer.Option("--example", help="Also show the bag of a small graph for each policy.")] = False,
) -> None:
    """List the selection policies, which turn a graph into a bag of subgraphs."""
    from reign.policies import policy_meanings

    console = plain_console()
    caption = "Depths can be any number; add @0.5 or @8 to sample subgraphs."
    table = Table("Selection policies", ["name", "subgraphs"], policy_meanings().items(), caption, "l", names=True)
    console.print(table.rich())
    if example:
        console.print(_bags().rich())


def models() -> None:
    """List the models, with their default policies."""
    from reign.nn import model_summaries

    rows = [(model.name, model.policy, model.about) for model in model_summaries()]
    plain_console().print(Table("Models", ["name", "policy", "description"], rows, align="l", names=True).rich())


def _bags() -> Table:
    """The bag of a small graph under every policy."""
    from reign.policies import bag_sizes, example_graph

    data = example_graph()
    rows = [
        (bag.policy, bag.subgraphs, bag.pairs, bag.members, bag.edges, bag.channels, f"{1000 * bag.seconds:.1f}")
        for bag in bag_sizes(data)
    ]
    title = f"Bags of a graph of {data.num_nodes} nodes and {data.num_edges // 2} edges"
    return Table(title, ["policy", "subgraphs", "pairs", "members", "edges", "channels", "ms"], rows)
