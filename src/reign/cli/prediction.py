"""``reign predict`` and ``reign evaluate``."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from reign.train import Predictor

from reign.cli import options
from reign.cli.options import data_option, machine_option, model_option, output_option, progress_unless, unsure_option
from reign.cli.tools import check_writable, next_to, plain_console

DescriptorsPath = Annotated[
    Path | None, data_option(help="A CSV of descriptors, with one row per molecule, if the training used one.")
]
UncertaintyMethod = Annotated[
    str | None, unsure_option(help="ensemble, mve, dropout or none; if not given, mve or ensemble, whichever the run supports.")
]
NumWorkers = Annotated[
    int | None, machine_option(help="Number of extra processes that read SMILES; chosen by the size of the table if not given.")
]
Alpha = Annotated[float | None, unsure_option(help="Share of rows that may lie outside their interval; 0.1 if not given.")]
USUAL_ALPHA = 0.1


def possible_method(predictor: "Predictor", name: str | None, alpha: float | None, calibration: str | None = None) -> str | bool:
    """The method of uncertainty: a name, True for the default, or False for none.

    A note is printed if these models cannot give what was asked for by --uncertainty-method or --conformal-alpha.
    """
    from reign.train.predict.ensemble import WHY_NOT, make_plan, methods_of, why_no_intervals

    known, note = methods_of(predictor.models, bool(predictor.partners)), ""
    if name in WHY_NOT and name not in known:
        name, note = "none", f"{WHY_NOT[name]} No uncertainty is given."
    elif name is None and alpha is not None and predictor.task == "regression" and not set(known) - {"dropout"}:
        way_out = ", or use --uncertainty-method dropout" if "dropout" in known else ""
        note = "A single model that predicts no variance has no uncertainty, so there are no intervals. "
        note += f"Train with --ensemble-size 5 or --loss-function mve{way_out}."
    method = True if name is None else False if name == "none" else name
    if alpha is not None and method and not note:
        why = why_no_intervals(predictor, make_plan(predictor, method, calibration, alpha), calibration)
        note = "" if why is None else f"There are no intervals: {why}."
    if note:
        plain_console(stderr=True).print(note, soft_wrap=True)
    return method


def predict(
    data_path: Annotated[
        Path, data_option("-i", "--data-path", help="A table of molecules: .csv, .csv.gz or .parquet, or a folder of tables.")
    ],
    model_paths: Annotated[list[Path], model_option(help="A run, or a zip made by reign export; repeat to average several.")],
    output: Annotated[
        Path | None,
        output_option("-o", "--output", help="Table to write: .csv, .csv.gz or .parquet; <input>_preds.csv if not given."),
    ] = None,
    smiles_columns: options.SmilesColumnsAsTrained = None,
    descriptors_path: DescriptorsPath = None,
    best_model: Annotated[bool, model_option("--best-model", help="Use only the model with the best validation metric.")] = False,
    uncertainty_method: UncertaintyMethod = None,
    calibration_method: Annotated[
        str | None, unsure_option(help="temperature or isotonic for probabilities of classes; none for no calibration.")
    ] = None,
    conformal_alpha: Alpha = None,
    nearest: Annotated[
        int | None,
        unsure_option(help="Number of most similar training molecules to list. Molecules unlike all of them get a warning, too."),
    ] = None,
    warnings: Annotated[
        bool, unsure_option("--warnings/--no-warnings", help="Mark rows beyond the training molecules in the column warning.")
    ] = True,
    num_workers: NumWorkers = None,
    engine: Annotated[
        str, machine_option(help="Where to predict for a folder of tables: local (this process), or ray (a Ray cluster).")
    ] = "local",
    accelerator: options.Accelerator = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Predict the targets of a run for a table of molecules.

    The output has all rows and columns of the input, in order, and the columns <target>_pred, warning and error; with uncertainties also <target>_unc, <target>_lower and <target>_upper.

    For 0/1 targets the prediction is a probability. If a row cannot be predicted, the column error gives the reason. The column warning marks molecules of unusual size, with elements or other features that no training molecule has, and predictions far outside the training targets.

    A table of any size is read, computed and written in chunks. If the command is stopped, run it again to continue. If the input is a folder of tables, the output is a folder with one table of the same name for each of them.
    """
    from reign.train import load
    from reign.train.engine.execution import find_device
    from reign.train.predict.shards import predict_folder

    target = output if output is not None else next_to(data_path, "preds")
    folder = data_path.is_dir() or engine != "local"
    if not folder:
        check_writable(target)
    predictor = load(*model_paths, device=find_device(accelerator), best=best_model)
    method = possible_method(predictor, uncertainty_method, conformal_alpha, calibration_method)
    alpha = USUAL_ALPHA if conformal_alpha is None else conformal_alpha
    with progress_unless(quiet) as callback:
        predict_table = partial(predict_folder, predictor, engine=engine) if folder else predictor.write_predictions
        written = predict_table(
            data_path,
            target,
            smiles_columns=smiles_columns,
            uncertainty=method,
            calibration=calibration_method,
            alpha=alpha,
            nearest=nearest,
            warnings=warnings,
            descriptors_path=descriptors_path,
            num_workers=num_workers,
            callback=callback,
        )
    plain_console().print(
        f"{written.rows - written.failed:,} of {written.rows:,} rows predicted; the output is in {target}."
        + (f" {written.failed:,} could not be predicted; see the column error." if written.failed else "")
        + (
            f" {written.warned:,} {'has' if written.warned == 1 else 'have'} a warning; see the column warning."
            if written.warned
            else ""
        ),
        soft_wrap=True,
    )


