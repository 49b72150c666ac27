"""``reign data``: list the data sets, show their statistics, and prepare them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from reign.cli.options import Quiet, progress_unless
from reign.cli.tools import plain_console
from reign.tables import Table, number

app = typer.Typer(name="data", help="List, describe and prepare data sets.", no_args_is_help=True)
Options = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="An option of the data set, such as kind=er; repeat for more."),
]


@app.command("list")
def list_sets() -> None:
    """List the data sets and their options."""
    from reign.data import DATASETS

    rows = [
        (name, kind.about, ", ".join(f"{key}={value}" for key, value in kind.defaults().items())) for name, kind in DATASETS.items()
    ]
    caption = "reign data info NAME --set KEY=VALUE shows a data set with other options."
    table = Table("Data sets", ["name", "description", "options"], rows, caption, "l", names=True)
    plain_console().print(table.rich())


@app.command()
def info(name: Annotated[str, typer.Argument(help="A data set.")], options: Options = None, quiet: Quiet = False) -> None:
    """Show statistics of a data set: graphs, splits, nodes, edges and targets; for counting, also how many pairs of graphs 1-WL cannot tell apart."""
    from reign.data import find_dataset, load_problem, split_statistics, target_statistics

    console = plain_console()
    chosen = _options(name, options)
    kind = find_dataset(name)
    with progress_unless(quiet) as callback:
        (problem,) = (load_problem(each, callback.track, **chosen) for each in callback.track([name], f"loading {name}"))
    sizes = [(s.split, s.graphs, f"{s.nodes:.2f}", s.largest, f"{s.edges:.2f}") for s in split_statistics(problem)]
    console.print(Table(kind.about, ["split", "graphs", "nodes per graph", "largest", "edges per graph"], sizes).rich())
    values = [(t.target, t.split, *map(number, (t.mean, t.std, t.smallest, t.largest))) for t in target_statistics(problem)]
    columns = ["target", "split", "mean", "std", "smallest", "largest"]
    console.print(Table(f"Targets ({problem.task})", columns, values, align="llr").rich())
    if kind.wl_census:
        from reign.theory import census

        with progress_unless(quiet) as callback:
            splits = callback.track(kind.splits, "1-WL census, reading")
            graphs = [data for split in splits for data in kind(split=split, **chosen)]
            (found,) = (census(each, progress=callback.track) for each in callback.track([graphs], "1-WL census"))
        console.print(
            f"1-WL census: after {found.rounds} rounds, {found.alike:,} of {found.pairs:,} pairs of graphs are not distinguished."
        )


@app.command()
def prepare(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets; all if not given.")] = None,
    options: Options = None,
    quiet: Quiet = False,
) -> None:
    """Download or generate data sets in advance, so that training starts at once."""
    from reign.data import cache_folder, find_dataset, list_datasets, load_problem

    console = plain_console()
    for name in names or list_datasets():
        find_dataset(name)
    for name in names or list_datasets():
        variants = [_options(name, options)] if options else find_dataset(name).variants()
        for variant in variants:
            label = name + "".join(f" {key}={value}" for key, value in variant.items())
            try:
                with progress_unless(quiet) as callback:
                    every = callback.track([name], f"preparing {label}")
                    (problem,) = (load_problem(each, callback.track, **variant) for each in every)
            except (ValueError, OSError) as error:
                if names:
                    raise
                console.print(f"{label}: not ready. {error}", soft_wrap=True)
                continue
            console.print(f"{label}: {len(problem.graphs):,} graphs ready")
    console.print(f"The data sets are in {cache_folder()}.", soft_wrap=True)


@app.command()
def example(folder: Annotated[Path, typer.Argument(help="Folder to write to.")] = Path("example")) -> None:
    """Write files for a first try: a table of 300 molecules with logP, a table of others to predict, and pairs of graphs."""
    from reign.data import write_example

    for file in write_example(folder):
        plain_console().print(f"{file} was written.", soft_wrap=True)


def _options(name: str, given: list[str] | None) -> dict[str, Any]:
    from reign.data import find_dataset
    from reign.train.settings.yaml import override

    chosen = {key: value for text in given or [] for key, value in override(text).items()}
    find_dataset(name).complete(chosen)  # raises an error for an unknown option
    return chosen
