"""``reign report``, ``explain`` and ``export``: pages about runs and predictions, and runs to share."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from reign.cli.options import Quiet, SmilesColumnsAsTrained, data_option, model_option, output_option, progress_unless
from reign.cli.tools import at_least_one, check_writable, fail, plain_console, show_predict_command

LARGEST = 200  # largest number of molecules on one page


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of runs, or the folder of a table, such as runs/zinc.", metavar="RUN...")
    ],
    output: Annotated[
        Path | None,
        output_option(
            "-o",
            "--output",
            help="HTML file to write; if not given, report.html in the folder, or in the current folder for several.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write an HTML page about runs.

    It has curves, predictions, the paper's numbers, settings, time and memory, and works offline.
    """
    from reign.plots import write_report

    check_writable(output)
    with progress_unless(quiet) as callback:
        (page,) = (write_report(runs, file) for file in callback.track([output], "writing the report"))
    plain_console().print(f"The report is in {page}.", soft_wrap=True)


def explain(
    run: Annotated[Path, typer.Argument(help="Folder of a run that was trained on molecules.")],
    smiles: Annotated[list[str] | None, data_option(help="SMILES of a molecule; repeat for more.")] = None,
    data_path: Annotated[Path | None, data_option("-i", "--data-path", help="A CSV of molecules.")] = None,
    smiles_columns: SmilesColumnsAsTrained = None,
    target: Annotated[
        str | None, model_option(help="Target or class to explain; the first target, or the predicted class, if not given.")
    ] = None,
    output: Annotated[Path, output_option("-o", "--output", help="HTML file to write.")] = Path("explanation.html"),
    csv: Annotated[Path | None, output_option(help="Also write the score of every atom to this file.")] = None,
    quiet: Quiet = False,
) -> None:
    """Show which atoms, bonds and subgraphs matter for a prediction.

    The page shows the scores on the molecule, and on the matrix of all nodes in all subgraphs.
    """
    if bool(smiles) == (data_path is not None):
        fail("give either molecules, as in --smiles CCO, or a table, as in -i molecules.csv.")
    from reign.disk import write_csv
    from reign.plots.molecules import explain_smiles, score_rows, smiles_of_file, write_explanations
    from reign.train import load

    check_writable(output)
    check_writable(csv)
    predictor = load(run)
    texts = smiles or smiles_of_file(Path(str(data_path)), smiles_columns or predictor.recipe.data.smiles_columns)
    if len(texts) > LARGEST:
        fail(
            f"{data_path} has {len(texts):,} rows, expected at most {LARGEST}, because each has pictures on the page; select the rows of interest."
        )
    with progress_unless(quiet) as callback:
        found, errors = explain_smiles(predictor, texts, target, callback.track)
    for text, error in errors.items():
        plain_console(stderr=True).print(f"{text} was left out: {error}", soft_wrap=True)
    if not found:
        fail("no molecule could be read.")
    for each in found:
        if each.warning:
            plain_console(stderr=True).print(f"Warning: {each.name}: {each.warning}.", soft_wrap=True)
    write_explanations(output, f"Explanations of {run.name or run}", found, errors)
    if csv is not None:
        write_csv(csv, *score_rows(found))
    plain_console().print(f"{len(found)} of {len(texts)} molecules explained; the page is in {output}.", soft_wrap=True)


def reports_at_end(folders: Sequence[Path], quiet: bool) -> None:
    """Write the report of each finished training if matplotlib is installed, and print its path. Failures are printed, but are not errors."""
    from reign.disk import first_line

    done = []
    with progress_unless(quiet) as callback:
        for folder in callback.track(folders if find_spec("matplotlib") else [], "writing the report"):
            try:
                from reign.plots import write_report

                done.append((f"The report is in {write_report([folder])}.", False))
            except Exception as error:  # the run itself is finished and complete
                done.append((f"The report could not be written ({first_line(error)}).", True))
    for said, failed in done:
        plain_console(stderr=failed).print(said, soft_wrap=True)


# -- a run as one file ---------------------------------------------------------------------------------------------------------


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    output: Annotated[Path, output_option("-o", "--output", help="Zip to write.")] = Path("model.zip"),
    with_molecules: Annotated[
        bool, output_option("--with-molecules", help="Also keep the SMILES of the training molecules, for predict --nearest.")
    ] = False,
    onnx: Annotated[
        Path | None,
        output_option(
            help="In place of a zip, write this ONNX file, and next to it a program that predicts with onnxruntime and RDKit alone."
        ),
    ] = None,
    max_atoms: Annotated[
        int | None, output_option(help="The largest molecule that the ONNX file is used for; 200 if not given, at most 2000.")
    ] = None,
    quiet: Annotated[bool, output_option("-q", "--quiet", help="Print nothing.")] = False,
) -> None:
    """Write a run as one zip to share, or as an ONNX file.

    The zip has a model card. It holds settings, results, calibration and weights, but no labels, splits, checkpoints or names of folders. Commands that predict take the zip in place of the folder of a run.
    """
    check_writable(output if onnx is None else onnx)
    at_least_one("--max-atoms", max_atoms)
    if max_atoms is not None and onnx is None:
        fail("--max-atoms is for an ONNX file; add --onnx FILE, or leave it out.")
    if onnx is not None:
        from reign.train.runs.onnx import export_onnx

        if with_molecules:
            fail("--with-molecules is for a zip, and an ONNX file holds no molecules; leave it out.")
        program = export_onnx(run, onnx, max_atoms or 200)
        if not quiet:
            size = f"{onnx.stat().st_size / 1e6:,.1f} MB"
            plain_console().print(
                f"The model is in {onnx}: {size}. Predict with: python {program} {onnx} FILE.csv out.csv", soft_wrap=True
            )
        return
    from reign.train.runs.run import Run
    from reign.train.runs.share import export as write

    files = write(run, output, with_molecules)
    recipe = Run(run).recipe
    if quiet:
        return
    console = plain_console()
    console.print(
        f"The model is in {output}: {len(files)} files, {output.stat().st_size / 1e6:,.1f} MB. Its README.md is a model card.",
        soft_wrap=True,
    )
    show_predict_command(console, recipe.data, output)
