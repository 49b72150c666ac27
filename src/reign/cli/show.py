"""``reign show`` and ``explore``: bags, layers and orbits as pictures, and the explorer in the browser."""

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reign.cli.options import Quiet, machine_option, progress_unless
from reign.cli.tools import check_writable, fail, plain_console

if TYPE_CHECKING:
    from reign.draw import Picture


app = typer.Typer(name="show", help="Draw bags of subgraphs, layers and orbits.", no_args_is_help=True)
Dark = Annotated[bool, typer.Option("--dark", help="Draw on a dark background.")]


@app.command()
def bag(
    graph: Annotated[
        str,
        typer.Argument(
            help="SMILES, edges such as 0-1,1-2, a graph such as cycle:6, a data set such as zinc, or a file of graph6 lines.",
            metavar="GRAPH|SMILES",
        ),
    ],
    policy: Annotated[str, typer.Option(help="A policy, such as ego+:2; reign policies lists them.")] = "ego+:2",
    output: Annotated[Path, typer.Option("-o", "--output", help="Picture to write: .svg or .png.")] = Path("bag.svg"),
    index: Annotated[int, typer.Option(help="Index of the graph in a data set or file.")] = 0,
    subgraph: Annotated[
        list[int] | None, typer.Option(help="Draw only this subgraph; repeat for more. The first 36 if not given.")
    ] = None,
    dark: Dark = False,
    quiet: Quiet = False,
) -> None:
    """Draw a graph and its subgraphs side by side. Molecules are drawn as molecules."""
    from reign.plots import draw_bag_of, read_graph

    _check(output)
    with progress_unless(quiet) as callback:
        (found,) = (read_graph(each, index, callback.track) for each in callback.track([graph], f"reading {graph}"))
        (picture,) = (draw_bag_of(each, policy, subgraph, dark) for each in callback.track([found], "drawing"))
    _save(picture, output)


@app.command()
def layer(
    model: Annotated[str | None, typer.Argument(help="A model, such as sun; reign models lists them.")] = None,
    terms: Annotated[str | None, typer.Option(help="A layer from a list of terms, such as own,local,transpose.")] = None,
    root_terms: Annotated[str | None, typer.Option(help="Terms of roots, which then have their own weights.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Picture to write: .svg or .png.")] = Path("layer.svg"),
    dark: Dark = False,
) -> None:
    """Draw which values the layers of a model read, with one colour for each parameter.

    Values are drawn as a matrix with one row for each subgraph and one column for each node, for the update of a root and of another node.

    A model with several kinds of layers has such a picture for each kind.
    """
    if (model is None) == (terms is None):
        fail("give either a model, such as sun, or --terms, such as own,local.")
    if root_terms is not None and terms is None:
        fail("--root-terms belongs to --terms; give both, or leave it out.")
    from reign.plots import draw_layer

    _check(output)
    lists = [None if text is None else [name.strip() for name in text.split(",")] for text in (terms, root_terms)]
    _save(draw_layer(model, lists[0] or [], lists[1], dark), output)


@app.command()
def layers(
    models: Annotated[list[str] | None, typer.Argument(help="Models; all if not given.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Picture to write: .svg or .png.")] = Path("layers.svg"),
    dark: Dark = False,
) -> None:
    """Draw the layers of several models side by side, as in the paper."""
    from reign.plots import draw_layers

    _check(output)
    _save(draw_layers(models or None, dark), output)


@app.command()
def curves(
    table: Annotated[str, typer.Argument(help="generalisation-4-cycle or generalisation-zinc.")],
    runs: Annotated[list[Path] | None, typer.Argument(help="Folders with runs of this table, whatever their names.")] = None,
    results: Annotated[Path | None, typer.Option(help="Folder with records of full-length runs, such as results.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Picture to write: .svg or .png.")] = Path("curves.svg"),
    dark: Dark = False,
) -> None:
    """Draw results by the number of training graphs, with a panel for each policy.

    The curves of the paper are dashed, those of the given runs and records are solid. Runs are found by their recipes.
    """
    from reign.draw import theme
    from reign.experiments.paper import find_name
    from reign.experiments.records import read_records
    from reign.plots import curve_tables, draw_generalisation, points_of_records, points_of_runs
    from reign.train.runs.run import Run

    _check(output)
    tables = curve_tables()
    name = find_name(table, list(tables), "table of curves")
    points = points_of_runs(run for folder in runs or [] for run in Run.inside(folder)).get(name, [])
    if runs and not points:
        fail(f"no run of {name} was found in {', '.join(map(str, runs))}; reign reproduce {name} makes them.")
    kept = points_of_records(read_records(results), name) if results is not None else []
    picture, empty = draw_generalisation(tables[name], [*points, *kept], look=theme(dark))
    assert picture is not None
    _save(picture, output)
    if results is not None and not kept:
        plain_console().print(f"{results} has no records of {name}.", soft_wrap=True)
    if empty:
        plain_console().print(f"There are no numbers for {', '.join(empty)}, neither of the paper nor of ours.", soft_wrap=True)


@app.command()
def orbits(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Picture to write: .svg or .png. A second picture has -symmetry in its name.")
    ] = Path("orbits.svg"),
    dark: Dark = False,
) -> None:
    """Draw the five orbits of a bag as a cube, and compare the symmetries S_n and S_n x S_n in a second picture."""
    from reign.plots import draw_orbits, draw_symmetry

    second = output.with_name(f"{output.stem}-symmetry{output.suffix}")
    _check(output)
    _check(second)
    _save(draw_orbits(dark), output)
    _save(draw_symmetry(dark), second)


def _check(output: Path) -> None:
    from reign.draw import check_name

    check_name(output).absolute().parent.mkdir(parents=True, exist_ok=True)
    check_writable(output)


def _save(picture: "Picture", output: Path) -> None:
    picture.save(output)
    plain_console().print(f"The picture is in {output}.", soft_wrap=True)


# -- the explorer --------------------------------------------------------------------------------------------------------------


def explore(
    run: Annotated[
        Path | None, typer.Argument(help="Folder of a run that was trained on molecules, to show its predictions.")
    ] = None,
    port: Annotated[int, machine_option(help="Port on this machine; 0 for any free port.")] = 0,
    open_browser: Annotated[bool, machine_option("--open/--no-open", help="Open the page in the browser.")] = True,
) -> None:
    """Explore bags, models and predictions in the browser.

    Draw a graph or paste a SMILES, choose a policy, and step through the subgraphs; see which WL tests and models tell two graphs apart.

    The page is served from this machine, and can be opened only on this machine, at the printed address. Press Ctrl-C to stop it.
    """
    if not 0 <= port < 65536:
        fail(f"--port is {port}, expected 0 to 65535.")
    from reign.explore import Answers, Explorer

    server = Explorer(Answers(run), port)
    console = plain_console()
    try:
        console.print(f"The explorer is at {server.address}\nPress Ctrl-C to stop it.", soft_wrap=True)
        if open_browser:
            webbrowser.open(server.address)
        server.serve_forever()
    except KeyboardInterrupt:
        console.print("The explorer was stopped.")
    finally:
        server.server_close()
