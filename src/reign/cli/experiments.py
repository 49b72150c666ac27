"""``reign reproduce``, ``tune`` and ``recipes``: the paper's experiments."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from reign.cli.render import comparison_rows, comparison_table, recipe_table, study_table
from reign.cli.tools import fail, user_mistakes
from reign.cli.training import Accelerator, Devices, Nodes, Settings
from reign.disk import write_csv


def recipes(
    name: Annotated[str | None, typer.Argument(help="A recipe, to see its rows and columns.")] = None,
) -> None:
    """List the recipes: the paper's tables, their rows and columns."""
    with user_mistakes():
        Console().print(recipe_table(name))


def reproduce(
    table: Annotated[str, typer.Argument(help="A table of the paper (reign recipes lists them), or a YAML file.")],
    seeds: Annotated[int | None, typer.Option(help="How many seeds; as in the paper if not given.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small share of data and epochs, to see that it works.")] = False,
    row: Annotated[list[str] | None, typer.Option(help="Only this row; repeat for more.")] = None,
    column: Annotated[list[str] | None, typer.Option(help="Only this column; repeat for more.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output-dir", help="Folder of the runs; runs/<table> if not given.")
    ] = None,
    settings: Settings = None,
    accelerator: Accelerator = "auto",
    devices: Devices = 1,
    num_nodes: Nodes = 1,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress.")] = False,
) -> None:
    """Run a table of the paper, and print ours beside the paper's, with the difference in standard deviations.

    What is done is not done again: stop and start as you like. The comparison is also written as table.csv.
    """
    with user_mistakes():
        from reign.cli.progress import watching
        from reign.experiments.reproduce import reproduce as run
        from reign.experiments.tables import load_table_recipe
        from reign.train.devices import make_fabric
        from reign.train.overrides import override

        plan = load_table_recipe(table)
        if list(plan.rows) == ["run"]:
            fail(f"{table} is a single recipe, not a table; use: reign train {table}.")
        changes: list[dict[str, Any]] = [override(text) for text in settings or []]
        if seeds is not None:
            if seeds < 1:
                fail(f"--seeds is {seeds}, expected at least 1.")
            changes.append({"seeds": list(range(seeds))})
        folder = output if output is not None else Path("runs") / (Path(table).stem + ("-quick" if quick else ""))
        fabric = make_fabric(
            "bf16-mixed" if _precision(plan, changes) == "bf16-mixed" else "32-true", accelerator, devices, num_nodes
        )
        with watching(not quiet and fabric.is_global_zero) as watch:
            try:
                found = run(plan, folder, *changes, rows=row, columns=column, quick=quick, fabric=fabric, watch=watch)
            except KeyboardInterrupt:
                fail("stopped; the same command goes on from here.")
        if fabric.is_global_zero:
            header, rows = comparison_rows(plan, found)
            write_csv(folder / "table.csv", header, rows)
    if fabric.is_global_zero:
        Console().print(comparison_table(plan, found, quick))


def tune(
    recipe: Annotated[
        str, typer.Argument(help="RECIPE/ROW/COLUMN as in train, or a YAML file; - for a CSV with --set data.path=FILE.")
    ],
    grid: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=V1,V2", help="Choices for a setting; over those of the recipe. Repeat for more."),
    ] = None,
    storage: Annotated[
        str | None, typer.Option(help="Database URL as sqlite:///study.db: several workers with the same one share the study.")
    ] = None,
    study: Annotated[str | None, typer.Option(help="Name of the study; the recipe's if not given.")] = None,
    trials: Annotated[int | None, typer.Option(help="Points this worker tries; all that are left if not given.")] = None,
    seeds: Annotated[int, typer.Option(help="Seeds of each point.")] = 1,
    output: Annotated[
        Path | None, typer.Option("-o", "--output-dir", help="Folder of the runs; runs/tune/<name> if not given.")
    ] = None,
    settings: Settings = None,
    accelerator: Accelerator = "auto",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress.")] = False,
) -> None:
    """Search the grid of a recipe by the validation metric, with optuna."""
    with user_mistakes():
        from reign.cli.progress import watching
        from reign.experiments.tables import find_recipe, load_table_recipe, point
        from reign.experiments.tune import tune as run
        from reign.train.devices import make_fabric
        from reign.train.overrides import override, read_value

        if seeds < 1 or (trials is not None and trials < 1):
            fail(f"--seeds is {seeds} and --trials is {trials}, expected at least 1.")
        changes = [*(override(text) for text in settings or []), {"seeds": list(range(seeds))}]
        choices: dict[str, list[Any]] = {}
        for text in grid or []:
            key, sign, values = text.partition("=")
            if not sign or not values:
                fail(f"--grid got '{text}', expected key=v1,v2 as in model.hidden_channels=64,128.")
            choices[key.strip()] = [read_value(v) for v in values.split(",")]
        name = "molecules" if recipe == "-" else recipe
        first, full = find_recipe(name, *changes, *([point({k: v[0] for k, v in choices.items()})] if choices else []))
        table = load_table_recipe(name if name.endswith((".yaml", ".yml")) else name.split("/")[0])
        of_row = table.grid_of(full.split("/")[1])
        whole = {**of_row, **choices}
        folder = output if output is not None else Path("runs") / "tune" / full.replace("/", "-")
        fabric = make_fabric(first.train.precision, accelerator)
        with watching(not quiet) as watch:
            try:
                found = run(
                    lambda p: find_recipe(name, *changes, point(p))[0],
                    whole,
                    folder,
                    name=study or full,
                    storage=storage,
                    trials=trials,
                    fabric=fabric,
                    watch=watch,
                )
            except KeyboardInterrupt:
                fail("stopped; with --storage the same command goes on from here.")
    Console().print(study_table(found))


def _precision(plan: Any, changes: list[dict[str, Any]]) -> str:
    first = next(iter(plan.rows))
    return str(plan.recipe(first, next(iter(plan.columns)), *changes).train.precision)
