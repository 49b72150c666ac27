"""The picture of speed: every table of benchmarks/RESULTS.md whose section is marked "(drawn)", as bars."""

import re
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from textwrap import fill

from reign.draw import BLUE, LIGHT, ORANGE, Picture, finish, new_figure, style_axes

RESULTS = Path(__file__).parents[2] / "benchmarks" / "RESULTS.md"
MARK = " (drawn)"


@dataclass(frozen=True)
class Bars:
    """A table as bars: its title, the unit, and the values of each line; several values are several measurements."""

    title: str
    unit: str
    lines: dict[str, list[float]]


def drawn_tables(text: str) -> list[Bars]:
    """The first table of each section that is marked; a label in its first column, values in its second.

    >>> drawn_tables("## A (drawn)\\n\\n| x | ms |\\n|---|---|\\n| `b` | 1.5, 2 |\\n")
    [Bars(title='A', unit='ms', lines={'b': [1.5, 2.0]})]
    """
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        if not title.endswith(MARK):
            continue
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines() if line.startswith("|")]
        if len(rows) < 3:
            raise ValueError(f"the section {title!r} has no table to draw.")
        lines = {row[0].replace("`", ""): [float(word.replace(",", "")) for word in row[1].split(", ")] for row in rows[2:]}
        found.append(Bars(title.removesuffix(MARK), rows[0][1], lines))
    return found


def draw_speed(tables: list[Bars]) -> Picture:
    """A panel for each table; reign in blue, other programs in orange, parts of a step in grey, and dots for single measurements."""
    sizes = [0.34 * len(table.lines) + 1.0 for table in tables]
    figure = new_figure(5.8, sum(sizes), LIGHT)
    panels = figure.subplots(len(tables), 1, height_ratios=sizes)
    for table, ax in zip(tables, panels, strict=True):
        style_axes(ax, LIGHT, table.title, table.unit)
        ax.grid(False, axis="y")
        several = any("reign" in label for label in table.lines)
        for line, (label, values) in enumerate(table.lines.items()):
            colour = LIGHT.faint if "alone" in label else BLUE if "reign" in label or not several else ORANGE
            ax.barh([-line], [mean(values)], height=0.62, color=colour, gid=f"bar-{table.title}-{line}".replace(" ", "-").lower())
            if len(values) > 1:
                ax.plot(values, [-line] * len(values), "o", color=LIGHT.ink, markersize=3)
            shown = " and ".join(f"{value:g}" for value in values)
            ax.annotate(shown, (max(values), -line), (5, 0), textcoords="offset points", va="center", fontsize=8, color=LIGHT.ink)
        ax.set_yticks([-line for line in range(len(table.lines))], [fill(label, 26) for label in table.lines])
        ax.set_xlim(0, 1.25 * max(max(values) for values in table.lines.values()))
    return finish(figure, "speed", LIGHT)


def speed_pages(results: Path = RESULTS) -> dict[str, str]:
    """The picture by file."""
    return {"speed.svg": draw_speed(drawn_tables(results.read_text())).svg}
