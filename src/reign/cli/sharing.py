"""``reign export``."""

from pathlib import Path
from typing import Annotated

import typer

from reign.cli.options import output_option
from reign.cli.tools import check_writable, plain_console, show_predict_command, user_mistakes


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    output: Annotated[Path, output_option("-o", "--output", help="Zip to write.")] = Path("model.zip"),
    with_molecules: Annotated[
        bool, output_option("--with-molecules", help="Also keep the SMILES of the training molecules, for predict --nearest.")
    ] = False,
    quiet: Annotated[bool, output_option("-q", "--quiet", help="Print nothing.")] = False,
) -> None:
    """Write a run as one zip to share, with a model card.

    It holds settings, results, calibration and weights, but no labels, splits, checkpoints or names of folders. Commands that predict take the zip in place of the folder of a run.
    """
    with user_mistakes():
        check_writable(output)
        from reign.train.archive import export as write
        from reign.train.settings.config import Recipe

        files = write(run, output, with_molecules)
        recipe = Recipe.load(run / "recipe.yaml")
    if quiet:
        return
    console = plain_console()
    console.print(
        f"The model is in {output}: {len(files)} files, {output.stat().st_size / 1e6:,.1f} MB. Its README.md is a model card.",
        soft_wrap=True,
    )
    show_predict_command(console, recipe.data, output)
