"""``reign results``, ``reproduce``, ``tune`` and ``recipes``: the paper's experiments."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from reign.cli import options
from reign.cli.options import output_option, progress_unless, recipe_for, training_option
from reign.cli.reports import reports_at_end
from reign.cli.tools import at_least_one, fail, free, plain_console, show_predict_command, stem

Results = Annotated[Path, typer.Argument(help="Folder with the records of full-length runs.", metavar="FOLDER")]


def results(
    folder: Results = Path("results"),
    add: Annotated[
        Path | None,
        typer.Option(metavar="RUNS", help="First add the finished runs of a table, such as runs/zinc from reign reproduce zinc."),
    ] = None,
    table: Annotated[str | None, typer.Option(help="The table of the added runs; the name of their folder if not given.")] = None,
    commit: Annotated[
        str | None, typer.Option(help="The commit that the added runs were made with, if they did not note it.")
    ] = None,
    write: Annotated[
        bool,
        output_option(
            "--write", help="Write the tables to FOLDER/README.md, and a summary between the markers in the README next to FOLDER."
        ),
    ] = False,
) -> None:
    """Show full-length results next to the paper's numbers, and what has not been run yet."""
    from reign.experiments import find_table
    from reign.experiments.pages import progress_table, results_markdown, write_pages
    from reign.experiments.records import read_records, record_table

    console = plain_console()
    if add is not None:
        name = table or add.name
        files = record_table(add, name, find_table(name), folder, commit)
        if not files:
            fail(
                f"{add} holds no finished run of the table {name}, expected folders {add}/ROW/COLUMN as written by reign reproduce."
            )
        console.print(f"{len(files)} {'run' if len(files) == 1 else 'runs'} added: {', '.join(map(str, files))}", soft_wrap=True)
    need_folder(folder)
    records = read_records(folder)
    if not records:
        fail(f"{folder} holds no records; add runs with --add.")
    if write:
        for file in write_pages(folder, records):
            console.print(f"{file} was written.", soft_wrap=True)
    console.print(results_markdown(records), soft_wrap=True, highlight=False)
    console.print(progress_table(records).rich())


def need_folder(folder: Path) -> Path:
    """The folder of the records; a clone has one."""
    if not folder.is_dir():
        fail(
            f"there is no folder {folder} in {Path.cwd()}. The records are in the folder results of a clone: change to the clone, or name "
            "the folder, as in: reign results CLONE/results."
        )
    return folder


def show_status(folder: Path) -> None:
    """Show which planned runs are done, which are missing, and how long these would take."""
    from reign.experiments.pages import progress_table
    from reign.experiments.records import read_records

    plain_console().print(progress_table(read_records(folder)).rich())


# -- the tables of the paper ---------------------------------------------------------------------------------------------------


def recipes(name: Annotated[str | None, typer.Argument(help="Show the rows and columns of this table.")] = None) -> None:
    """List the tables of the paper. Each cell is a recipe, TABLE/ROW/COLUMN."""
    from reign.experiments import find_table, list_tables
    from reign.experiments.paper import list_of_tables, paper_table

    if name is None:
        plain_console().print(list_of_tables({each: find_table(each) for each in list_tables()}).rich())
    else:
        plain_console().print(paper_table(find_table(name)).rich())


