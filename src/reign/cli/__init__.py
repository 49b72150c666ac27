"""The command line: parse, call the library, print."""

from typing import Annotated

import typer

import reign
from reign.cli import benchmark, data, experiments, prediction, reports, show, theory, training
from reign.cli.render import bag_table, model_table, policy_table
from reign.cli.tools import plain_console

app = typer.Typer(
    help="Subgraph graph neural networks.", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"reign {reign.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Subgraph graph neural networks."""


for _command in (
    training.train,
    prediction.predict,
    prediction.evaluate,
    reports.report,
    reports.explain,
    experiments.reproduce,
    experiments.tune,
    experiments.recipes,
    theory.separate,
    theory.questions,
    theory.card,
    benchmark.bench,
):
    app.command()(_command)
app.add_typer(data.app, name="data")
app.add_typer(show.app, name="show")


@app.command()
def policies(
    example: Annotated[bool, typer.Option("--example", help="Also show the bag of a small graph under each.")] = False,
) -> None:
    """List the selection policies: how a graph becomes a bag of subgraphs."""
    console = plain_console()
    console.print(policy_table())
    if example:
        console.print(bag_table())


@app.command()
def models() -> None:
    """List the models, with their terms and default policies."""
    plain_console().print(model_table())
