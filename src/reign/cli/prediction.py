"""``reign predict`` and ``reign evaluate``."""

from pathlib import Path
from typing import Annotated

import typer

from reign.cli.options import Accelerator, Quiet, data_option, model_option, output_option
from reign.cli.tools import check_writable, fail, plain_console, stem, user_mistakes


def predict(
    data_path: Annotated[Path, data_option("-i", "--data-path", help="A CSV of molecules.")],
    model_paths: Annotated[list[Path], model_option(help="Folder of a run; repeat for an ensemble of several.")],
    output: Annotated[Path | None, output_option("-o", "--output", help="CSV to write; <input>_preds.csv if not given.")] = None,
    smiles_columns: Annotated[
        list[str] | None,
        data_option("-s", "--smiles-columns", help="Column of SMILES; as in training if not given."),
    ] = None,
    uncertainty_method: Annotated[
        str | None, model_option(help="ensemble (the spread over models) or none; ensemble if there are several models.")
    ] = None,
    accelerator: Accelerator = "auto",
    quiet: Quiet = False,
) -> None:
    """Predict for a CSV of molecules.

    Every row comes back, in order, with the columns <target>_pred, <target>_unc and error.

    For 0/1 targets the prediction is a probability. Rows that cannot be predicted have the reason in the column error.
    """
    with user_mistakes():
        from reign.cli.progress import showing_progress
        from reign.disk import write_csv
        from reign.train import load
        from reign.train.devices import find_device

        if uncertainty_method not in (None, "ensemble", "none"):
            fail(f"--uncertainty-method is '{uncertainty_method}', expected ensemble or none.")
        target = output if output is not None else data_path.with_name(f"{stem(data_path)}_preds.csv")
        check_writable(target)
        predictor = load(*model_paths, device=find_device(accelerator))
        if uncertainty_method == "ensemble" and len(predictor.models) == 1:
            plain_console(stderr=True).print(
                "There is one model, which has no spread: no uncertainty is given. Train several with --ensemble-size 5, or give several "
                "runs by repeating --model-paths.",
                soft_wrap=True,
            )
        with showing_progress(not quiet) as callback:
            table = predictor.predict_file(data_path, smiles_columns, uncertainty=uncertainty_method != "none", callback=callback)
        write_csv(target, list(table.columns), table.astype(object).where(table.notna(), "").itertuples(index=False, name=None))
    bad = int((table["error"] != "").sum())
    plain_console().print(
        f"{len(table) - bad:,} of {len(table):,} rows predicted, in {target}."
        + (f" {bad:,} could not be predicted; see its column error." if bad else ""),
        soft_wrap=True,
    )


def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    split: Annotated[str, data_option(help="train, val or test.")] = "test",
    data_path: Annotated[
        Path | None,
        data_option("-i", "--data-path", help="Another CSV with the same columns; all of its rows count."),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        model_option(help="Metric, such as rmse, mae, r2, roc, prc, f1, mcc; repeat for more. As in training if not given."),
    ] = None,
    accelerator: Accelerator = "auto",
    quiet: Quiet = False,
) -> None:
    """Measure a run again, from its weights, on a split of its data or on another CSV."""
    with user_mistakes():
        from reign.cli.progress import showing_progress
        from reign.train import load
        from reign.train.devices import find_device

        predictor = load(run, device=find_device(accelerator))
        with showing_progress(not quiet) as callback:
            result = (
                predictor.evaluate(split, callback, metrics)
                if data_path is None
                else predictor.evaluate_file(data_path, callback, metrics)
            )
    names, found = [str(model.folder.relative_to(run)) for model in predictor.models], result["all_metrics"]
    if "ensemble" in result and len(found) > 1:
        names, found = [*names, f"ensemble of {len(names)}"], [*found, result["ensemble_metrics"]]
    for name, measured in zip(names, found, strict=True):
        for metric, (value, *each) in measured.items():
            by_target = ", ".join(f"{target} {v:.5g}" for target, v in zip(result["targets"], each, strict=False))
            plain_console().print(
                f"{name}: {result['split']} {metric} {value:.5g}" + (f" ({by_target})" if each else ""), soft_wrap=True
            )
    if left_out := result.get("left_out"):
        row, reason = next(iter(left_out.items()))
        plain_console().print(
            f"{result['rows'] - len(left_out):,} of {result['rows']:,} rows were measured. Row {row} was left out: {reason}."
            + (f" So were {len(left_out) - 1:,} more." if len(left_out) > 1 else ""),
            soft_wrap=True,
        )