def reproduce(
    table: Annotated[
        str | None, typer.Argument(help="A table of the paper (reign recipes lists them), or a YAML file.", show_default=False)
    ] = None,
    seeds: Annotated[int | None, training_option(help="Number of seeds; as in the paper if not given.")] = None,
    quick: Annotated[bool, training_option("--quick", help="Use a small share of the data and few epochs, as a test.")] = False,
    row: Annotated[list[str] | None, training_option(help="Run only this row; repeat for more.")] = None,
    column: Annotated[list[str] | None, training_option(help="Run only this column; repeat for more.")] = None,
    output: Annotated[Path | None, output_option("-o", "--output-dir", help="Folder of the runs; runs/TABLE if not given.")] = None,
    settings: options.Settings = None,
    search_seeds: Annotated[
        int | None,
        training_option(
            "--tune",
            metavar="N",
            help="First choose the settings of rows with a grid by validation, with N seeds for each point of the grid.",
        ),
    ] = None,
    jobs: options.Jobs = None,
    accelerator: options.Accelerator = "auto",
    devices: options.Devices = 1,
    num_nodes: options.Nodes = 1,
    quiet: options.Quiet = False,
    write_report: options.WithReport = True,
    status: Annotated[
        bool,
        output_option(
            "--status",
            help="Only show how much of all tables has been run at full length, according to the records in the folder results.",
        ),
    ] = False,
) -> None:
    """Run a table of the paper, and print our numbers next to the paper's.

    Differences are in standard deviations. The comparison is also written to table.csv.

    Finished models are not trained again, so you can interrupt this command and run it again at any time.
    """
    from reign.experiments import find_table
    from reign.experiments.reproduce import comparison_table, write_comparison
    from reign.experiments.reproduce import reproduce as run
    from reign.train.engine.execution import make_fabric
    from reign.train.settings.yaml import RawSettings, override

    if status:
        show_status(need_folder(Path("results")))
        return
    if table is None:
        fail("give a table, as in: reign reproduce counting --quick; reign recipes lists them.")
    plan = find_table(table)
    if plan.is_single:
        fail(f"{table} is a single recipe, not a table; use: reign train {table}.")
    changes: list[RawSettings] = [override(text) for text in settings or []]
    at_least_one("--seeds", seeds)
    at_least_one("--tune", search_seeds)
    at_least_one("--jobs", jobs)
    if seeds is not None:
        changes.append({"seeds": list(range(seeds))})
    folder = output if output is not None else Path("runs") / (Path(table).stem + ("-quick" if quick else ""))
    fabric = make_fabric(plan.precision(*changes), accelerator, devices, num_nodes)
    with progress_unless(quiet or not fabric.is_global_zero) as callback:
        try:
            found = run(
                plan, folder, *changes, rows=row, columns=column, quick=quick, fabric=fabric, callback=callback, jobs=jobs,
                search_seeds=search_seeds,
            )  # fmt: skip
        except KeyboardInterrupt:
            fail("stopped; run the same command again to continue.")
    if fabric.is_global_zero:
        write_comparison(folder / "table.csv", plan, found)
        plain_console().print(comparison_table(plan, found, quick).rich())
        if write_report:
            reports_at_end([folder], quiet)


