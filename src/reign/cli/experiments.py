"""``reign reproduce``, ``tune`` and ``recipes``: the paper's experiments."""

from pathlib import Path
from typing import Annotated, Any

import typer

from reign.cli.options import Accelerator, Devices, Jobs, Nodes, Quiet, Settings, WithReport, output_option, training_option
from reign.cli.render_runs import study_table
from reign.cli.reports import report_at_end
from reign.cli.results import show_status
from reign.cli.tools import at_least_one, fail, plain_console, user_mistakes


def recipes(
    name: Annotated[str | None, typer.Argument(help="A table, to see its rows and columns.")] = None,
) -> None:
    """List the tables of the paper; each cell is a recipe, TABLE/ROW/COLUMN."""
    with user_mistakes():
        from reign.cli.render_paper import list_of_tables, paper_table
        from reign.experiments import find_table, list_tables

        if name is None:
            plain_console().print(list_of_tables({each: find_table(each) for each in list_tables()}))
        else:
            plain_console().print(paper_table(find_table(name)))


def reproduce(
    table: Annotated[
        str | None, typer.Argument(help="A table of the paper (reign recipes lists them), or a YAML file.", show_default=False)
    ] = None,
    seeds: Annotated[int | None, training_option(help="Number of seeds; as in the paper if not given.")] = None,
    quick: Annotated[bool, training_option("--quick", help="A small share of data and epochs, to see that it works.")] = False,
    row: Annotated[list[str] | None, training_option(help="Only this row; repeat for more.")] = None,
    column: Annotated[list[str] | None, training_option(help="Only this column; repeat for more.")] = None,
    output: Annotated[
        Path | None,
        output_option("-o", "--output-dir", help="Folder of the runs; runs/<table> if not given."),
    ] = None,
    settings: Settings = None,
    jobs: Jobs = None,
    accelerator: Accelerator = "auto",
    devices: Devices = 1,
    num_nodes: Nodes = 1,
    quiet: Quiet = False,
    write_report: WithReport = True,
    status: Annotated[
        bool,
        output_option("--status", help="Only show how much of all tables has been run at full length, by the records in results."),
    ] = False,
) -> None:
    """Run a table of the paper, and print our numbers beside the paper's.

    Differences are in standard deviations, and the comparison is also written as table.csv.

    What is done is not done again: stop and start as you like.
    """
    with user_mistakes():
        from reign.cli.progress import showing_progress
        from reign.cli.render_paper import comparison_table
        from reign.experiments import find_table
        from reign.experiments.reproduce import reproduce as run
        from reign.experiments.reproduce import write_comparison
        from reign.train.devices import make_fabric
        from reign.train.overrides import override

        if status:
            show_status(Path("results"))
            return
        if table is None:
            fail("give a table, as in: reign reproduce counting --quick; reign recipes lists them.")
        plan = find_table(table)
        if plan.is_single:
            fail(f"{table} is a single recipe, not a table; use: reign train {table}.")
        changes: list[dict[str, Any]] = [override(text) for text in settings or []]
        at_least_one("--seeds", seeds)
        at_least_one("--jobs", jobs)
        if seeds is not None:
            changes.append({"seeds": list(range(seeds))})
        folder = output if output is not None else Path("runs") / (Path(table).stem + ("-quick" if quick else ""))
        fabric = make_fabric(plan.precision(*changes), accelerator, devices, num_nodes)
        with showing_progress(not quiet and fabric.is_global_zero) as callback:
            try:
                found = run(
                    plan, folder, *changes, rows=row, columns=column, quick=quick, fabric=fabric, callback=callback, jobs=jobs
                )
            except KeyboardInterrupt:
                fail("stopped; the same command continues from here.")
        if fabric.is_global_zero:
            write_comparison(folder / "table.csv", plan, found)
            plain_console().print(comparison_table(plan, found, quick))
            if write_report:
                report_at_end(folder)


def tune(
    recipe: Annotated[
        str, typer.Argument(help="TABLE/ROW/COLUMN as in train, or a YAML file; - for a CSV with --set data.path=FILE.")
    ],
    grid: Annotated[
        list[str] | None,
        training_option(metavar="KEY=V1,V2", help="Choices for a setting, in place of those of the table; repeat for more."),
    ] = None,
    storage: Annotated[
        str | None,
        output_option(help="A database URL such as sqlite:///study.db: several workers with the same one share the study."),
    ] = None,
    study: Annotated[str | None, output_option(help="Name of the study; that of the recipe if not given.")] = None,
    trials: Annotated[
        int | None,
        training_option(help="Number of points this worker tries; all that are left if not given."),
    ] = None,
    seeds: Annotated[int, training_option(help="Number of seeds for each point.")] = 1,
    output: Annotated[
        Path | None,
        output_option("-o", "--output-dir", help="Folder of the runs; runs/tune/<name> if not given."),
    ] = None,
    settings: Settings = None,
    jobs: Jobs = None,
    accelerator: Accelerator = "auto",
    quiet: Quiet = False,
) -> None:
    """Search the grid of a recipe by the validation metric, with optuna."""
    with user_mistakes():
        from reign.cli.progress import showing_progress
        from reign.experiments.tune import Search
        from reign.experiments.tune import tune as run
        from reign.train.devices import make_fabric
        from reign.train.overrides import choices, override

        at_least_one("--seeds", seeds)
        at_least_one("--trials", trials)
        at_least_one("--jobs", jobs)
        changes = [*(override(text) for text in settings or []), {"seeds": list(range(seeds))}]
        search = Search.of("molecules" if recipe == "-" else recipe, dict(map(choices, grid or [])), *changes)
        folder = output if output is not None else Path("runs") / "tune" / search.name.replace("/", "-")
        fabric = make_fabric(search.recipes()[0].train.precision, accelerator)
        with showing_progress(not quiet) as callback:
            try:
                found = run(
                    search, folder, study_name=study, storage=storage, trials=trials, fabric=fabric, callback=callback, jobs=jobs
                )
            except KeyboardInterrupt:
                fail("stopped; with --storage the same command continues from here.")
        plain_console().print(study_table(found))
