"""The page of evidence: every number of the paper that has a run here, drawn next to ours, from the records in results/ and the recipes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reign.draw import BLUE, LIGHT, ORANGE, Picture, finish, new_figure, style_axes, style_legend
from reign.experiments import find_table
from reign.experiments.pages import progress_table
from reign.experiments.paper import Number, mean_and_std
from reign.experiments.records import Record, mean_and_spread, read_records, with_used_again
from reign.tables import Table, number
from reign.train.settings.metrics import METRICS

ROOT = Path(__file__).parents[2]
NEAR = 2.0  # standard deviations


@dataclass(frozen=True)
class Pair:
    """A number of the paper and ours: the cell of a table, means with standard deviations, and how many models ours is made of."""

    table: str
    row: str
    column: str
    paper: Number
    ours: Number
    models: int
    better: int  # 1 if larger values are better, -1 if smaller ones are

    @property
    def apart(self) -> float | None:
        """Ours minus the paper's in standard deviations of the paper, or ours if the paper gives none."""
        unit = self.paper[1] or self.ours[1]
        return (self.ours[0] - self.paper[0]) / unit if unit else None


def pairs(records: Sequence[Record]) -> list[Pair]:
    """All numbers of the paper that the records have, in the order of the tables."""
    found = []
    for record in with_used_again(records):
        table = find_table(record.table)
        about = table.rows[record.row]
        for name, column in table.columns.items():
            values = record.values(record.report, column.value)
            if name in about.paper and table.own_run(name) == record.column and values:
                ours = mean_and_spread(table.factor * value for value in values)
                better = 1 if METRICS[record.metric].more_is_better else -1
                found.append(Pair(record.table, record.row, name, mean_and_std(about.paper[name]), ours, len(values), better))
    order = {name: [*find_table(name).rows] for name in {pair.table for pair in found}}
    return sorted(found, key=lambda pair: (pair.table, order[pair.table].index(pair.row)))


