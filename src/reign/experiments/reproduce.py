"""Run a table of the paper, and compare our numbers with the paper's."""

from dataclasses import dataclass
from pathlib import Path

from reign.disk import write_csv
from reign.experiments.paper import PaperTable, cells, in_print, mean_and_std
from reign.tables import Table, number
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import Fabric
from reign.train.runs.results import Summary
from reign.train.runs.train import train_all
from reign.train.settings.yaml import RawSettings


@dataclass(frozen=True)
class Cell:
    """One number of a table, ours and the paper's."""

    row: str
    column: str
    ours: float
    deviation: float | None
    runs: int
    paper: float | None
    paper_deviation: float | None

    @property
    def difference(self) -> float | None:
        """The difference between our number and the paper's, in standard deviations of the paper, or ours if the paper gives none."""
        unit = self.paper_deviation or self.deviation
        return None if self.paper is None or not unit else (self.ours - self.paper) / unit

    def texts(self) -> list[str]:
        """Our number with the number of models, the paper's, and the difference."""
        difference = "" if self.difference is None else f"{self.difference:+.1f}"
        return [f"{number(self.ours, self.deviation)} ({self.runs})", number(self.paper, self.paper_deviation), difference]


def reproduce(
    table: PaperTable,
    folder: Path,
    *changes: RawSettings,
    rows: list[str] | None = None,
    columns: list[str] | None = None,
    quick: bool = False,
    fabric: Fabric | None = None,
    callback: Callback | None = None,
    jobs: int | None = None,
) -> list[Cell]:
    """Run all cells of a table. Finished models are not trained again.

    Args:
        table: the table to run.
        folder: the folder of all its runs, as ``folder/row/column``.
        changes: settings that override those of the table.
        rows, columns: the rows and columns to run; all if not given (with ``quick``, those of the quick test).
        quick: whether to run a quick test on a small share of data and epochs.
        fabric: devices and processes.
        callback: receives all events.
        jobs: number of models to train at once; see ``reign.train.train``.
    """
    if quick:
        rows, columns = rows or table.quick.rows, columns or table.quick.columns
    chosen = list(cells(table, rows, columns))
    plans = {folder / row / table.own_run(column): table.recipe(row, column, *changes, quick=quick) for row, column in chosen}
    found = train_all([(plan, run) for run, plan in plans.items()], resume=True, fabric=fabric, callback=callback, jobs=jobs)
    summaries = dict(zip(plans, found, strict=True))
    return [cell_of(table, row, column, summaries[folder / row / table.own_run(column)]) for row, column in chosen]


def cell_of(table: PaperTable, row: str, column: str, summary: Summary) -> Cell:
    """The number of a cell in the summary of its run, and the paper's."""
    found = summary.spread_of(table.columns[column].value)
    assert found is not None
    theirs = table.rows[row].paper.get(column)
    mean, deviation = (None, None) if theirs is None else mean_and_std(theirs)
    spread = None if found.std is None else found.std * table.factor
    return Cell(row, column, found.mean * table.factor, spread, len(found.values), mean, deviation)


def write_comparison(file: Path, table: PaperTable, found: list[Cell]) -> None:
    """Write our numbers and the paper's as a CSV."""
    header = ["row", "model", "column", "ours", "ours_std", "runs", "paper", "paper_std", "difference_in_std"]
    rows = [
        [c.row, table.rows[c.row].title, c.column, c.ours, c.deviation, c.runs, c.paper, c.paper_deviation, c.difference]
        for c in found
    ]
    write_csv(file, header, [["" if value is None else value for value in row] for row in rows])


def comparison_table(paper: PaperTable, found: list[Cell], quick: bool) -> Table:
    """Our results next to the paper's."""
    caption = "Differences are in standard deviations of the paper, or ours if the paper gives none. " + " ".join(paper.notes)
    if quick:
        caption = "A quick test on a small share of the data; these numbers cannot be compared with the paper's. " + caption
    rows: list[list[str]] = []
    last = ""
    for c in found:
        title = paper.rows[c.row].title
        rows.append(["" if title == last else title, c.column, *c.texts()])
        last = title
    wanted = dict.fromkeys(c.column for c in found)
    for title, numbers in paper.quoted.items():
        for i, column in enumerate(name for name in wanted if numbers.get(name) is not None):
            rows.append([f"{title} (quoted)" if i == 0 else "", column, "", in_print(numbers[column]), ""])
    return Table(f"{paper.title}: {paper.unit}", ["model", "column", "ours", "paper", "difference"], rows, caption, "llr")
