"""``reign report``: a page about one run, several runs, or the folder of a table."""

import csv
from collections.abc import Sequence
from pathlib import Path

from reign.experiments import find_table, list_tables
from reign.experiments.tables import PaperTable, mean_and_std
from reign.plots._curves import Curve, Panel, draw_curves
from reign.plots._page import Page
from reign.plots._paper import paper_cells
from reign.plots._record import Record
from reign.plots._report_run import add_run
from reign.tables import number
from reign.train.run_folder import has_run

NAME = "report.html"


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
    if len(places) == 1 and has_run(places[0]):
        run = Record.read(places[0])
        page = Page(f"{run.recipe.model.name} on {run.about.get('name', run.recipe.data.name)}", figures)
        add_run(page, run)
    else:
        page = _of_several(places, file, figures)
    page.save(file)
    return file


def runs_of(folder: Path) -> list[Path]:
    """The finished runs in a folder, or the folder itself if it is a run."""
    if has_run(folder):
        return [folder]
    found = sorted(file.parent for file in folder.glob("*/recipe.yaml")) + sorted(
        file.parent for file in folder.glob("*/*/recipe.yaml")
    )
    return [run for run in found if (run / "summary.json").is_file()]


def _of_several(places: Sequence[Path], file: Path, figures: Path) -> Page:
    named = {_name(run, place, len(places)): run for place in places for run in runs_of(place)}
    if not named:
        raise ValueError(
            f"{', '.join(map(str, places))} holds no finished run, expected a folder written by reign train or reign reproduce."
        )
    runs = {name: Record.read(folder) for name, folder in named.items()}
    table = _table_of(places[0]) if len(places) == 1 else None
    page = Page(table.title if table is not None else ", ".join(place.name or str(place) for place in places), figures)
    _comparison(page, runs)
    if table is not None:
        _whole_table(page, places[0] / "table.csv", table)
        if (panel := _generalisation(table, runs)) is not None:
            page.picture(
                "generalisation",
                draw_curves("generalisation", [panel]),
                "Results by the number of training graphs: ours (solid) and the paper's (dashed). Bands are one standard deviation over seeds.",
            )
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


def _comparison(page: Page, runs: dict[str, Record]) -> None:
    """Add a table with a row for each run: its metric on each split, and the paper's number if there is one."""
    page.heading("All runs")
    rows = []
    for name, run in runs.items():
        cells = paper_cells(run.recipe)
        paper = "" if not cells or cells[0].number is None else number(cells[0].number[0]) + ("" if not cells[0].other else " *")
        row: list[object] = [name, run.recipe.model.name, run.summary["metric"]]
        for split in ("train", "val", "test"):
            found = run.summary.get(split)
            row.append(number(found.get("mean"), found.get("std")) if isinstance(found, dict) else "")
        seconds = run.summary.get("seconds")
        rows.append([*row, len(run.history), paper, f"{seconds:.0f} s" if isinstance(seconds, int | float) else ""])
    header = ["run", "model", "metric", "train", "val", "test", "models", "paper", "time"]
    page.table(header, rows, "mean ± standard deviation over models; * the paper used other training settings")


def _table_of(folder: Path) -> PaperTable | None:
    """The table that a folder belongs to: the table of the same name, if the folders in it are named after its rows."""
    name = folder.resolve().name.removesuffix("-quick")
    if name not in list_tables():
        return None
    table = find_table(name)
    return table if any((folder / row).is_dir() for row in table.rows) else None


def _whole_table(page: Page, file: Path, table: PaperTable) -> None:
    """Add the comparison of our numbers with the paper's that reign reproduce wrote."""
    if not file.is_file():
        return
    with file.open(newline="") as lines:
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


def _generalisation(table: PaperTable, runs: dict[str, Record]) -> Panel | None:
    """Curves by the number of training graphs, if the columns of a table differ in it."""
    sizes = {c: column.settings.get("data", {}).get("num_train") for c, column in table.columns.items()}
    if len({size for size in sizes.values() if size is not None}) < 2:
        return None
    curves: list[Curve] = []
    for row, about in table.rows.items():
        found = {c: runs[f"{row}/{c}"].summary.get(column.value) for c, column in table.columns.items() if f"{row}/{c}" in runs}
        ours = [
            (sizes[c], f["mean"] * table.factor, (f["std"] or 0.0) * table.factor) for c, f in found.items() if isinstance(f, dict)
        ]
        paper = [(sizes[c], *mean_and_std(value)) for c, value in about.paper.items() if sizes.get(c) is not None]
        if ours:
            like = sum(not curve.paper for curve in curves)
            curves.append(_with_band(f"{about.title}, ours", ours, False, like))
            if paper:
                curves.append(_with_band(f"{about.title}, paper", [(s, m, d or 0.0) for s, m, d in paper], True, like))
    if not curves:
        return None
    return Panel(table.title, "training graphs", table.unit, tuple(curves), log=True)


def _with_band(label: str, points: Sequence[tuple[float | int, float, float]], paper: bool, like: int) -> Curve:
    x, y, spread = zip(*points, strict=True)
    low, high = ([m + sign * s for m, s in zip(y, spread, strict=True)] for sign in (-1, 1))
    return Curve(label, x, y, low, high, paper, like)