def draw_table(name: str, found: Sequence[Pair]) -> Picture:
    """The pairs of a table: a panel for each column, a line for each row."""
    table = find_table(name)
    mine = [pair for pair in found if pair.table == name]
    rows = [row for row in table.rows if any(pair.row == row for pair in mine)]
    columns = [column for column in table.columns if any(pair.column == column for pair in mine)]
    across = min(2, len(columns))
    down = -(-len(columns) // across)
    figure = new_figure(2.3 * across + 1.0, down * (0.36 * len(rows) + 0.75) + 0.4, LIGHT)
    values = [value for pair in mine for value, _ in (pair.paper, pair.ours)]
    wide = min(values) > 0 and max(values) > 8 * min(values)
    for number_of, column in enumerate(columns):
        ax = figure.add_subplot(down, across, number_of + 1, sharex=figure.axes[0] if number_of else None)
        style_axes(ax, LIGHT, column if len(columns) > 1 else "", table.unit if number_of >= len(columns) - across else "")
        for pair in (pair for pair in mine if pair.column == column):
            line = -rows.index(pair.row)
            for (value, spread), shift, colour, mark, fill, label in (
                (pair.paper, 0.15, ORANGE, "s", "none", "paper"), (pair.ours, -0.15, BLUE, "o", BLUE, "ours"),
            ):  # fmt: skip
                ax.errorbar(
                    [value], [line + shift], xerr=None if spread is None else [spread], fmt=mark, color=colour, markerfacecolor=fill,
                    markersize=5, capsize=2.5, linewidth=1.3, label=label, gid=f"{label}-{column}-{pair.row}",
                )  # fmt: skip
        ax.set_xscale("log" if wide else "linear")
        left = number_of % across == 0
        ax.set_yticks([-line for line in range(len(rows))], [table.rows[row].title for row in rows] if left else [""] * len(rows))
        ax.set_ylim(0.6 - len(rows), 0.6)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    both = dict(zip(labels, handles, strict=True))
    style_legend(figure.legend(both.values(), both.keys(), loc="outside upper center", ncols=2, fontsize=8, frameon=False), LIGHT)
    return finish(figure, f"evidence-{name}", LIGHT)


def draw_apart(found: Sequence[Pair]) -> Picture:
    """How far all of our numbers are from the paper's, in standard deviations; to the right ours is better."""
    mine = [pair for pair in found if pair.apart is not None]
    figure = new_figure(5.8, 0.19 * len(mine) + 0.9, LIGHT)
    ax = figure.add_subplot()
    style_axes(ax, LIGHT, "", "standard deviations; on the right, ours is better")
    ax.axvspan(-NEAR, NEAR, color=LIGHT.faint, alpha=0.3, linewidth=0)
    ax.axvline(0, color=LIGHT.ink, linewidth=0.8)
    for line, pair in enumerate(mine):
        value = pair.better * (pair.apart or 0.0)
        ax.plot([0, value], [-line, -line], color=BLUE, linewidth=1, alpha=0.6)
        ax.plot(
            [value],
            [-line],
            color=BLUE if abs(value) <= NEAR else ORANGE,
            marker="o" if abs(value) <= NEAR else "D",
            markersize=4.5,
        )
    ax.set_yticks([-line for line in range(len(mine))], [f"{pair.table}: {_name(pair)}" for pair in mine], fontsize=7)
    ax.set_ylim(0.7 - len(mine), 0.7)
    return finish(figure, "evidence-apart", LIGHT)


def _name(pair: Pair) -> str:
    table = find_table(pair.table)
    return table.rows[pair.row].title + (f", {pair.column}" if len(table.columns) > 1 else "")


def evidence_pages(results: Path = ROOT / "results") -> dict[str, str]:
    """The page and its pictures by file."""
    records = read_records(results)
    found = pairs(records)
    tables = list(dict.fromkeys(pair.table for pair in found))
    pages = {f"evidence/evidence-{name}.svg": draw_table(name, found).svg for name in tables} | {
        "evidence/evidence-apart.svg": draw_apart(found).svg
    }
    parts = []
    for name in tables:
        lines = [
            [_name(pair), number(*pair.paper), number(*pair.ours), "" if pair.apart is None else f"{pair.apart:+.1f}", pair.models]
            for pair in found if pair.table == name
        ]  # fmt: skip
        rows = (
            Table("", ["row", "paper", "ours", "standard deviations", "models"], lines).markdown().replace(" ± ", "\u00a0±\u00a0")
        )  # one word, also on a phone
        table = find_table(name)
        parts.append(
            f"## {table.title}\n\n{table.unit[:1].upper() + table.unit[1:]}; the command is `reign reproduce {name}`.\n\n"
            f"![{table.title}: the paper's numbers and ours](evidence/evidence-{name}.svg)\n\n{rows}\n"
        )
    known = [pair.better * pair.apart for pair in found if pair.apart is not None]
    counts = [sum(test) for test in zip(*((abs(a) <= NEAR, a > NEAR, a < -NEAR) for a in known), strict=True)]
    pages["evidence.md"] = (
        "# Evidence\n\nOur numbers next to the paper's, wherever the paper has a number and there is a run at full length. Bars are standard "
        "deviations over seeds; where the paper gives none, its number has no bar. All pictures and figures on this page are made from the "
        "files in `results/` and from the recipes when the page is built. [Results](project/results.md) has all runs, also those that the "
        "paper has no number for.\n\n"
        f"Of {len(known)} numbers, {counts[0]} are within {NEAR:.0f} standard deviations of the paper's, {counts[1]} are better by more than "
        f"that, and {counts[2]} are worse by more than that. With three seeds, a standard deviation is itself "
        "uncertain. [Three readings](../readings.md#where-the-papers-numbers-come-from) says what is known of the reasons.\n\n"
        "The band is two standard deviations on each side; a diamond is outside of it.\n\n![How far all numbers are from the paper's](evidence/evidence-apart.svg)\n\n" + "\n".join(parts) + "\n## What is still missing\n\n"
        "The planned runs of all tables of the paper, and how much of them is done.\n\n"
        + progress_table(records).markdown().split("\n\n", 1)[1] + "\n"
    )  # fmt: skip
    return pages
