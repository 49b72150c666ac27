"""The command line: parse, call the library, print."""

from pathlib import Path
from typing import Annotated

import typer

import reign
from reign.cli import data, experiments, prediction, training
from reign.cli.render import bag_table, family_table, model_table, policy_table, separation_table
from reign.cli.tools import at_least_one, bars, check_writable, fail, plain_console, user_mistakes
from reign.disk import write_csv, write_text

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
    experiments.reproduce,
    experiments.tune,
    experiments.recipes,
):
    app.command()(_command)
app.add_typer(data.app, name="data")


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


@app.command()
def separate(
    family: Annotated[str | None, typer.Argument(help="A family of graph pairs (see --list), or a graph6 file.")] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="A model, as sun:nm, mpnn or sun:ego+:2/4 (4 layers); repeat for more.")
    ] = None,
    wl: Annotated[list[str] | None, typer.Option(help="A WL test, as 1 or 3, or ds:nm, dss:nm; repeat for more.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write pair, method, separated, margin to this file.")] = None,
    layers: Annotated[int | None, typer.Option(help="Layers of models that do not say themselves; 6 if not given.")] = None,
    seeds: Annotated[int, typer.Option(help="Number of random weights to try.")] = 3,
    all_pairs: Annotated[
        bool, typer.Option("--all-pairs", help="All pairs of a graph6 file, not only consecutive graphs.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="List the families.")] = False,
) -> None:
    """Which pairs of graphs does each model or WL test tell apart?

    Models have random weights and a smooth activation, and run in float64. A pair is separated if for any seed the outputs differ by
    more than 100 times the noise between permuted copies of the same graph.
    """
    from reign.theory import family as find
    from reign.theory import separate as run

    console = plain_console()
    if show:
        console.print(family_table())
        return
    if family is None:
        fail("a family or a graph6 file is needed, as in: reign separate csl --model sun:nm --wl 3; --list shows the families.")
    if not model and not wl:
        fail("nothing to try: give --model, as in --model sun:nm, or --wl, as in --wl 3.")
    at_least_one("--seeds", seeds)
    with user_mistakes():
        check_writable(csv)
        pairs = find(family, all_pairs)
        tests = [int(test) if test.isdecimal() else test for test in wl or []]
        with bars() as progress:
            verdicts = run(pairs, model or [], tests, layers=layers, seeds=range(seeds), progress=progress)
        if csv is not None:
            write_csv(
                csv,
                ["pair", "method", "separated", "margin"],
                [[v.pair, v.method, int(v.separated), f"{v.margin:.6g}"] for v in verdicts],
            )
    console.print(separation_table(family, verdicts))


@app.command()
def questions(
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the tables as Markdown to this file, too.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small families only.")] = False,
) -> None:
    """Tables for the questions the paper leaves open: policies compared, ReIGN(2) against 3-WL, 2-node policies beyond 3-WL."""
    from reign.theory import answer

    console = plain_console()
    with user_mistakes(), bars() as progress:
        check_writable(output)
        text = answer(quick=quick, progress=progress)
        if output is not None:
            write_text(output, text)
    console.print(text, soft_wrap=True)


@app.command()
def card(
    model: Annotated[str, typer.Argument(help="A model, as sun:nm, or dss:ego+:2/4 (4 layers).")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the page to this file: .md, .html or text.")] = None,
) -> None:
    """One page about a model: equations, symmetry, cost, its WL bound, and what it separates."""
    from reign.theory import card as make
    from reign.theory import parse_method

    with user_mistakes():
        check_writable(output)
        kind, policy, layers = parse_method(model)
        options = {} if policy is None else {"policy": policy}
        page = make(reign.build_model(kind, 1, 16, 6 if layers is None else layers, 1, **options))
        if output is not None:
            text = page.html() if output.suffix == ".html" else page.markdown() if output.suffix == ".md" else str(page) + "\n"
            write_text(output, text)
    plain_console().print(str(page), soft_wrap=True)