def fingerprint(
    data_path: Annotated[Path, data_option("-i", "--data-path", help="A table of molecules: .csv, .csv.gz or .parquet.")],
    model_paths: Annotated[list[Path], model_option(help="A run, or a zip made by reign export; repeat for several.")],
    output: Annotated[
        Path | None,
        output_option("-o", "--output", help="Table to write: .csv, .csv.gz or .parquet; <input>_fps.csv if not given."),
    ] = None,
    smiles_columns: options.SmilesColumnsAsTrained = None,
    descriptors_path: DescriptorsPath = None,
    num_workers: NumWorkers = None,
    accelerator: options.Accelerator = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Write a vector for each molecule: the input of the head of a model.

    The output has all rows and columns of the input, in order, and the columns fp_0, fp_1, ... (for several models model_0_fp_0, ...) and error.
    """
    from reign.train import load
    from reign.train.engine.execution import find_device
    from reign.train.predict.output import write_vectors

    target = output if output is not None else next_to(data_path, "fps")
    check_writable(target)
    predictor = load(*model_paths, device=find_device(accelerator))
    with progress_unless(quiet) as callback:
        written = write_vectors(predictor, data_path, target, smiles_columns, callback, descriptors_path, num_workers)
    good = written.rows - written.failed
    plain_console().print(f"{good:,} of {written.rows:,} rows have vectors; the output is in {target}.", soft_wrap=True)


def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or a zip made by reign export.")],
    split: Annotated[str, data_option(help="Split to evaluate on: train, val or test.")] = "test",
    data_path: Annotated[
        Path | None, data_option("-i", "--data-path", help="Evaluate on all rows of another CSV with the same columns.")
    ] = None,
    descriptors_path: DescriptorsPath = None,
    metrics: Annotated[
        list[str] | None,
        model_option(help="Metric, such as rmse, mae, r2, roc, prc, f1, mcc; repeat for more. As in training if not given."),
    ] = None,
    uncertainty_method: UncertaintyMethod = None,
    conformal_alpha: Alpha = None,
    accelerator: options.Accelerator = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Compute the metrics of a run again, on a split of its data or on another CSV.

    If the run has uncertainties, their quality is shown, too.
    """
    from reign.train import load
    from reign.train.engine.execution import find_device
    from reign.train.predict.evaluate import describe_quality

    predictor = load(run, device=find_device(accelerator))
    method = possible_method(predictor, uncertainty_method, conformal_alpha)
    alpha = USUAL_ALPHA if conformal_alpha is None else conformal_alpha
    with progress_unless(quiet) as callback:
        result = (
            predictor.evaluate(split, callback, metrics, uncertainty=method, alpha=alpha)
            if data_path is None
            else predictor.evaluate_file(
                data_path, callback, metrics, uncertainty=method, alpha=alpha, descriptors_path=descriptors_path
            )
        )
    names, found = [str(model.folder.relative_to(predictor.folders[0])) for model in predictor.models], result["all_metrics"]
    if "ensemble" in result and (len(found) > 1 or predictor.partners):
        names, found = (
            [*names, f"ensemble of {len(names)}{' and ' * bool(beside := predictor.beside_words)}{beside}"],
            [*found, result["ensemble_metrics"]],
        )
    for name, measured in zip(names, found, strict=True):
        for metric, (value, *each) in measured.items():
            by_target = ", ".join(f"{target} {v:.5g}" for target, v in zip(result["targets"], each, strict=False))
            plain_console().print(
                f"{name}: {result['split']} {metric} {value:.5g}" + (f" ({by_target})" if each else ""), soft_wrap=True
            )
    for target, ways in result.get("uncertainty", {}).items():
        for how, quality in ways.items():
            plain_console().print(f"{target}, {how}: {describe_quality(quality)}", soft_wrap=True)
    if left_out := result.get("left_out"):
        row, reason = next(iter(left_out.items()))
        said = f"{result['rows'] - len(left_out):,} of {result['rows']:,} rows were evaluated."
        if quiet:  # otherwise the rows have been listed
            said += f" Row {row} was left out: {reason}."
            said += f" In total, {len(left_out):,} rows were left out." if len(left_out) > 1 else ""
        plain_console().print(said, soft_wrap=True)
