"""The predictions of a run compared with its targets: metrics, pictures, and the largest errors."""

import numpy as np

from reign.plots._curves import Floats, draw_classification, draw_confusion, draw_parity, draw_uncertainty
from reign.plots._page import Page
from reign.plots._record import Predictions, Record
from reign.tables import number

ERRORS = 8  # number of molecules with the largest errors that are shown
TARGETS = 12  # largest number of targets with their own panel


def add_predictions(page: Page, run: Record, found: Predictions, prefix: str) -> None:
    """Add metrics of every target, pictures of the predictions, and the largest errors."""
    task, targets = run.about["task"], run.about["targets"]
    page.heading(f"Predictions ({found.split}, {len(found.names):,} graphs)")
    names, rows = run.metrics_of_targets()
    page.table(
        ["target", "labels", *names],
        [[t, int((~np.isnan(found.y[:, c])).sum()), *rows[c]] for c, t in enumerate(targets)],
    )
    shown = targets[:TARGETS]
    if task == "regression":
        page.picture(
            f"{prefix}parity", draw_parity("parity", shown, found.y, found.values, found.unsure), "Predictions against targets."
        )
    elif task == "classification":
        page.picture(f"{prefix}roc", draw_classification("roc", shown, found.y, found.values), "ROC curves and calibration.")
    else:
        known = ~np.isnan(found.y[:, 0])
        truth, best = found.y[known, 0].astype(np.int64), found.values[known].argmax(1).astype(np.int64)
        if len(truth):
            page.picture(
                f"{prefix}classes",
                draw_confusion("classes", run.about["classes"], truth, best),
                "Colours show the share of each true class.",
            )
    if len(shown) < len(targets):
        page.text(f"The first {len(shown)} of {len(targets)} targets are drawn.")
    error = errors_of(found, task)
    if found.unsure is not None and task == "regression":
        known = ~np.isnan(error)
        if known.sum() > 1:
            page.picture(
                f"{prefix}uncertainty",
                draw_uncertainty("uncertainty", error[known], found.unsure[known, 0]),
                "Mean error by the spread over models. It rises if the spread is a good measure of uncertainty.",
            )
    _largest(page, run, found, error, prefix)


def errors_of(found: Predictions, task: str) -> Floats:
    """The error of each graph: the error of its first target, or one minus the probability of its class."""
    if task == "multiclass":
        y = np.nan_to_num(found.y[:, 0]).astype(int).clip(0, found.values.shape[1] - 1)
        return np.where(np.isnan(found.y[:, 0]), np.nan, 1 - found.values[np.arange(len(y)), y])
    error: Floats = np.abs(found.values[:, 0] - found.y[:, 0])
    return error


def _largest(page: Page, run: Record, found: Predictions, error: Floats, prefix: str) -> None:
    """Add the graphs with the largest errors as a table, and as pictures if they are molecules."""
    known = np.flatnonzero(~np.isnan(error))
    worst: list[int] = known[np.argsort(-error[known])][:ERRORS].tolist()
    page.heading("Largest errors")
    columns = [column for column in run.recipe.data.smiles_columns if column in found.texts] if run.recipe.data.reads_smiles else []
    first = run.labels if run.about["classes"] else run.labels[:1]

    def value(g: int) -> str:
        return number(found.values[g, 0]) if not run.about["classes"] else first[int(found.values[g].argmax())]

    def truth(g: int) -> str:
        return number(found.y[g, 0]) if not run.about["classes"] else first[int(found.y[g, 0])]

    rows = [[found.names[g], *(found.texts[c][g] for c in columns), truth(g), value(g), float(error[g])] for g in worst]
    page.table(["graph", *columns, run.about["targets"][0], "prediction", "error"], rows)
    if not columns:
        return
    try:
        from reign.data.molecules import Molecule
        from reign.plots._molecule import Panel as MoleculePanel
        from reign.plots._molecule import draw_molecules
    except ModuleNotFoundError:
        page.text("Molecules are drawn if rdkit is installed: pip install 'reign[chem]'.")
        return
    panels = []
    for g in worst:
        try:
            molecule = Molecule.read(".".join(found.texts[c][g] for c in columns))
        except ValueError:
            continue
        panels.append(MoleculePanel(molecule, f"{found.names[g]}: {truth(g)}, predicted {value(g)}"))
    if panels:
        page.picture(f"{prefix}errors", draw_molecules(panels), "The molecules of the table, with targets and predictions.")
