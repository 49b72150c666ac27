"""``reign train``, ``predict`` and ``evaluate``."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from reign.cli.render import summary_table
from reign.cli.tools import check_writable, fail, user_mistakes

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change any setting, as train.optimiser.lr=0.01; repeat for more."),
]
Accelerator = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Devices = Annotated[int, typer.Option(help="Processes on this machine; torchrun works too.")]
Nodes = Annotated[int, typer.Option(help="Machines.")]


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            help="RECIPE, RECIPE/ROW or RECIPE/ROW/COLUMN of the paper, as zinc/sun-ego (reign recipes lists them), or a YAML file."
        ),
    ] = None,
    data_path: Annotated[Path | None, typer.Option("-i", "--data-path", help="A CSV of molecules to learn from.")] = None,
    smiles_columns: Annotated[
        list[str] | None, typer.Option("-s", "--smiles-columns", help="Column of SMILES; several make one graph.")
    ] = None,
    target_columns: Annotated[
        list[str] | None, typer.Option(help="Column to predict; repeat for more. All other columns of numbers if not given.")
    ] = None,
    task_type: Annotated[
        str | None, typer.Option("-t", "--task-type", help="regression, classification (0 or 1) or multiclass.")
    ] = None,
    split_type: Annotated[str | None, typer.Option(help="random or scaffold_balanced.")] = None,
    split_sizes: Annotated[list[float] | None, typer.Option(help="Shares of train, val and test: give it three times.")] = None,
    splits_column: Annotated[str | None, typer.Option(help="Column that says train, val or test.")] = None,
    split_seed: Annotated[int | None, typer.Option(help="Of the random split.")] = None,
    model: Annotated[str | None, typer.Option(help="A model, as sun or gnn-ak+ (reign models lists them).")] = None,
    policy: Annotated[str | None, typer.Option(help="A policy, as ego+:3 (reign policies lists them).")] = None,
    epochs: Annotated[int | None, typer.Option(help="How long to train.")] = None,
    batch_size: Annotated[int | None, typer.Option("-b", "--batch-size", help="Graphs in a batch.")] = None,
    ensemble_size: Annotated[
        int | None, typer.Option(help="Train so many models; their mean predicts, their spread is the uncertainty.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="The same, in the paper's words: seeds 0, 1, ...")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output-dir", help="Folder of the run; runs/<name> if not given.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with a run that was stopped.")] = None,
    settings: Settings = None,
    accelerator: Accelerator = "auto",
    devices: Devices = 1,
    num_nodes: Nodes = 1,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress.")] = False,
) -> None:
    """Train on a CSV of molecules, or a recipe of the paper.

    reign train -i molecules.csv -s smiles --target-columns logS -o RUN

    reign train zinc/sun-ego --seeds 1

    A run is a folder with settings, splits, metrics, weights and predictions. A run that was stopped, by whatever, goes on with
    reign train --resume RUN, and ends as if it had not been.
    """
    with user_mistakes():
        from reign.experiments.tables import find_recipe
        from reign.train.config import Recipe
        from reign.train.devices import make_fabric
        from reign.train.overrides import merge, override
        from reign.train.run import train as run

        changes: list[dict[str, Any]] = [
            {
                "data": _given(
                    path=None if data_path is None else str(data_path.absolute()),
                    smiles_columns=smiles_columns,
                    target_columns=target_columns,
                    task=task_type,
                    split=split_type,
                    split_sizes=split_sizes,
                    splits_column=splits_column,
                    split_seed=split_seed,
                )
            },
            {"model": _given(name=model, policy=policy), "train": _given(epochs=epochs, batch_size=batch_size)},
            *(override(text) for text in settings or []),
        ]
        if ensemble_size is not None and seeds is not None:
            fail("--ensemble-size and --seeds are the same; give one of them.")
        number = ensemble_size if ensemble_size is not None else seeds
        if number is not None:
            if number < 1:
                fail(f"--{'ensemble-size' if ensemble_size is not None else 'seeds'} is {number}, expected at least 1.")
            changes.append({"seeds": list(range(number))})
        if resume is not None:
            if recipe is not None or data_path is not None or output is not None:
                fail("--resume takes the recipe and the folder from the run; leave the recipe, -i and -o out.")
            if not (resume / "recipe.yaml").is_file():
                fail(f"{resume} holds no run to go on with: there is no recipe.yaml.")
            saved = Recipe.load(resume / "recipe.yaml")
            plan, folder = Recipe.check(merge(saved.model_dump(mode="json"), *changes), "--set"), resume
        else:
            if (recipe is None) == (data_path is None):
                fail(
                    "give a recipe, as in: reign train zinc/sun-ego, or a table, as in: reign train -i molecules.csv --target-columns logS."
                )
            if data_path is not None and not data_path.is_file():
                fail(f"there is no file {data_path}.")
            plan, name = find_recipe(recipe or "molecules", *changes)
            folder = output if output is not None else _free(Path("runs") / (_stem(data_path) if data_path else name))
        from reign.cli.progress import watching

        fabric = make_fabric(plan.train.precision, accelerator, devices, num_nodes)
        with watching(not quiet and fabric.is_global_zero) as watch:
            try:
                summary = run(plan, folder, resume=resume is not None, fabric=fabric, watch=watch)
            except KeyboardInterrupt:
                fail(f"stopped; go on with: reign train --resume {folder}")
    if fabric.is_global_zero:
        console = Console()
        console.print(summary_table(summary))
        console.print(f"The run is in {folder}.", highlight=False, soft_wrap=True, markup=False)
        if plan.data.name == "csv":
            console.print(
                f"Predict with: reign predict -i FILE.csv --model-paths {folder} -o out.csv", highlight=False, soft_wrap=True
            )


def predict(
    data_path: Annotated[Path, typer.Option("-i", "--data-path", help="A CSV of molecules.")],
    model_paths: Annotated[list[Path], typer.Option(help="Folder of a run; repeat for an ensemble of several.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="CSV to write; <input>_preds.csv if not given.")] = None,
    smiles_columns: Annotated[
        list[str] | None, typer.Option("-s", "--smiles-columns", help="Column of SMILES; as in training if not given.")
    ] = None,
    uncertainty_method: Annotated[
        str, typer.Option(help="ensemble (the spread over models, if there are several) or none.")
    ] = "ensemble",
    accelerator: Accelerator = "auto",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress.")] = False,
) -> None:
    """Predict for a CSV of molecules: every row comes back, in order, with <target>_pred, <target>_unc and error beside it.

    For 0/1 targets the prediction is a probability. Rows that cannot be read have the reason in the column error.
    """
    with user_mistakes():
        from reign.cli.progress import watching
        from reign.data.molecules import need_columns, read_molecules, read_table
        from reign.train.predictor import load

        if uncertainty_method not in ("ensemble", "none"):
            fail(f"--uncertainty-method is '{uncertainty_method}', expected ensemble or none.")
        target = output if output is not None else data_path.with_name(f"{_stem(data_path)}_preds.csv")
        check_writable(target)
        predictor = load(*model_paths, device=_device(accelerator))
        if predictor.recipe.data.name != "csv":
            fail(
                f"{model_paths[0]} learned from {predictor.recipe.data.name}, not from a CSV of molecules; use reign.load(...).predict(graphs) from Python."
            )
        table, odd = read_table(data_path)
        columns = smiles_columns or predictor.recipe.data.smiles_columns
        need_columns(table, columns, data_path)
        with watching(not quiet) as watch:
            found = predictor.table(*read_molecules(table, columns, odd), watch)
        if uncertainty_method == "none":
            found = found.drop(columns=[f"{target}_unc" for target in predictor.targets], errors="ignore")
        if taken := [c for c in found.columns if c in table.columns]:
            fail(f"{data_path} has a column '{taken[0]}' already; rename it.")
        for column in found.columns:
            table[column] = found[column].to_numpy()
        table.to_csv(target, index=False)
    bad = int((found["error"] != "").sum())
    Console().print(
        f"{len(table) - bad:,} of {len(table):,} rows predicted, in {target}."
        + (f" {bad:,} could not be read; see its column error." if bad else ""),
        highlight=False,
        soft_wrap=True,
        markup=False,
    )


def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    data_path: Annotated[
        Path | None, typer.Option("-i", "--data-path", help="Another CSV with the same columns; all of its rows count.")
    ] = None,
    accelerator: Accelerator = "auto",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress.")] = False,
) -> None:
    """Measure a run again, from its weights, on a split of its data or on another CSV."""
    with user_mistakes():
        from reign.cli.progress import watching
        from reign.data.molecules import load_table
        from reign.train.metrics import metric
        from reign.train.predictor import load

        predictor = load(run, device=_device(accelerator))
        with watching(not quiet) as watch:
            if data_path is None:
                result = predictor.evaluate(split, watch)
            else:
                settings = predictor.recipe.data
                if settings.name != "csv":
                    fail(f"{run} learned from {settings.name}, not from a CSV of molecules; leave -i out.")
                problem, report = load_table(
                    data_path, settings.smiles_columns, predictor.targets, predictor.task, classes=predictor.classes
                )
                watch.table(report)
                outs = predictor.outputs(problem.graphs, watch=watch)
                name = predictor.summary["metric"]
                result = {
                    "metric": name,
                    "split": data_path.name,
                    "models": [metric(name, out, problem.y) for out in outs],
                    "ensemble": predictor.score(outs, problem.y),
                }
    console = Console()
    for member, value in zip(predictor.members, result["models"], strict=True):
        console.print(f"{member.relative_to(run)}: {result['split']} {result['metric']} {value:.5g}", highlight=False, markup=False)
    if "ensemble" in result and len(result["models"]) > 1:
        console.print(
            f"ensemble of {len(result['models'])}: {result['split']} {result['metric']} {result['ensemble']:.5g}", highlight=False
        )


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _stem(file: Path) -> str:
    """The name of a table without .csv, .csv.gz and the like."""
    name = file.name
    for ending in (".gz", ".bz2", ".xz", ".zip", ".csv", ".tsv"):
        name = name.removesuffix(ending)
    return name or file.name


def _free(folder: Path) -> Path:
    """A folder that is not there yet: the name, or the name and a number."""
    number = 2
    free = folder
    while free.exists():
        free = folder.with_name(f"{folder.name}-{number}")
        number += 1
    return free


def _device(accelerator: str) -> str:
    import torch

    if accelerator not in ("auto", "cpu", "cuda"):
        fail(f"--accelerator is '{accelerator}', expected auto, cpu or cuda.")
    if accelerator == "cuda" and not torch.cuda.is_available():
        fail("--accelerator is cuda, and this machine has none; use cpu.")
    return "cuda" if accelerator != "cpu" and torch.cuda.is_available() else "cpu"
