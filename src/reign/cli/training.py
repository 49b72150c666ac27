"""``reign train`` and ``reign pretrain``."""

from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Annotated

import typer

from reign.cli import options
from reign.cli.options import data_option, machine_option, model_option, output_option, rows_option, start_option, training_option
from reign.cli.reports import reports_at_end
from reign.cli.tools import at_least_one, fail, free, plain_console, show_predict_command, stem
from reign.tables import Table, number

if TYPE_CHECKING:
    from reign.train.runs.results import Summary


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe, such as zinc/sun-ego (reign recipes lists them), or a YAML file.")
    ] = None,
    data_path: options.TrainingTable = None,
    smiles_columns: options.SmilesColumns = None,
    target_columns: options.TargetColumns = None,
    task_type: options.TaskType = None,
    ignore_columns: options.IgnoreColumns = None,
    split_type: options.SplitType = None,
    split_sizes: options.SplitSizes = None,
    splits_column: options.SplitsColumn = None,
    splits_file: options.SplitsFile = None,
    group_column: options.GroupColumn = None,
    time_column: options.TimeColumn = None,
    split_seed: options.SplitSeed = None,
    weight_column: Annotated[str | None, rows_option(help="Column with the weight of each row in training.")] = None,
    class_balance: Annotated[bool, rows_option("--class-balance", help="Weight rows so that all classes count equally.")] = False,
    metrics: Annotated[list[str] | None, rows_option(help="Metrics, such as rmse, mae, r2, roc, prc, f1.")] = None,
    descriptors_columns: Annotated[list[str] | None, rows_option(help="Columns of numbers that are additional inputs.")] = None,
    descriptors_path: Annotated[Path | None, rows_option(help="A CSV of additional inputs, row by row.")] = None,
    molecule_featurizers: Annotated[
        list[str] | None, rows_option(help="rdkit_2d, morgan_count, morgan_binary, atom_pairs.")
    ] = None,
    num_replicates: Annotated[int | None, rows_option(help="Number of splits, with different seeds, to train on.")] = None,
    num_folds: Annotated[int | None, rows_option(help="Number of folds for cross-validation.")] = None,
    model: Annotated[str | None, model_option(help="A model, such as sun or gnn-ak+ (reign models lists them).")] = None,
    policy: Annotated[str | None, model_option(help="A policy, such as ego+:3 (reign policies lists them).")] = None,
    dropout: Annotated[float | None, model_option(help="Dropout probability.")] = None,
    ignore_stereo: Annotated[bool, model_option("--ignore-stereo", help="Use neither chirality nor E/Z of molecules.")] = False,
    loss_function: Annotated[
        str | None, model_option("-l", "--loss-function", help="Loss: mse, l1 (reports mae), mve (with variances), ...")
    ] = None,
    no_baseline: Annotated[bool, model_option("--no-baseline", help="Fit nothing to compare the model with.")] = False,
    ensemble_with: Annotated[list[str] | None, model_option(help="forest, gp: predict with these, too.")] = None,
    epochs: Annotated[int | None, training_option(help="Number of epochs.")] = None,
    patience: Annotated[int | None, training_option(help="Stop after so many epochs without gain; keep the best.")] = None,
    task_weights: Annotated[list[float] | None, training_option(help="How much each target counts in the loss.")] = None,
    batch_size: Annotated[int | None, training_option("-b", "--batch-size", help="Number of graphs in a batch.")] = None,
    ensemble_size: Annotated[int | None, training_option(help="Number of models; their mean is the prediction.")] = None,
    seeds: Annotated[int | None, training_option(help="Number of seeds 0, 1, ...; the same as --ensemble-size.")] = None,
    output: Annotated[Path | None, output_option("-o", "--output-dir", help="Folder of the run; runs/<name> if not given.")] = None,
    resume: Annotated[Path | None, training_option(help="Continue this run; a larger --epochs trains it longer.")] = None,
    checkpoint: Annotated[Path | None, start_option(help="Start from the weights of this run, for any targets.")] = None,
    from_foundation: Annotated[
        str | None, start_option(metavar="NAME", help="Start from this encoder: its name, or its folder.")
    ] = None,
    from_scratch: Annotated[bool, start_option("--from-scratch", help="Start from random weights.")] = False,
    freeze_encoder: Annotated[bool, start_option("--freeze-encoder", help="With --checkpoint, train only the head.")] = False,
    freeze_epochs: Annotated[int | None, start_option(help="Train only the head for so many epochs, then all weights.")] = None,
    settings: options.Settings = None,
    eager: Annotated[bool, machine_option("--eager", help="Use plain PyTorch operations, also on a GPU.")] = False,
    jobs: options.Jobs = None,
    accelerator: options.Accelerator = "auto",
    devices: options.Devices = 1,
    num_nodes: options.Nodes = 1,
    quiet: options.Quiet = False,
    write_report: options.WithReport = True,
) -> None:
    """Train on a CSV of molecules, or with a recipe of the paper.

    reign train -i molecules.csv -s smiles --target-columns logS -o RUN

    reign train zinc/sun-ego --seeds 1

    A run is a folder. reign train --resume RUN continues it to the same result.
    """
    from reign.experiments import find_recipe
    from reign.experiments.pretrain import recipe_of_table
    from reign.train.engine.execution import make_fabric
    from reign.train.runs.build import model_of, stereo_of
    from reign.train.runs.run import Run
    from reign.train.runs.train import replicates, train_all
    from reign.train.settings.config import Recipe
    from reign.train.settings.yaml import RawSettings, merge, override

    given = locals()
    start = start_of(checkpoint, from_foundation, from_scratch)
    overrides = [override(text) for text in settings or []]
    own_start = own.get("checkpoint", start) if isinstance(own := merge(*overrides).get("train"), dict) else start
    if (start is not None or from_scratch) and own_start != start:
        fail(
            f"--set train.checkpoint={'null' if own_start is None else own_start} contradicts --checkpoint, --from-foundation or --from-scratch, "
            "which say where to start; give only one of them."
        )
    changes: list[RawSettings] = [
        options.settings_of(given),
        {"train": {} if start is None else {"checkpoint": start}},
        {} if patience is None else {"train": {"report": "best"}},
        {"train": {"metric": metrics[0], "metrics": metrics[1:]}} if metrics else {},
        {"train": {"metric": "mae"}} if not metrics and data_path is not None and loss_function in ("l1", "mae") else {},
        *overrides,
    ]
    why = ""
    if ensemble_size is not None and seeds is not None:
        fail("--ensemble-size and --seeds mean the same; give only one of them.")
    number = ensemble_size if ensemble_size is not None else seeds
    if no_baseline and ensemble_with:
        fail("--ensemble-with predicts with the baselines that --no-baseline leaves out; give only one of them.")
    at_least_one("--jobs", jobs)
    at_least_one("--num-replicates", num_replicates)
    if num_folds is not None:
        others: dict[str, object] = {"--split-sizes": split_sizes, "--splits-column": splits_column, "--splits-file": splits_file}
        others |= {"--time-column": time_column, "--split-seed": split_seed, "--num-replicates": num_replicates}
        if wrong := [option for option, value in others.items() if value is not None]:
            fail(f"--num-folds draws its own splits at random; leave out {' and '.join(wrong)}.")
        changes.append({"folds": num_folds})
    at_least_one("--seeds" if ensemble_size is None else "--ensemble-size", number)
    if number is not None:
        before = Run(resume).recipe.seeds[:1] if resume is not None and Run(resume).started else [0]
        first = merge(*changes).get("seeds", before)
        if not isinstance(first, list) or len(first) != 1 or not isinstance(first[0], int):
            fail(f"seeds are {first}, and --ensemble-size or --seeds counts them from the first one on; give only one of them.")
        changes.append({"seeds": list(range(first[0], first[0] + number))})
    if resume is not None:
        if recipe is not None or data_path is not None or output is not None:
            fail("--resume reads the recipe from the folder of the run; leave out the recipe, -i and -o.")
        if start is not None or from_scratch or num_replicates is not None:
            fail("--resume continues a run with its own weights and splits; leave out where to start from, and --num-replicates.")
        plan, folder = Run(resume).continued(*changes), resume
    else:
        if (recipe is None) == (data_path is None):
            fail(
                "give a recipe, as in: reign train zinc/sun-ego, or a table, as in: reign train -i molecules.csv --target-columns logS."
            )
        if data_path is not None and not data_path.is_file():
            fail(f"the file {data_path} does not exist.")
        usual, why = (recipe, "") if recipe is not None else recipe_of_table(merge(*changes))
        plan, name = find_recipe(usual, *changes)
        if start is not None:
            source = Path(start) if checkpoint is None else checkpoint
            own = merge(model_of(source), *(change.get("model", {}) for change in changes))
            data = merge(stereo_of(source) if data_path is not None else {}, *(change.get("data", {}) for change in changes))
            plan = Recipe.check(merge({**plan.model_dump(mode="json"), "model": own}, {"data": data}))
        folder = output if output is not None else free(Path("runs") / (stem(data_path) if data_path else name))
    plans = [(plan, folder)] if num_replicates is None else replicates(plan, folder, num_replicates)
    fabric = make_fabric(plan.train.precision, accelerator, devices, num_nodes)
    with options.progress_unless(quiet or not fabric.is_global_zero) as callback:
        if why and not quiet:
            callback.note(why)
        try:
            going_on = resume is not None or num_replicates is not None
            summaries = train_all(plans, resume=going_on, fabric=fabric, callback=callback, jobs=jobs)
        except KeyboardInterrupt:
            if num_replicates is not None:
                fail(f"stopped; run the same command again with -o {folder} to continue.")
            fail(
                f"stopped; continue with: reign train --resume {folder}" if Run(folder).started else "stopped; nothing was written."
            )
    if fabric.is_global_zero:
        console = plain_console()
        summary = summaries[0]
        console.print((summary_table(summary) if num_replicates is None else replicates_table(summaries)).rich())
        for r, each in enumerate(summaries):
            if (text := each.compare()) is not None:
                console.print(text if num_replicates is None else f"replicate {r}: {text}", soft_wrap=True)
        if num_replicates is None and (more := metrics_table(summary)) is not None:
            console.print(more.rich())
        console.print(
            f"The run is in {folder}." if num_replicates is None else f"The runs are in {folder}/replicate-0, ...", soft_wrap=True
        )
        if num_replicates is None:
            show_predict_command(console, plan.data, folder)
        if write_report:
            reports_at_end([place for _, place in plans], quiet)


