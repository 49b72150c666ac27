"""Run a table of the paper, and compare our numbers with the paper's."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from reign.disk import write_csv
from reign.experiments.choose import choose, chosen, grid_of
from reign.experiments.paper import PaperTable, cells, in_print, mean_and_std
from reign.tables import Table, number
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import Fabric
from reign.train.runs.build import make_problem
from reign.train.runs.results import MemberResult, Spread, Summary
from reign.train.runs.run import Run
from reign.train.runs.train import train_all
from reign.train.settings.config import Recipe
from reign.train.settings.losses import choose as choose_metric
from reign.train.settings.metrics import METRICS


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
    *changes: Mapping[str, Any],
    rows: list[str] | None = None,
    columns: list[str] | None = None,
    quick: bool = False,
    fabric: Fabric | None = None,
    callback: Callback | None = None,
    jobs: int | None = None,
    search_seeds: int | None = None,
) -> list[Cell]:
    """Run all cells of a table. Finished models are not trained again.

    A row that uses the runs of another table takes those next to ``folder``, such as ``runs/counting`` next to ``runs/four-cycle``, if they are
    finished and have the same settings.

    Args:
        table: the table to run.
        folder: the folder of all its runs, as ``folder/row/column``.
        changes: settings that override those of the table.
        rows, columns: the rows and columns to run; all if not given (with ``quick``, those of the quick test).
        quick: whether to run a quick test on a small share of data and epochs.
        fabric: devices and processes.
        callback: receives all events.
        jobs: number of models to train at once; see ``reign.train.train``.
        search_seeds: first choose the settings of every row with a grid by validation, with so many seeds for each point. A choice that
            was made before counts always.
    """
    if quick:
        rows, columns = rows or table.quick.rows, columns or table.quick.columns
    wanted = list(cells(table, rows, columns))
    trained = list(dict.fromkeys((row, table.own_run(column)) for row, column in wanted if not table.rows[row].trivial))
    if search_seeds is not None:
        seeds = {"seeds": list(range(search_seeds))}
        grids = {grid.folder: grid for cell in trained if (grid := grid_of(table, folder, *cell, *changes, seeds, quick=quick))}
        choose(list(grids.values()), fabric, callback, jobs)

    def recipe_of(row: str, column: str) -> Recipe:
        choice = None if quick and table.rows[row].runs else chosen(table, folder, row, column)
        return table.recipe(row, column, *changes, {} if choice is None else choice.settings, quick=quick)

    plans = {cell: (recipe_of(*cell), folder / "/".join(cell)) for cell in trained}
    for (row, column), (recipe, _) in plans.items():
        if (other := table.rows[row].runs) is not None and not quick and _has(folder.parent / other, recipe):
            plans[row, column] = recipe, folder.parent / other
    found = train_all(list(plans.values()), resume=True, fabric=fabric, callback=callback, jobs=jobs) if plans else []
    summaries = dict(zip(plans, found, strict=True))
    for row, column in dict.fromkeys((row, table.own_run(column)) for row, column in wanted if table.rows[row].trivial):
        summaries[row, column] = predict_mean(table.recipe(row, column, *changes, quick=quick))
    return [cell_of(table, row, column, summaries[row, table.own_run(column)]) for row, column in wanted]


def _has(folder: Path, recipe: Recipe) -> bool:
    """Whether a folder has a finished run of a recipe."""
    run = Run(folder)
    return run.finished and set(recipe.seeds) <= set(run.recipe.seeds) and run.continued({"seeds": recipe.seeds}) == recipe


def predict_mean(recipe: Recipe) -> Summary:
    """The metric of the trivial predictor on each split: the mean of the training targets for every graph, without a model. It has the form of the results of one model.

    Its lowest training loss is the metric on the training graphs.
    """
    problem, _ = make_problem(recipe.data)
    if problem.task != "regression":
        raise ValueError(f"{problem.name} is a task of {problem.task}, but a mean of targets is for regression.")
    metric = choose_metric(METRICS, recipe.train.metric, problem.task)
    constant = problem.y[problem.splits["train"]].nanmean(0)
    scores = {
        split: METRICS[metric](constant.expand(len(ids), -1), problem.y[ids]) for split, ids in problem.splits.items() if len(ids)
    }
    member = MemberResult(
        folder="-", seed=0, epochs=0, best_epoch=0, parameters=constant.numel(), seconds=0.0, best=scores, last=scores,
        best_train_loss=scores["train"],
    )  # fmt: skip
    spread = {split: Spread.over([value]) for split, value in {**scores, "best_train": scores["train"]}.items()}
    about = {"metric": metric, "report": recipe.train.report, "parameters": constant.numel(), "seconds": 0.0}
    parts = {split: spread.pop(split) for split in scores if split not in ("train", "val", "test")}
    return Summary.model_validate({**about, **spread, "parts": parts, "members": [member]})


def cell_of(table: PaperTable, row: str, column: str, summary: Summary) -> Cell:
    """The number of a cell in the summary of its run, of models and what predicts with them together if there is something, and the paper's."""
    value = table.columns[column].value
    found = summary.together.get(value) or summary.spread_of(value)
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
    caption = " ".join(paper.notes)
    if quick:
        caption = "A quick test on a small share of the data; these numbers cannot be compared with the paper's. " + caption
    elif not paper.also:
        caption = "Differences are in standard deviations of the paper, or ours if the paper gives none. " + caption
    if paper.also:
        return means_table(paper, found, caption)
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
    shown = slice(-1 if quick else None)  # without differences
    header = ["model", "column", "ours", "paper", "difference"]
    return Table(f"{paper.title}: {paper.unit}", header[shown], [row[shown] for row in rows], caption, "llr")


def means_table(paper: PaperTable, found: list[Cell], caption: str) -> Table:
    """The means of each kind of number over all columns that were run, whose number is in parentheses, for our rows and quoted ones that have all of
    them; and the means of their ranks, from 1 for the least number, if there are several such rows."""
    numbers: dict[tuple[str, bool], dict[str, float]] = {}  # by the name of a row, and whether it is quoted
    for cell in found:
        numbers.setdefault((cell.row, False), {})[cell.column] = cell.ours
    for title, quoted in paper.quoted.items():
        numbers[title, True] = {name: mean_and_std(value)[0] for name, value in quoted.items() if value is not None}
    rows: dict[tuple[str, bool], list[object]] = {
        (name, quoted): [f"{name} (quoted)" if quoted else paper.rows[name].title] for name, quoted in numbers
    }
    heads = ["model"]
    for value in dict.fromkeys(paper.columns[cell.column].value for cell in found):
        wanted = list(dict.fromkeys(cell.column for cell in found if paper.columns[cell.column].value == value))
        full = {row: [own[c] for c in wanted] for row, own in numbers.items() if own.keys() >= set(wanted)}
        heads += [f"{value} ({len(wanted)})", "rank"]
        for row, shown in rows.items():
            own = full.get(row, [])
            ranks = [1 + sum(other[i] < mine for other in full.values()) for i, mine in enumerate(own)]
            shown += [number(mean(own)) if own else "", f"{mean(ranks):.1f} of {len(full)}" if own and len(full) > 1 else ""]
    return Table(f"{paper.title}: {paper.unit}", heads, list(rows.values()), caption, "l" + "r" * (len(heads) - 1))
