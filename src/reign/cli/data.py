"""``reign data``: what there is, what it looks like, and getting it ready."""

from typing import Annotated, Any

import typer
from rich.console import Console

from reign.cli.render import dataset_table, problem_table
from reign.cli.tools import user_mistakes

app = typer.Typer(help="Data sets: list, info, prepare.", no_args_is_help=True)
Options = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="An option of the data set, as kind=er; repeat for more.")
]


@app.command("list")
def list_sets() -> None:
    """List the data sets, and their options."""
    with user_mistakes():
        Console().print(dataset_table())


@app.command()
def info(name: Annotated[str, typer.Argument(help="A data set.")], options: Options = None) -> None:
    """Statistics of a data set: graphs, splits, nodes, edges, targets; for counting also the 1-WL census."""
    with user_mistakes():
        console = Console()
        chosen = _options(name, options)
        for table in problem_table(name, chosen):
            console.print(table)
        if name == "counting":
            from reign.theory import census

            alike, pairs = census(**chosen)
            console.print(
                f"1-WL census: after 6 rounds {alike:,} of {pairs:,} pairs of graphs are not distinguished.", highlight=False
            )


@app.command()
def prepare(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets; all if not given.")] = None, options: Options = None
) -> None:
    """Download or generate data sets now, so that training starts at once later."""
    with user_mistakes():
        from reign.data import cache_folder, find_dataset, list_datasets, load_problem

        console = Console()
        for name in names or list_datasets():
            find_dataset(name)
        for name in names or list_datasets():
            variants = [_options(name, options)] if options else find_dataset(name).variants()
            for variant in variants:
                label = name + "".join(f" {key}={value}" for key, value in variant.items())
                try:
                    problem = load_problem(name, **variant)
                except (ValueError, OSError) as error:
                    if names:
                        raise
                    console.print(f"{label}: not ready. {error}", highlight=False, soft_wrap=True, markup=False)
                    continue
                console.print(f"{label}: {len(problem.graphs):,} graphs ready", highlight=False, markup=False)
        console.print(f"kept in {cache_folder()}", highlight=False, soft_wrap=True, markup=False)


def _options(name: str, given: list[str] | None) -> dict[str, Any]:
    from reign._validate import did_you_mean
    from reign.data import find_dataset
    from reign.train.overrides import override

    known = find_dataset(name).defaults()
    chosen = {key: value for text in given or [] for key, value in override(text).items()}
    if unknown := [key for key in chosen if key not in known]:
        raise ValueError(
            f"{name} has no option '{unknown[0]}'{did_you_mean(unknown[0], known)} It has {', '.join(known) or 'none'}."
        )
    return chosen
