"""The report of one run: results, curves, predictions, the paper's numbers, settings, time and memory, the largest errors."""

import math
from collections.abc import Sequence
from statistics import mean, stdev

import numpy as np
import yaml

from reign.draw import Picture
from reign.plots._curves import Curve, Panel, draw_classification, draw_confusion, draw_curves, draw_parity, draw_uncertainty
from reign.plots._page import Page
from reign.plots._paper import PaperCell, paper_cells
from reign.plots._record import Predictions, Record

ERRORS = 8  # molecules with the largest errors
TARGETS = 12  # targets with a panel of their own


def add_run(page: Page, run: Record, prefix: str = "") -> None:
    """Add the report of a run to a page; ``prefix`` keeps the names of its pictures apart from those of other runs."""
    _results(page, run)
    page.picture(f"{prefix}curves", _curves(run), _about_curves(run))
    if run.predictions is not None and len(run.predictions.names):
        _predictions(page, run, run.predictions, prefix)
    page.heading("Recipe and environment")
    page.folded("recipe.yaml", yaml.safe_dump(run.recipe.model_dump(mode="json"), sort_keys=False))
    if run.environment:
        command = run.environment.get("command")
        rows = [[key, value] for key, value in run.environment.items() if key != "command"]
        page.table(["environment", ""], [*rows, *([["command", " ".join(map(str, command))]] if isinstance(command, list) else [])])
    _cost(page, run)


def number(value: float | None) -> str:
    """A number with four digits; nothing for None or NaN."""
    return "" if value is None or math.isnan(value) else f"{value:.4g}"


def _results(page: Page, run: Record) -> None:
    summary, members = run.summary, run.summary["members"]
    several = len(members) > 1
    header = ["split", summary["metric"], *(["std", "models"] if several else [])]
    rows: list[list[object]] = []
    for split in ("train", "val", "test"):
        found = summary.get(split)
        if isinstance(found, dict):
            rows.append(
                [split, number(found.get("mean")), *([number(found.get("std")), len(found.get("values", []))] if several else [])]
            )
    ensemble = summary.get("ensemble")
    if several and isinstance(ensemble, dict):
        rows.append(["test, ensemble", number(ensemble.get("test")), "", ensemble.get("size", "")])
    how = (
        f"{summary['folds']} folds, the epoch with the best mean"
        if "folds" in summary
        else f"weights of the {summary['report']} epoch"
    )
    page.heading("Results")
    page.table(header, rows, f"{run.recipe.model.name}, {how}, {summary.get('parameters', 0):,} weights")
    if cells := paper_cells(run.recipe):
        _beside_the_paper(page, run, cells)


def _beside_the_paper(page: Page, run: Record, cells: Sequence[PaperCell]) -> None:
    rows = []
    for cell in cells:
        found, theirs = run.summary.get(cell.table.columns[cell.column].value), cell.number
        if not isinstance(found, dict) or theirs is None:
            continue
        ours = found["mean"] * cell.table.factor
        spread = "" if found.get("std") is None else f" ± {number(found['std'] * cell.table.factor)}"
        paper = number(theirs[0]) + ("" if theirs[1] is None else f" ± {number(theirs[1])}")
        gap = f"{(ours - theirs[0]) / theirs[1]:+.1f}" if theirs[1] else ""
        rows.append(
            [
                f"{cell.name}/{cell.row}/{cell.column}",
                cell.table.unit,
                f"{number(ours)}{spread} ({len(found['values'])})",
                paper,
                gap,
            ]
        )
    if rows:
        page.table(["recipe", "unit", "ours (models)", "paper", "difference in std"], rows, "beside the paper")
    if other := cells[0].other:
        words = "; ".join(f"{key} is {mine!r}, the paper's {theirs!r}" for key, (theirs, mine) in other.items())
        page.text(f"This run has other settings than the paper's: {words}.")


def _curves(run: Record) -> Picture:
    metric = f"val_{run.summary['metric']}"
    panels = [Panel("training loss", "epoch", "loss", (band(run.history, "train_loss"),), log=True)]
    if all(metric in history for history in run.history):
        panels.append(Panel("validation", "epoch", run.summary["metric"], (band(run.history, metric),)))
    return draw_curves("curves", panels)