def start_of(checkpoint: Path | None, foundation: str | None, scratch: bool) -> str | None:
    """The run or encoder whose weights to start from, as ``train.checkpoint`` names it; None if none is given."""
    if sum((checkpoint is not None, foundation is not None, scratch)) > 1:
        fail("--checkpoint, --from-foundation and --from-scratch each say where to start; give only one of them.")
    if foundation is not None:
        from reign.train.runs.encoders import Encoder, list_encoders

        if Encoder.find(foundation) is None:
            known = ", ".join(list_encoders()) or "none"
            fail(f"--from-foundation is '{foundation}', expected an encoder that comes with reign ({known}) or the folder of one.")
        return foundation if foundation in list_encoders() else str(Path(foundation).absolute())
    return None if checkpoint is None else str(checkpoint.absolute())


def summary_table(summary: "Summary") -> Table:
    """The results of a run."""
    (split, name, *more), rows = summary.table()
    over = "models" if not summary.folds else "seeds" if summary.val.seeds else "folds"  # what the deviation is over
    caption = f"{summary.parameters:,} weights, {summary.seconds:.0f} s of training"
    title = f"{name}, {summary.describe_weights()}"
    return Table(title, [split, "mean", "std", over] if more else [split, name], rows, caption)


def metrics_table(summary: "Summary") -> Table | None:
    """All metrics of a run on all splits, for each target; None if that is no more than the summary has."""
    first = next(iter(summary.metrics.values()), {})
    targets = list(next(iter(first.values())).targets) if first else []
    if len(first) < 2 and not targets:
        return None
    own = bool(summary.folds) and summary.report == "best"  # these are measured with the weights that are kept
    title = "the best epoch of each fold" if own else summary.describe_weights()
    rows = [
        [split, name, number(about.mean), *(number(about.targets[t]) for t in targets)]
        for split in ("train", "val", "test")
        for name, about in summary.metrics.get(split, {}).items()
    ]
    columns = ["split", "metric", "all targets" if targets else "value", *targets]
    return Table(title + (", mean over models" if len(summary.members) > 1 else ""), columns, rows, align="llr")


