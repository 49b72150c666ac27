"""Tables of results: the same table for the terminal, for a page in Markdown and for one in HTML, with one format for numbers."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table as RichTable

ONE_LINE = 100  # titles and captions of up to so many characters are not wrapped in the terminal


@dataclass
class Table:
    """A table.

    >>> table = Table("Errors", ["model", "mae", "graphs"], [["sun", 0.0834512, 12000], ["gin", None, 12000]])
    >>> print(table.markdown())
    ### Errors
    <BLANKLINE>
    | model | mae | graphs |
    |---|---|---|
    | sun | 0.08345 | 12,000 |
    | gin |  | 12,000 |

    Args:
        title: what it shows; empty if the text around it says so.
        columns: names of the columns.
        rows: the cells of each row: text, which stays as it is, numbers, or None for an empty cell. A row without cells is a line between parts, in the terminal.
        caption: what one must know to read it.
        align: in the terminal, "l" for each column of text and "r" for each column of numbers; the last letter holds for all further columns.
        names: whether the first column holds names that one can give to a command; they are bold in the terminal.
    """

    title: str
    columns: Sequence[str]
    rows: Iterable[Sequence[object]]
    caption: str = ""
    align: str = "lr"
    names: bool = False

    def __post_init__(self) -> None:
        self.rows = [[cell(value) for value in row] for row in self.rows]

    def rich(self) -> "RichTable":
        """The table for ``rich.print``. The sign ± is written as +-, which every terminal can show."""
        from rich.table import Table as RichTable

        width = max(len(text) for text in (self.title, self.caption, "") if len(text) <= ONE_LINE)
        table = RichTable(title=self.title or None, caption=self.caption or None, min_width=width)
        for c, column in enumerate(self.columns):
            right = self.align[min(c, len(self.align) - 1)] == "r"
            style = "bold" if self.names and c == 0 else ""
            table.add_column(column, justify="right" if right else "left", style=style, overflow="fold")  # no name is cut
        for row in self.rows:
            if row:
                table.add_row(*(str(text).replace(" ± ", " +- ") for text in row))
            else:
                table.add_section()
        return table

    def markdown(self, level: int = 3) -> str:
        """The table in Markdown, below its title as a heading of this level and above its caption."""
        lines = [self.columns, *filter(None, self.rows)]
        head, *rows = ("| " + " | ".join(str(text).replace("|", r"\|") for text in line) + " |" for line in lines)
        table = "\n".join([head, "|" + "---|" * len(self.columns), *rows])
        return "\n\n".join(part for part in (f"{'#' * level} {self.title}" if self.title else "", table, self.caption) if part)

    def html(self, level: int = 2) -> str:
        """The table as an element of a page, below its title as a heading of this level."""
        title = f"<h{level}>{escape(self.title)}</h{level}>\n" if self.title else ""
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{escape(str(text))}</td>" for text in row) + "</tr>" for row in self.rows if row)
        return f"{title}<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def cell(value: object) -> str:
    """The text of a cell: numbers with four digits, and counts with a comma for thousands.

    >>> cell(0.123456), cell(12000), cell(None), cell("1.0"), cell(True)
    ('0.1235', '12,000', '', '1.0', 'True')
    """
    if isinstance(value, float):
        return number(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)


def number(value: float | None, deviation: float | None = None, decimals: int | None = None) -> str:
    """A number with four digits, and its standard deviation with two; empty for None and NaN.

    >>> number(0.123456), number(0.0834512, 0.00123), number(None), number(float("nan")), number(0.2, 0.01, decimals=3)
    ('0.1235', '0.08345 ± 0.0012', '', '', '0.200 ± 0.010')

    Args:
        value: the number.
        deviation: its standard deviation, if there is one.
        decimals: number of digits after the point, in place of four digits.
    """
    if value is None or math.isnan(value):
        return ""
    texts = [
        f"{x:.{digits}g}" if decimals is None else f"{x:.{decimals}f}"
        for x, digits in ((value, 4), (deviation, 2))
        if x is not None
    ]
    return " ± ".join(texts)