def band(history: Sequence[dict[str, list[float]]], column: str) -> Curve:
    """The mean of a column over models, epoch by epoch, and a band of one standard deviation."""
    columns = [h[column] for h in history if column in h]
    epochs = range(max(map(len, columns), default=0))
    there = [[c[e] for c in columns if e < len(c) and math.isfinite(c[e])] or [math.nan] for e in epochs]
    middle = [mean(values) for values in there]
    if len(columns) < 2:
        return Curve(column, list(epochs), middle)
    spread = [stdev(values) if len(values) > 1 else 0.0 for values in there]
    low, high = ([m + sign * s for m, s in zip(middle, spread, strict=True)] for sign in (-1, 1))
    return Curve(column, list(epochs), middle, low, high)


def _about_curves(run: Record) -> str:
    models = len(run.history)
    return "One model." if models == 1 else f"The mean over {models} models; the band is one standard deviation."


def _predictions(page: Page, run: Record, found: Predictions, prefix: str) -> None:
    task, targets = run.about["task"], run.about["targets"]
    page.heading(f"Predictions ({found.split}, {len(found.names):,} graphs)")
    names, rows = run.metrics_of_targets()
    page.table(
        ["target", "labels", *names],
        [[t, int((~np.isnan(found.y[:, c])).sum()), *map(number, rows[c])] for c, t in enumerate(targets)],
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
                "Colours: the share of each true class.",
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
                "Does the spread over models tell where they err?",
            )
    _largest(page, run, found, error, prefix)


def errors_of(found: Predictions, task: str) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """The error of each graph: of its first target, or one minus the probability of its class."""
    if task == "multiclass":
        y = np.nan_to_num(found.y[:, 0]).astype(int).clip(0, found.values.shape[1] - 1)
        return np.where(np.isnan(found.y[:, 0]), np.nan, 1 - found.values[np.arange(len(y)), y])
    error: np.ndarray[tuple[int], np.dtype[np.float64]] = np.abs(found.values[:, 0] - found.y[:, 0])
    return error


def _largest(
    page: Page, run: Record, found: Predictions, error: "np.ndarray[tuple[int], np.dtype[np.float64]]", prefix: str
) -> None:
    """The molecules with the largest errors, drawn; a table of the graphs where there are no molecules."""
    known = np.flatnonzero(~np.isnan(error))
    worst: list[int] = known[np.argsort(-error[known])][:ERRORS].tolist()
    page.heading("Largest errors")
    columns = [column for column in run.recipe.data.smiles_columns if column in found.texts] if run.recipe.data.reads_smiles else []
    first = run.labels if run.about["classes"] else run.labels[:1]

    def value(g: int) -> str:
        return number(found.values[g, 0]) if not run.about["classes"] else first[int(found.values[g].argmax())]

    def truth(g: int) -> str:
        return number(found.y[g, 0]) if not run.about["classes"] else first[int(found.y[g, 0])]

    rows = [[found.names[g], *(found.texts[c][g] for c in columns), truth(g), value(g), number(float(error[g]))] for g in worst]
    page.table(["graph", *columns, run.about["targets"][0], "prediction", "error"], rows)
    if not columns:
        return
    try:
        from reign.data.molecules import Molecule
        from reign.plots._molecule import Panel as MoleculePanel
        from reign.plots._molecule import draw_molecules
    except ModuleNotFoundError:
        page.text("Molecules are drawn where rdkit is installed: pip install 'reign[chem]'.")
        return
    panels = []
    for g in worst:
        try:
            molecule = Molecule.read(".".join(found.texts[c][g] for c in columns))
        except ValueError:
            continue
        panels.append(MoleculePanel(molecule, f"{found.names[g]}: {truth(g)}, predicted {value(g)}"))
    if panels:
        page.picture(f"{prefix}errors", draw_molecules(panels), "The molecules of the table: target, and prediction.")


def _cost(page: Page, run: Record) -> None:
    seconds = [value for h in run.history for value in h.get("seconds", []) if math.isfinite(value)]
    total = run.summary.get("seconds")
    rows = [
        ["training", f"{total:.0f} s" if isinstance(total, int | float) else ""],
        ["an epoch", f"{mean(seconds):.3g} s" if seconds else ""],
    ]
    names = {"host_bytes": "largest memory of the process", "device_bytes": "largest memory on the GPU"}
    rows += [
        [names[key], f"{value / 1e9:.2f} GB"]
        for key, value in run.memory.items()
        if key in names and isinstance(value, int | float)
    ]
    page.heading("Time and memory")
    page.table(["", ""], rows)