def replicates_table(summaries: "list[Summary]") -> Table:
    """The results of the same training on several splits, and their mean and deviation."""
    splits = [split for split in ("train", "val", "test") if all(split in summary.splits for summary in summaries)]
    beside = [name for name in summaries[0].beside if all(name in summary.beside for summary in summaries)]
    found = [{**summary.splits, **summary.beside} for summary in summaries]
    values = [[each[name].mean for name in [*splits, *beside]] for each in found]
    rows: list[list[object]] = [[str(r), *row] for r, row in enumerate(values)]
    columns = list(zip(*values, strict=True))
    rows.append(["mean", *map(mean, columns)])
    if len(values) > 1:
        rows.append(["std", *map(stdev, columns)])
    return Table(f"{summaries[0].metric} on {len(summaries)} splits", ["replicate", *splits, *beside], rows)


# -- reign pretrain -------------------------------------------------------------------------------------------------------------


def pretrain(
    smiles: Annotated[Path, typer.Argument(help="A file with one SMILES in each line; it may be compressed (.xz).")],
    output: Annotated[
        Path, output_option("-o", "--output-dir", help="Folder of the training; the encoder is in its folder encoder.")
    ],
    data: Annotated[str, data_option(help="Where the molecules are from, for the card of the encoder.")] = "",
    licence: Annotated[str, data_option(help="The licences of the molecules and of the encoder, for its card.")] = "",
    corpus: Annotated[
        Path | None,
        data_option(help="File that keeps the descriptors for further trainings; OUTPUT/corpus.safetensors if not given."),
    ] = None,
    limit: Annotated[int | None, data_option(help="Learn from this many molecules only, drawn at random.")] = None,
    only_read: Annotated[bool, data_option("--only-read", help="Compute the descriptors, and do not train.")] = False,
    model: Annotated[str | None, model_option(help="A model, such as dss (reign models lists them).")] = None,
    policy: Annotated[str | None, model_option(help="A policy, such as ego+:2.")] = None,
    minutes: Annotated[float | None, training_option(help="Minutes of training, without the reading; 60 if not given.")] = None,
    settings: options.Settings = None,
    num_workers: Annotated[int, machine_option(help="Number of processes that compute descriptors.")] = 1,
    accelerator: options.Accelerator = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Train an encoder on RDKit's descriptors of many molecules, without measurements.

    reign pretrain molecules.smi.xz -o ENCODER --minutes 30

    reign train -i table.csv --checkpoint ENCODER/encoder

    The same command continues a training that was stopped.
    """
    from reign.data.molecules import Corpus
    from reign.experiments.pretrain import PretrainConfig
    from reign.experiments.pretrain import pretrain as run
    from reign.train.engine.execution import make_fabric
    from reign.train.settings.yaml import override

    at_least_one("--limit", limit)
    file = corpus or output / "corpus.safetensors"
    if not smiles.is_file() and not file.is_file():
        fail(f"the file {smiles} does not exist.")
    given = locals()
    config = PretrainConfig.of(options.settings_of(given), *(override(text) for text in settings or []))
    with options.progress_unless(quiet) as callback:
        if file.is_file():
            found = Corpus.load(file)
            found.check_source(file, smiles, limit, config.seed)
        else:
            found = Corpus.read(smiles, num_workers, limit, config.seed, callback.track)
            file.parent.mkdir(parents=True, exist_ok=True)
            found.save(file)
        if only_read:
            plain_console().print(
                f"{found.tensors['nodes'].numel():,} molecules with {len(found.names)} descriptors are in {file}."
            )
            return
        about = {"data": data, "licence": licence, "left_out": found.failed}
        problem = found.problem(config.val_share, config.seed)
        encoder = run(problem, config, output, about, make_fabric(config.train.precision, accelerator), callback)
    scores = encoder.card["validation"]
    plain_console().print(
        f"The encoder is in {encoder.folder}: {encoder.card['parameters']:,} weights, R2 {scores['r2_mean']:.3f} over the descriptors of validation molecules."
    )
