"""``reign results``, ``reproduce``, ``tune`` and ``recipes``: the paper's experiments."""

from pathlib import Path
from typing import Annotated, Any

import typer

from reign.cli import options
from reign.cli.options import given, output_option, recipe_for, training_option
from reign.cli.reports import reports_at_end
from reign.cli.tools import at_least_one, fail, free, plain_console, show_predict_command, stem, user_mistakes

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
    with user_mistakes():
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
            console.print(
                f"{len(files)} {'run' if len(files) == 1 else 'runs'} added: {', '.join(map(str, files))}", soft_wrap=True
            )
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


def recipes(
    name: Annotated[str | None, typer.Argument(help="Show the rows and columns of this table.")] = None,
) -> None:
    """List the tables of the paper. Each cell is a recipe, TABLE/ROW/COLUMN."""
    with user_mistakes():
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
    output: Annotated[
        Path | None,
        output_option("-o", "--output-dir", help="Folder of the runs; runs/TABLE if not given."),
    ] = None,
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
    with user_mistakes():
        from reign.cli.progress import showing_progress
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
        with showing_progress(not quiet and fabric.is_global_zero) as callback:
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
        Path | None,
        output_option("-o", "--output-dir", help="Folder of the runs; runs/tune/<name> if not given."),
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
    with user_mistakes():
        from reign.cli.progress import showing_progress
        from reign.experiments.tune import Search, best_folder, best_point, study_table
        from reign.experiments.tune import tune as run
        from reign.train import train
        from reign.train.engine.execution import make_fabric
        from reign.train.settings.yaml import choices, merge, override

        at_least_one("--seeds", seeds)
        at_least_one("--trials", trials)
        at_least_one("--jobs", jobs)
        at_least_one("--max-weights", max_weights)
        if (recipe is None) == (data_path is None):
            fail("give a recipe, as in: reign tune zinc/sun-ego, or a table, as in: reign tune -i molecules.csv.")
        changes = [override(text) for text in settings or []]
        data = given(
            path=None if data_path is None else str(data_path.absolute()),
            smiles_columns=smiles_columns,
            target_columns=target_columns,
            task=task_type,
            split=split_type,
            splits_column=splits_column,
        )
        if data_path is not None:
            if jobs is not None:
                fail("--jobs is for the grid of a recipe; the trials for a table follow one another, so leave it out.")
            if max_weights is not None or with_best:
                fail("--max-weights and --train-best are for the grid of a recipe; leave them out.")
            changes.append({"seeds": list(range(seeds))})
            tune_on_table(
                data_path, data, changes, dict(map(choices, grid or [])), study, storage, trials, seeds, output, accelerator, quiet
            )
            return
        assert recipe is not None
        changes = [{"data": data}, *changes] if data else changes
        base = recipe_for(merge(*changes)) if recipe == "-" else recipe
        search = Search.of(base, dict(map(choices, grid or [])), *changes, seeds=seeds, max_weights=max_weights)
        folder = output if output is not None else Path("runs") / "tune" / search.name.replace("/", "-")
        fabric = make_fabric(search.recipes()[0].train.precision, accelerator)
        with showing_progress(not quiet) as callback:
            try:
                found = run(
                    search, folder, study_name=study, storage=storage, trials=trials, fabric=fabric, callback=callback, jobs=jobs
                )
                if with_best:
                    best = search.recipe(best_point(search, found), whole=True)
                    place = best_folder(folder, best)
                    train(best, place, resume=True, fabric=fabric, callback=callback, jobs=jobs)
            except KeyboardInterrupt:
                fail("stopped; if --storage was given, run the same command again to continue.")
        plain_console().print(study_table(found, search).rich())
        if with_best:
            plain_console().print(f"The best run is in {place}.", soft_wrap=True)


def tune_on_table(
    file: Path,
    data: dict[str, Any],
    changes: list[dict[str, Any]],
    choices: dict[str, list[Any]],
    study: str | None,
    storage: str | None,
    trials: int | None,
    seeds: int,
    output: Path | None,
    accelerator: str,
    quiet: bool,
) -> None:
    """Search the settings for a table, then train the best ones."""
    from reign.cli.progress import showing_progress
    from reign.experiments import find_recipe
    from reign.experiments.tune import TableSearch, best_first, best_folder, study_table, tune_table
    from reign.train import train
    from reign.train.engine.execution import make_fabric
    from reign.train.settings.yaml import merge

    if not file.is_file():
        fail(f"the file {file} does not exist.")
    search = TableSearch(find_recipe(recipe_for(merge({"data": data}, *changes)), {"data": data}, *changes)[0], choices)
    usual = Path("runs") / "tune" / stem(file)
    folder = output or (free(usual) if storage is None else usual)  # a search in a database continues in its folder
    if (folder / "best").exists() and storage is None:
        fail(f"{folder}/best already exists; choose a new folder with -o.")
    fabric = make_fabric(search.recipe.train.precision, accelerator)
    with showing_progress(not quiet) as callback:
        try:
            found = tune_table(
                search, folder, study_name=study or stem(file), storage=storage, trials=trials, fabric=fabric, callback=callback
            )
            if not best_first(found):
                fail("no trial was completed; use more --trials.")
            best = best_first(found)[0]
            chosen = search.recipe_of(best.params, seeds)
            place = best_folder(folder, chosen)
            train(chosen, place, resume=storage is not None, fabric=fabric, callback=callback)
        except KeyboardInterrupt:
            fail("stopped; if --storage was given, run the same command again to continue.")
    console = plain_console()
    console.print(study_table(found).rich())
    stopped = sum(trial.state.name == "PRUNED" for trial in found.trials)
    console.print(
        f"{stopped} of {len(found.trials)} trials were stopped early. The best settings are those of trial {best.number}."
    )
    console.print(f"The best run is in {place}.", soft_wrap=True)
    show_predict_command(console, search.recipe.data, place)
