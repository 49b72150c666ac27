"""``reign report``: a page about one run, several runs, or the folder of a table."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import yaml

from reign.draw import Picture
from reign.experiments import find_table, list_tables
from reign.experiments.paper import PaperTable, mean_and_std
from reign.experiments.reproduce import cell_of
from reign.plots import _curves as curves
from reign.plots._generalisation import Point, draw_generalisation, points_of_runs
from reign.plots._page import Page
from reign.plots._record import FinishedRun, PaperCell, paper_cells
from reign.tables import number
from reign.train.runs.results import Predictions
from reign.train.runs.run import Run, RunFiles

# -- the predictions of a run --------------------------------------------------------------------------------------------------

ERRORS = 8  # number of molecules with the largest errors that are shown
TARGETS = 12  # largest number of targets with their own panel


def add_predictions(page: Page, run: FinishedRun, found: Predictions, prefix: str) -> None:
    """Add metrics of every target, pictures of the predictions, and the largest errors."""
    task, targets = run.problem.task, run.problem.targets
    page.heading(f"Predictions ({found.split}, {len(found.names):,} graphs)")
    names, rows = run.metrics_of_targets()
    page.table(
        ["target", "labels", *names],
        [[t, int((~np.isnan(found.y[:, c])).sum()), *rows[c]] for c, t in enumerate(targets)],
    )
    shown = targets[:TARGETS]
    if task == "regression":
        page.picture(
            f"{prefix}parity",
            curves.draw_parity("parity", shown, found.y, found.values, found.unsure),
            "Predictions against targets.",
        )
    elif task == "classification":
        page.picture(f"{prefix}roc", curves.draw_classification("roc", shown, found.y, found.values), "ROC curves and calibration.")
    else:
        known = ~np.isnan(found.y[:, 0])
        truth, best = found.y[known, 0].astype(np.int64), found.values[known].argmax(1).astype(np.int64)
        if len(truth):
            page.picture(
                f"{prefix}classes",
                curves.draw_confusion("classes", run.problem.classes, truth, best),
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
                curves.draw_uncertainty("uncertainty", error[known], found.unsure[known, 0]),
                "Mean error by the spread over models. It rises if the spread is a good measure of uncertainty.",
            )
    _largest(page, run, found, error, prefix)


def errors_of(found: Predictions, task: str) -> curves.Floats:
    """The error of each graph: the error of its first target, or one minus the probability of its class."""
    if task == "multiclass":
        y = np.nan_to_num(found.y[:, 0]).astype(int).clip(0, found.values.shape[1] - 1)
        return np.where(np.isnan(found.y[:, 0]), np.nan, 1 - found.values[np.arange(len(y)), y])
    error: curves.Floats = np.abs(found.values[:, 0] - found.y[:, 0])
    return error


def _largest(page: Page, run: FinishedRun, found: Predictions, error: curves.Floats, prefix: str) -> None:
    """Add the graphs with the largest errors as a table, and as pictures if they are molecules."""
    known = np.flatnonzero(~np.isnan(error))
    worst: list[int] = known[np.argsort(-error[known])][:ERRORS].tolist()
    page.heading("Largest errors")
    columns = [column for column in run.recipe.data.smiles_columns if column in found.texts] if run.recipe.data.reads_smiles else []
    first = run.problem.labels if run.problem.classes else run.problem.labels[:1]

    def value(g: int) -> str:
        return number(found.values[g, 0]) if not run.problem.classes else first[int(found.values[g].argmax())]

    def truth(g: int) -> str:
        return number(found.y[g, 0]) if not run.problem.classes else first[int(found.y[g, 0])]

    rows = [[found.names[g], *(found.texts[c][g] for c in columns), truth(g), value(g), float(error[g])] for g in worst]
    page.table(["graph", *columns, run.problem.targets[0], "prediction", "error"], rows)
    if not columns:
        return
    try:
        from reign.data.molecules import Molecule
        from reign.plots.molecules import Panel as MoleculePanel
        from reign.plots.molecules import draw_molecules
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


# -- a run ---------------------------------------------------------------------------------------------------------------------


def add_run(page: Page, run: FinishedRun, prefix: str = "") -> None:
    """Add the report of a run to a page. ``prefix`` makes the names of its pictures unique."""
    _results(page, run)
    _table(page, run)
    models = len(run.history)
    about = "One model." if models == 1 else f"The mean over {models} models; the band is one standard deviation."
    page.picture(f"{prefix}curves", _curves(run), about)
    if run.predictions is not None and len(run.predictions.names):
        add_predictions(page, run, run.predictions, prefix)
    page.heading("Recipe and environment")
    page.folded(run.files.recipe.name, yaml.safe_dump(run.recipe.model_dump(mode="json"), sort_keys=False))
    if environment := run.environment.to_dict():
        command = environment.pop("command", [])
        rows = [[key, value] for key, value in environment.items()]
        page.table(["environment", ""], [*rows, *([["command", " ".join(command)]] if command else [])])
    _cost(page, run)


def _results(page: Page, run: FinishedRun) -> None:
    summary = run.summary
    header, rows = summary.table()
    sizes = {split: len(graphs) for split, graphs in run.members[0].splits.items()}
    header.insert(1, "graphs")
    for row in rows:
        row.insert(1, sizes.get(str(row[0]).split(",")[0]))
    if sizes and "train" not in summary.splits:
        rows.insert(0, ["train", sizes["train"], *[""] * (len(header) - 2)])
    page.heading("Results")
    page.table(header, rows, f"{run.recipe.model.name}, {summary.describe_weights()}, {summary.parameters:,} weights")
    if (text := summary.compare()) is not None:
        page.text(text)
    if cells := paper_cells(run.recipe):
        _next_to_the_paper(page, run, cells)


def _table(page: Page, run: FinishedRun) -> None:
    """What was found in the table before training."""
    if run.table is None:
        return
    page.heading("Table")
    for line in run.table.lines:
        page.text(line)
    for line in run.table.warnings:
        page.text(f"Warning: {line}")
    left, shared, conflicts = run.table.left_out, run.table.in_several_splits, run.table.contradicting_labels
    if left:
        page.folded("Rows left out", "\n".join(f"row {row}: {reason}" for row, reason in left.items()))
    if shared:
        page.folded("Molecules in several splits, with their rows", "\n".join(f"{each.smiles}: {each.rows}" for each in shared))
    if conflicts:
        page.folded(
            "Molecules with contradicting labels, all of which were kept",
            "\n".join(f"{each.smiles}: {each.target} is {each.labels} in rows {each.rows}" for each in conflicts),
        )


def _next_to_the_paper(page: Page, run: FinishedRun, cells: Sequence[PaperCell]) -> None:
    rows = []
    for cell in cells:
        if cell.number is None or run.summary.spread_of(cell.table.columns[cell.column].value) is None:
            continue
        compared = cell_of(cell.table, cell.row, cell.column, run.summary)
        rows.append([f"{cell.name}/{cell.row}/{cell.column}", cell.table.unit, *compared.texts()])
    if rows:
        page.table(["recipe", "unit", "ours (models)", "paper", "difference in std"], rows, "compared with the paper")
    if other := cells[0].other:
        words = "; ".join(f"{key} is {mine!r}, in the paper {theirs!r}" for key, (theirs, mine) in other.items())
        page.text(f"The settings of this run differ from the paper's: {words}.")


def _curves(run: FinishedRun) -> Picture:
    metric = f"val_{run.summary.metric}"
    panels = [curves.Panel("training loss", "epoch", "loss", (band(run.history, "train_loss"),), log=True)]
    if all(metric in history for history in run.history):
        panels.append(curves.Panel("validation", "epoch", run.summary.metric, (band(run.history, metric),)))
    return curves.draw_curves("curves", panels)


def band(history: Sequence[dict[str, list[float]]], column: str) -> curves.Curve:
    """The mean of a column over models for each epoch, and a band of one standard deviation."""
    columns = [h[column] for h in history if column in h]
    epochs = range(1, max(map(len, columns), default=0) + 1)  # counted from 1, as in the progress of training
    there = [[c[e - 1] for c in columns if e <= len(c) and math.isfinite(c[e - 1])] or [math.nan] for e in epochs]
    middle = [mean(values) for values in there]
    if len(columns) < 2:
        return curves.Curve(column, list(epochs), middle)
    spread = [stdev(values) if len(values) > 1 else 0.0 for values in there]
    low, high = ([m + sign * s for m, s in zip(middle, spread, strict=True)] for sign in (-1, 1))
    return curves.Curve(column, list(epochs), middle, low, high)


def _cost(page: Page, run: FinishedRun) -> None:
    seconds = [value for h in run.history for value in h.get("seconds", []) if math.isfinite(value)]
    rows = [
        ["training", f"{run.summary.seconds:.0f} s"],
        ["an epoch", f"{mean(seconds):.3g} s" if seconds else ""],
    ]
    names = {"host_bytes": "peak memory of the process", "device_bytes": "peak memory on the GPU"}
    rows += [[names[key], f"{value / 1e9:.2f} GB"] for key, value in run.memory.to_dict().items() if key in names]
    page.heading("Time and memory")
    page.table(["", ""], rows)


# -- several runs, or the folder of a table ------------------------------------------------------------------------------------

NAME = RunFiles(Path()).report.name


def write_report(folders: Sequence[str | Path], output: str | Path | None = None) -> Path:
    """Write a page about some runs, and return its path.

    Args:
        folders: folders of runs, or the folder of a table, which holds the runs of its cells.
        output: the page; if not given, ``report.html`` in the folder, or in the current folder if several folders are given.
    """
    places = [Path(folder) for folder in folders]
    if not places:
        raise ValueError("no run was given, expected the folder of a run or of a table.")
    file = Path(output) if output is not None else (places[0] if len(places) == 1 else Path()) / NAME
    figures = file.parent / ("figures" if file.name == NAME else f"{file.stem}_figures")
    if len(places) == 1 and Run(places[0]).started:
        run = FinishedRun.read(places[0])
        page = Page(f"{run.recipe.model.name} on {run.problem.name or run.recipe.data.name}", figures)
        add_run(page, run)
    else:
        page = _of_several(places, file, figures)
    page.save(file)
    return file


def _of_several(places: Sequence[Path], file: Path, figures: Path) -> Page:
    named = {_name(run.folder, place, len(places)): run.folder for place in places for run in Run.inside(place)}
    if not named:
        raise ValueError(
            f"{', '.join(map(str, places))} holds no finished run, expected a folder written by reign train or reign reproduce."
        )
    runs = {name: FinishedRun.read(folder) for name, folder in named.items()}
    points = points_of_runs(runs.values())
    table = _table_of(places[0], runs, points) if len(places) == 1 else None
    page = Page(table.title if table is not None else ", ".join(place.name or str(place) for place in places), figures)
    _comparison(page, runs)
    if table is not None:
        _whole_table(page, places[0] / "table.csv", table)
    for n, (name, own) in enumerate(points.items()):
        picture, _ = draw_generalisation(find_table(name), own, every=False)
        if picture is not None:
            page.picture("generalisation" + (f"-{n}" if n else ""), picture, _about_generalisation(own))
    if len(places) > 1:
        for name, run in runs.items():
            page.heading(name)
            add_run(page, run, f"{_safe(name)}-")
        return page
    inside = [(name, run.folder) for name, run in runs.items() if (run.folder / NAME).is_file()]
    if inside and all(folder.resolve().is_relative_to(file.parent.resolve()) for _, folder in inside):
        page.heading("Reports of single runs")
        for name, folder in inside:
            page.link(name, f"{folder.resolve().relative_to(file.parent.resolve()).as_posix()}/{NAME}")
    return page


def _name(run: Path, place: Path, places: int) -> str:
    inside = run.relative_to(place).as_posix()
    return inside if places == 1 and inside != "." else str(place if inside == "." else run)


def _safe(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_+" else "-" for sign in name)


def _comparison(page: Page, runs: dict[str, FinishedRun]) -> None:
    """Add a table with a row for each run: its metric on each split, and the paper's number if there is one."""
    page.heading("All runs")
    rows = []
    for name, run in runs.items():
        cells = paper_cells(run.recipe)
        paper = "" if not cells or cells[0].number is None else number(cells[0].number[0]) + ("" if not cells[0].other else " *")
        row: list[object] = [name, run.recipe.model.name, run.summary.metric]
        for split in ("train", "val", "test"):
            found = run.summary.splits.get(split)
            row.append("" if found is None else number(found.mean, found.std))
        rows.append([*row, len(run.history), paper, f"{run.summary.seconds:.0f} s"])
    header = ["run", "model", "metric", "train", "val", "test", "models", "paper", "time"]
    page.table(header, rows, "mean ± standard deviation over models; * the paper used other training settings")