def tune(
    recipe: Annotated[
        str | None,
        typer.Argument(help="TABLE/ROW/COLUMN as in reign train, or a YAML file; use - for a CSV given by --set data.path=FILE."),
    ] = None,
    data_path: options.TrainingTable = None,
    smiles_columns: options.SmilesColumns = None,
    target_columns: options.TargetColumns = None,
    task_type: options.TaskType = None,
    split_type: options.SplitType = None,
    splits_column: options.SplitsColumn = None,
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
        training_option(
            help="Number of grid points that this worker tries (all if not given), or number of trials for a CSV (20 if not given)."
        ),
    ] = None,
    seeds: Annotated[int, training_option(help="Number of seeds for each grid point.")] = 1,
    max_weights: Annotated[
        int | None, training_option(help="Leave out grid points with more weights than this; as in the table if not given.")
    ] = None,
    with_best: Annotated[
        bool,
        training_option(
            "--train-best", help="Train the best grid point with all seeds of the table at the end, in the folder best."
        ),
    ] = False,
    output: Annotated[
        Path | None, output_option("-o", "--output-dir", help="Folder of the runs; runs/tune/<name> if not given.")
    ] = None,
    settings: options.Settings = None,
    jobs: options.Jobs = None,
    accelerator: options.Accelerator = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Search settings for the best validation metric, with optuna.

    reign tune -i molecules.csv --target-columns logS -o RUNS

    For a CSV, the search covers learning rate, weight decay, batch size, width, depth and dropout, and the settings of --grid.

    Bad trials are stopped early, and the best settings are trained with all --seeds at the end.
    """
    from reign.experiments import find_recipe
    from reign.experiments.pretrain import PRETRAINED, recipe_of_table
    from reign.experiments.tune import Search, TableSearch, best_first, best_folder, best_point, study_table, tune_table
    from reign.experiments.tune import tune as run
    from reign.train import train
    from reign.train.engine.execution import make_fabric
    from reign.train.settings.yaml import choices, merge, override

    given = locals()
    for name, value in (("--seeds", seeds), ("--trials", trials), ("--jobs", jobs), ("--max-weights", max_weights)):
        at_least_one(name, value)
    if (recipe is None) == (data_path is None):
        fail("give a recipe, as in: reign tune zinc/sun-ego, or a table, as in: reign tune -i molecules.csv.")
    values, changes = dict(map(choices, grid or [])), [options.settings_of(given), *(override(text) for text in settings or [])]
    search: Search | None = None
    if data_path is None:
        base = recipe_for(merge(*changes)) if recipe == "-" else str(recipe)
        search = Search.of(base, values, *changes, seeds=seeds, max_weights=max_weights)
        folder = output if output is not None else Path("runs") / "tune" / search.name.replace("/", "-")
        precision = search.recipes()[0].train.precision
        work = partial(run, search, folder, study_name=study, jobs=jobs)
    else:
        if jobs is not None:
            fail("--jobs is for the grid of a recipe; the trials for a table follow one another, so leave it out.")
        if max_weights is not None or with_best:
            fail("--max-weights and --train-best are for the grid of a recipe; leave them out.")
        if not data_path.is_file():
            fail(f"the file {data_path} does not exist.")
        changes.append({"seeds": list(range(seeds))})
        table = TableSearch(find_recipe(recipe_for(merge(*changes)), *changes)[0], values)
        usual = Path("runs") / "tune" / stem(data_path)
        folder = output or (free(usual) if storage is None else usual)  # a search in a database continues in its folder
        if (folder / "best").exists() and storage is None:
            fail(f"{folder}/best already exists; choose a new folder with -o.")
        precision = table.recipe.train.precision
        work = partial(tune_table, table, folder, study_name=study or stem(data_path))
    fabric, best = make_fabric(precision, accelerator), None
    with progress_unless(quiet) as callback:
        try:
            if search is None and not quiet and recipe_of_table(merge(*changes))[0] == PRETRAINED:
                callback.note(
                    "All trials start from random weights, because they differ in width and depth; reign train -i starts from an encoder."
                )
            found = work(storage=storage, trials=trials, fabric=fabric, callback=callback)
            if search is None:
                if not best_first(found):
                    fail("no trial was completed; use more --trials.")
                best = table.recipe_of(best_first(found)[0].params, seeds)
            elif with_best:
                best = search.recipe(best_point(search, found), whole=True)
            if best is not None:
                place, resume = best_folder(folder, best), search is not None or storage is not None
                train(best, place, resume=resume, fabric=fabric, callback=callback, jobs=jobs)
        except KeyboardInterrupt:
            fail("stopped; if --storage was given, run the same command again to continue.")
    console = plain_console()
    console.print(study_table(found, search).rich())
    if search is None:
        stopped = sum(trial.state.name == "PRUNED" for trial in found.trials)
        console.print(
            f"{stopped} of {len(found.trials)} trials were stopped early. The best settings are those of trial {best_first(found)[0].number}."
        )
    if best is not None:
        console.print(f"The best run is in {place}.", soft_wrap=True)
        if search is None:
            show_predict_command(console, best.data, place)
