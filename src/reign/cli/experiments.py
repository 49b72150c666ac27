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
    name: Annotated[str | None, typer.Argument(help="Show the rows and columns of this table.")] = None,
) -> None:
    """List the tables of the paper. Each cell is a recipe, TABLE/ROW/COLUMN."""
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
    quick: Annotated[bool, training_option("--quick", help="Use a small share of the data and few epochs, as a test.")] = False,
    row: Annotated[list[str] | None, training_option(help="Run only this row; repeat for more.")] = None,
    column: Annotated[list[str] | None, training_option(help="Run only this column; repeat for more.")] = None,
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
        output_option(
            "--status", help="Only show how much of all tables has been run at full length, according to the records in results."
        ),
    ] = False,
) -> None:
    """Run a table of the paper, and print our numbers next to the paper's.

    Differences are in standard deviations. The comparison is also written to table.csv.

    Finished models are not trained again, so you can interrupt this command and run it again at any time.
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
                fail("stopped; run the same command again to continue.")
        if fabric.is_global_zero:
            write_comparison(folder / "table.csv", plan, found)
            plain_console().print(comparison_table(plan, found, quick))
            if write_report:
                report_at_end(folder)


def tune(
    recipe: Annotated[
        str,
        typer.Argument(help="TABLE/ROW/COLUMN as in reign train, or a YAML file; use - for a CSV given by --set data.path=FILE."),
    ],
    grid: Annotated[
        list[str] | None,
        training_option(
            metavar="KEY=V1,V2", help="Values to try for a setting, in place of the table's grid; repeat for more settings."
        ),
    ] = None,
    storage: Annotated[
        str | None,
        output_option(help="A database URL such as sqlite:///study.db. Several workers with the same URL share the study."),
    ] = None,
    study: Annotated[str | None, output_option(help="Name of the study; the name of the recipe if not given.")] = None,
    trials: Annotated[
        int | None,
        training_option(help="Number of grid points that this worker tries; all remaining points if not given."),
    ] = None,
    seeds: Annotated[int, training_option(help="Number of seeds for each grid point.")] = 1,
    output: Annotated[
        Path | None,
        output_option("-o", "--output-dir", help="Folder of the runs; runs/tune/<name> if not given."),
    ] = None,
    settings: Settings = None,
    jobs: Jobs = None,
    accelerator: Accelerator = "auto",
    quiet: Quiet = False,
) -> None:
    """Search the grid of a recipe for the best validation metric, with optuna."""
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
                fail("stopped; if --storage was given, run the same command again to continue.")
        plain_console().print(study_table(found))