def _about_generalisation(points: Sequence[Point]) -> str:
    text = "Results by the number of training graphs: ours (solid) and the paper's (dashed). Bands are one standard deviation over seeds."
    other = {f"{key} of {point.row}" for point in points for key in point.other}
    return text + (f" These settings differ from the table's: {', '.join(sorted(other))}." if other else "")


def _table_of(folder: Path, runs: dict[str, FinishedRun], points: dict[str, list[Point]]) -> PaperTable | None:
    """The table that a folder belongs to: the one that the recipes of all its runs belong to, or, if settings were changed, the table of the
    same name, if the folders in it are named after its rows."""
    for name, own in points.items():
        if len(own) == len(runs):
            return find_table(name)
    name = folder.resolve().name.removesuffix("-quick")
    if name in list_tables() and any((folder / row).is_dir() for row in find_table(name).rows):
        return find_table(name)
    common = set.intersection(*({cell.name for cell in paper_cells(run.recipe)} for run in runs.values()))
    return find_table(common.pop()) if len(common) == 1 and (folder / "table.csv").is_file() else None


def _whole_table(page: Page, file: Path, table: PaperTable) -> None:
    """Add the comparison of our numbers with the paper's that reign reproduce wrote."""
    if not file.is_file():
        return
    with file.open(newline="", encoding="utf-8") as lines:
        found = list(csv.DictReader(lines))
    rows: list[list[object]] = []
    for cell in found:
        ours = number(_value(cell, "ours"), _value(cell, "ours_std"))
        paper = number(_value(cell, "paper"), _value(cell, "paper_std"))
        ours = f"{ours} ({cell.get('runs', '')})"
        rows.append([cell.get("model"), cell.get("column"), ours, paper, _value(cell, "difference_in_std")])
    for title, numbers in table.quoted.items():
        rows += [
            [f"{title} (quoted)", column, "", mean_and_std(value)[0], None]
            for column, value in numbers.items()
            if value is not None
        ]
    columns = ["model", "column", "ours (models)", "paper", "difference in std"]
    page.table(columns, rows, " ".join(table.notes), f"{table.title}: {table.unit}")


def _value(cell: dict[str, str], key: str) -> float | None:
    try:
        return float(cell.get(key) or "")
    except ValueError:
        return None
