"""``reign models``, ``policies`` and ``bench``: what there is, and what a training step costs."""

from pathlib import Path
from typing import Annotated

import typer

from reign.cli.options import Accelerator, Quiet, data_option, machine_option, model_option, output_option, progress_unless
from reign.cli.tools import at_least_one, check_writable, plain_console
from reign.tables import Table


def policies(
    example: Annotated[bool, typer.Option("--example", help="Also show the bag of a small graph for each policy.")] = False,
) -> None:
    """List the selection policies, which turn a graph into a bag of subgraphs."""
    from reign.policies import policy_meanings

    console = plain_console()
    caption = "Depths, and sizes of tuples and sets, can be any number; add @0.5 or @8 to sample subgraphs."
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


# -- what a training step costs ------------------------------------------------------------------------------------------------


def bench(
    model: Annotated[str, model_option(help="A model; reign models lists them.")] = "sun",
    policy: Annotated[str | None, model_option(help="A policy; ego+:3 if not given (unless the model takes no policy).")] = None,
    batch_size: Annotated[int, data_option("-b", "--batch-size", help="Number of graphs in a batch.")] = 128,
    width: Annotated[int, model_option(help="Number of channels of the layers.")] = 64,
    layers: Annotated[int, model_option(help="Number of layers.")] = 6,
    accelerator: Accelerator = "auto",
    repeats: Annotated[int, machine_option(help="Number of steps to measure; their median is shown.")] = 10,
    json: Annotated[Path | None, output_option(help="Also write all figures to this JSON file.")] = None,
    quiet: Quiet = False,
) -> None:
    """Measure what a training step costs on this machine.

    A step is a forward pass, a backward pass and an Adam update.

    The table shows its time and memory, and how far it is from the lower bound given by memory bandwidth.

    For comparison, the same batch is run through a yardstick: SUN written in plain torch_geometric on a disjoint union of subgraphs.
    """
    for name, value in (("--batch-size", batch_size), ("--width", width), ("--layers", layers), ("--repeats", repeats)):
        at_least_one(name, value)
    from reign.disk import write_json
    from reign.experiments.bench import Workload, cost_table, explanations, kernel_table
    from reign.experiments.bench import bench as run
    from reign.train.engine.execution import find_device

    check_writable(json)
    workload = Workload(model, policy, batch_size, width, layers, find_device(accelerator).type, repeats)
    with progress_unless(quiet) as callback:
        (report,) = map(run, callback.track([workload], "measuring"))
    if json is not None:
        write_json(json, report.to_dict())
    console = plain_console()
    console.print(cost_table(report).rich())
    if report.kernels:
        console.print(kernel_table(report).rich())
    for line in explanations(report):
        console.print(line, soft_wrap=True)
