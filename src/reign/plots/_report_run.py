"""The report of one run: results, the paper's numbers, curves, predictions, settings, time and memory."""

import math
from collections.abc import Sequence
from statistics import mean, stdev

import yaml

from reign.draw import Picture
from reign.plots._curves import Curve, Panel, draw_curves
from reign.plots._page import Page
from reign.plots._paper import PaperCell, paper_cells
from reign.plots._record import Record
from reign.plots._report_predictions import add_predictions
from reign.tables import number
from reign.train.summary import in_words


def add_run(page: Page, run: Record, prefix: str = "") -> None:
    """Add the report of a run to a page. ``prefix`` makes the names of its pictures unique."""
    _results(page, run)
    _table(page, run)
    page.picture(f"{prefix}curves", _curves(run), _about_curves(run))
    if run.predictions is not None and len(run.predictions.names):
        add_predictions(page, run, run.predictions, prefix)
    page.heading("Recipe and environment")
    page.folded("recipe.yaml", yaml.safe_dump(run.recipe.model_dump(mode="json"), sort_keys=False))
    if run.environment:
        command = run.environment.get("command")
        rows = [[key, value] for key, value in run.environment.items() if key != "command"]
        page.table(["environment", ""], [*rows, *([["command", " ".join(map(str, command))]] if isinstance(command, list) else [])])
    _cost(page, run)


def _results(page: Page, run: Record) -> None:
    summary, members = run.summary, run.summary["members"]
    several = len(members) > 1
    header = ["split", summary["metric"], *(["std", "models"] if several else [])]
    rows: list[list[object]] = []
    for split in ("train", "val", "test"):
        found = summary.get(split)
        if isinstance(found, dict):
            rows.append([split, found.get("mean"), *([found.get("std"), len(found.get("values", []))] if several else [])])
    ensemble = summary.get("ensemble")
    if several and isinstance(ensemble, dict):
        rows.append(["test, ensemble", ensemble.get("test"), "", ensemble.get("size", "")])
    page.heading("Results")
    page.table(header, rows, f"{run.recipe.model.name}, {in_words(summary)}, {summary.get('parameters', 0):,} weights")
    if cells := paper_cells(run.recipe):
        _beside_the_paper(page, run, cells)


def _table(page: Page, run: Record) -> None:
    """What was found in the table before training."""
    if not run.table:
        return
    page.heading("Table")
    for line in run.table["lines"]:
        page.text(str(line))
    for line in run.table["warnings"]:
        page.text(f"Warning: {line}")
    left, shared, conflicts = (run.table[part] for part in ("left_out", "in_several_splits", "contradicting_labels"))
    if left:
        page.folded("Rows left out", "\n".join(f"row {row}: {reason}" for row, reason in left.items()))
    if shared:
        page.folded(
            "Molecules in several splits, with their rows", "\n".join(f"{each['smiles']}: {each['rows']}" for each in shared)
        )
    if conflicts:
        page.folded(
            "Molecules with contradicting labels, all of which were kept",
            "\n".join(f"{each['smiles']}: {each['target']} is {each['labels']} in rows {each['rows']}" for each in conflicts),
        )


def _beside_the_paper(page: Page, run: Record, cells: Sequence[PaperCell]) -> None:
    rows = []
    for cell in cells:
        found, theirs = run.summary.get(cell.table.columns[cell.column].value), cell.number
        if not isinstance(found, dict) or theirs is None:
            continue
        ours = found["mean"] * cell.table.factor
        spread = None if found.get("std") is None else found["std"] * cell.table.factor
        gap = f"{(ours - theirs[0]) / theirs[1]:+.1f}" if theirs[1] else ""
        rows.append(
            [
                f"{cell.name}/{cell.row}/{cell.column}",
                cell.table.unit,
                f"{number(ours, spread)} ({len(found['values'])})",
                number(*theirs),
                gap,
            ]
        )
    if rows:
        page.table(["recipe", "unit", "ours (models)", "paper", "difference in std"], rows, "compared with the paper")
    if other := cells[0].other:
        words = "; ".join(f"{key} is {mine!r}, in the paper {theirs!r}" for key, (theirs, mine) in other.items())
        page.text(f"The settings of this run differ from the paper's: {words}.")


def _curves(run: Record) -> Picture:
    metric = f"val_{run.summary['metric']}"
    panels = [Panel("training loss", "epoch", "loss", (band(run.history, "train_loss"),), log=True)]
    if all(metric in history for history in run.history):
        panels.append(Panel("validation", "epoch", run.summary["metric"], (band(run.history, metric),)))
    return draw_curves("curves", panels)


def band(history: Sequence[dict[str, list[float]]], column: str) -> Curve:
    """The mean of a column over models for each epoch, and a band of one standard deviation."""
    columns = [h[column] for h in history if column in h]
    epochs = range(1, max(map(len, columns), default=0) + 1)  # counted from 1, as in the progress of training
    there = [[c[e - 1] for c in columns if e <= len(c) and math.isfinite(c[e - 1])] or [math.nan] for e in epochs]
    middle = [mean(values) for values in there]
    if len(columns) < 2:
        return Curve(column, list(epochs), middle)
    spread = [stdev(values) if len(values) > 1 else 0.0 for values in there]
    low, high = ([m + sign * s for m, s in zip(middle, spread, strict=True)] for sign in (-1, 1))
    return Curve(column, list(epochs), middle, low, high)


def _about_curves(run: Record) -> str:
    models = len(run.history)
    return "One model." if models == 1 else f"The mean over {models} models; the band is one standard deviation."


def _cost(page: Page, run: Record) -> None:
    seconds = [value for h in run.history for value in h.get("seconds", []) if math.isfinite(value)]
    total = run.summary.get("seconds")
    rows = [
        ["training", f"{total:.0f} s" if isinstance(total, int | float) else ""],
        ["an epoch", f"{mean(seconds):.3g} s" if seconds else ""],
    ]
    names = {"host_bytes": "peak memory of the process", "device_bytes": "peak memory on the GPU"}
    rows += [
        [names[key], f"{value / 1e9:.2f} GB"]
        for key, value in run.memory.items()
        if key in names and isinstance(value, int | float)
    ]
    page.heading("Time and memory")
    page.table(["", ""], rows)
