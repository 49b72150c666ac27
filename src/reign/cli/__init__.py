"""The command line: parse, call the library, print.

A command is a function in one of these files, listed in ``COMMANDS``. At their top, these files import only typer, rich and the standard
library; everything else is imported inside the functions, so that ``--help`` starts quickly.
"""

from collections.abc import Callable
from typing import Annotated

import typer

from reign import __version__
from reign.cli import data, experiments, models, prediction, reports, show, theory, training
from reign.cli.tools import Command

COMMANDS: dict[str, tuple[Callable[..., None] | typer.Typer, ...]] = {  # by their group in --help
    "Train and predict": (
        training.train,
        training.pretrain,
        prediction.predict,
        prediction.evaluate,
        prediction.fingerprint,
        reports.report,
        reports.explain,
        reports.export,
    ),
    "The paper's experiments": (experiments.reproduce, experiments.tune, experiments.recipes, experiments.results),
    "Theory": (theory.separate, theory.card, theory.questions),
    "Models, data and costs": (models.models, models.policies, show.app, show.explore, data.app, models.bench),
}

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
for _group, _commands in COMMANDS.items():
    for _command in _commands:
        if isinstance(_command, typer.Typer):
            for _each in _command.registered_commands:
                _each.cls = Command
            app.add_typer(_command, rich_help_panel=_group)
        else:
            app.command(rich_help_panel=_group, cls=Command)(_command)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"reign {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Train, compare and explain subgraph graph neural networks."""
