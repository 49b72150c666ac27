"""Tables for the terminal: the paper's results and ours."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from reign.cli.render_runs import number
from reign.experiments.tables import mean_and_std

if TYPE_CHECKING:
    from reign.experiments.records import Record
    from reign.experiments.reproduce import Cell
    from reign.experiments.tables import Number
    from reign.experiments.tables import Table as Paper


def list_of_tables(papers: "dict[str, Paper]") -> Table:
    """The tables of the paper by name."""
    table = Table(title="Tables of recipes", caption="Use reign train TABLE/ROW/COLUMN, or reign reproduce TABLE.")
    for column in ("table", "description", "rows", "columns"):
        table.add_column(column, style="bold" if column == "table" else "")
    for name, paper in papers.items():
        if paper.is_single:
            table.add_row(name, "the recipe of reign train -i FILE.csv", "", "")
        else:
            table.add_row(name, paper.title, ", ".join(paper.rows), ", ".join(paper.columns))
    return table


def paper_table(paper: "Paper") -> Table:
    """The rows and columns of a table, with the numbers of the paper."""
    table = Table(title=f"{paper.title}: {paper.unit}", caption=" ".join(paper.notes))
    table.add_column("row", style="bold")
    table.add_column("model")
    for column in paper.columns:
        table.add_column(f"{column} (paper)", justify="right")
    for row, about in paper.rows.items():
        table.add_row(row, about.title, *(_paper(about.paper.get(column)) for column in paper.columns))
    for title, numbers in paper.quoted.items():
        table.add_row("", f"{title} (quoted)", *(_paper(numbers.get(column)) for column in paper.columns))
    return table


def comparison_table(paper: "Paper", cells: "list[Cell]", quick: bool) -> Table:
    """Our results next to the paper's."""
    caption = "Differences are in standard deviations of the paper, or ours if the paper gives none. " + " ".join(paper.notes)
    if quick:
        caption = "A quick test on a small share of the data; these numbers cannot be compared with the paper's. " + caption
    table = Table(title=f"{paper.title}: {paper.unit}", caption=caption)
    for name in ("model", "column", "ours", "paper", "difference"):
        table.add_column(name, justify="left" if name in ("model", "column") else "right")
    last = ""
    for c in cells:
        ours = (
            f"{number(c.ours)} +- {number(c.deviation)} ({c.runs})" if c.deviation is not None else f"{number(c.ours)} ({c.runs})"
        )
        theirs = "" if c.paper is None else _paper(c.paper if c.paper_deviation is None else (c.paper, c.paper_deviation))
        gap = "" if c.difference is None else f"{c.difference:+.1f}"
        title = paper.rows[c.row].title
        table.add_row("" if title == last else title, c.column, ours, theirs, gap, end_section=False)
        last = title
    wanted = dict.fromkeys(c.column for c in cells)
    for title, numbers in paper.quoted.items():
        for i, column in enumerate(name for name in wanted if numbers.get(name) is not None):
            table.add_row(f"{title} (quoted)" if i == 0 else "", column, "", _paper(numbers[column]), "")
    return table


def _paper(value: "float | Number | None") -> str:
    if value is None:
        return ""
    mean, std = mean_and_std(value)
    return f"{mean:g}" if std is None else f"{mean:g} +- {std:g}"


def progress_table(records: "Sequence[Record]") -> Table:
    """How much of the planned runs is done."""
    from reign.experiments.evidence import progress

    table = Table(title="Runs at full length", caption="Hours are estimated from finished models of the same table.")
    for name in ("part", "table", "models done", "still to run", "hours left"):
        table.add_column(name, justify="left" if name in ("part", "table", "still to run") else "right")
    for each in progress(records):
        rows = dict.fromkeys(row for row, _ in each.missing)
        left = ", ".join(list(rows)[:4]) + (f" and {len(rows) - 4} more rows" if len(rows) > 4 else "")
        hours = "unknown" if each.seconds is None else f"{each.seconds / 3600:.1f} on {each.device}"
        table.add_row(each.part.title, each.part.table, f"{each.done} of {each.total}", left or "-", hours if each.missing else "0")
    return table
