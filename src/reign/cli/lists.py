"""``reign models`` and ``reign policies``: lists of models and policies."""

from typing import Annotated

import typer

from reign.cli.render import bag_table, model_table, policy_table
from reign.cli.tools import plain_console


def policies(
    example: Annotated[bool, typer.Option("--example", help="Also show the bag of a small graph for each policy.")] = False,
) -> None:
    """List the selection policies, which turn a graph into a bag of subgraphs."""
    console = plain_console()
    console.print(policy_table())
    if example:
        console.print(bag_table())


def models() -> None:
    """List the models, with their default policies."""
    plain_console().print(model_table())
