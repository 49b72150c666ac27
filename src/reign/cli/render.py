"""Tables for the terminal: policies, models, families of graphs, data sets."""

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from reign.theory import Verdict


def policy_table() -> Table:
    """The policies by name."""
    from reign.policies import policy_meanings

    table = Table(title="Selection policies", caption="Depths can be any number; add @0.5 or @8 to sample subgraphs.")
    table.add_column("name", style="bold")
    table.add_column("subgraphs")
    for name, meaning in policy_meanings().items():
        table.add_row(name, meaning)
    return table


def model_table() -> Table:
    """The models by name."""
    from reign.nn import model_summaries

    table = Table(title="Models")
    table.add_column("name", style="bold")
    table.add_column("policy")
    table.add_column("description")
    for model in model_summaries():
        table.add_row(model.name, model.policy, model.about)
    return table


def family_table() -> Table:
    """The families of graph pairs."""
    from reign.theory import FAMILIES

    table = Table(title="Families of graph pairs")
    table.add_column("name", style="bold")
    table.add_column("description")
    for name, family in FAMILIES.items():
        table.add_row(name, family.meaning)
    return table


def separation_table(family: str, verdicts: "list[Verdict]", exact: bool = True) -> Table:
    """The number of pairs that each method separates, the layers or rounds it needs, and the margins."""
    caption = "Layers (or rounds) are the smallest number that tells a pair apart."
    if any(v.margin is not None for v in verdicts):
        caption += (
            " The number of separated pairs is exact. Margins are measured in float64, in units of a threshold: above 1, rounding does not "
            "hide the difference."
            if exact
            else " A model separates a pair if the margin, measured in float64 in units of a threshold, is above 1."
        )
    if any(v.method.endswith(" colours") for v in verdicts):
        caption += " Colours are the colour refinement of a model, which bounds what it can separate."
    table = Table(title=f"Pairs of {family} told apart", caption=caption)
    for column in ("method", "separated", "of", "layers", "smallest margin", "largest margin"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method in dict.fromkeys(v.method for v in verdicts):
        mine = [v for v in verdicts if v.method == method]
        layers = [v.layer for v in mine if v.layer is not None]
        margins = sorted(v.margin for v in mine if v.margin is not None)
        ends = [f"{margins[0]:.2g}", f"{margins[-1]:.2g}"] if margins else ["", ""]
        span = "" if not layers else str(layers[0]) if min(layers) == max(layers) else f"{min(layers)} to {max(layers)}"
        table.add_row(method, str(sum(v.separated for v in mine)), str(len(mine)), span, *ends)
    return table


def bag_table() -> Table:
    """The bag of a small graph under every policy."""
    from reign.policies import bag_sizes, example_graph

    data = example_graph()
    table = Table(title=f"Bags of a graph of {data.num_nodes} nodes and {data.num_edges // 2} edges")
    for column in ("policy", "subgraphs", "pairs", "members", "edges", "channels", "ms"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for bag in bag_sizes(data):
        sizes = (bag.subgraphs, bag.pairs, bag.members, bag.edges, bag.channels)
        table.add_row(bag.policy, *(f"{size:,}" for size in sizes), f"{1000 * bag.seconds:.1f}")
    return table


def dataset_table() -> Table:
    """The data sets by name."""
    from reign.data import DATASETS

    table = Table(title="Data sets", caption="reign data info NAME --set KEY=VALUE shows a data set with other options.")
    for column in ("name", "description", "options"):
        table.add_column(column, style="bold" if column == "name" else "")
    for name, kind in DATASETS.items():
        table.add_row(name, kind.about, ", ".join(f"{key}={value}" for key, value in kind.defaults().items()))
    return table
