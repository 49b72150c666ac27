"""A table for the terminal, for Markdown and for HTML."""

import io

from rich.console import Console

from reign.tables import Table

ROWS: list[list[object]] = [["a|b", 0.123456, 12000, "1 ± 0.1"], [], ["<all>", None, float("nan"), True]]
TABLE = Table("Title", ["name", "share", "count", "more"], ROWS, "A caption.", "lr")


def shown(table: Table, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO(), markup=False, highlight=False)
    console.print(table.rich())
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_the_terminal_has_aligned_columns_and_lines_between_parts() -> None:
    lines = [line.rstrip() for line in shown(TABLE).splitlines()]
    assert lines[0].strip() == "Title"
    assert "│ a|b   │ 0.1235 │ 12,000 │ 1 +- 0.1 │" in lines
    assert "│ <all> │        │        │     True │" in lines
    assert lines.index("├───────┼────────┼────────┼──────────┤") == 5
    assert lines[-1].strip() == "A caption."


def test_titles_have_one_line() -> None:
    lines = shown(Table("A title that is longer than the columns", ["x"], [[1]])).splitlines()
    assert lines[0].strip() == "A title that is longer than the columns"
    assert len(lines[1]) == len("A title that is longer than the columns")
    assert max(map(len, shown(Table("", ["x"], [[1]], "long " * 40)).splitlines())) < 10


def test_names_are_never_cut() -> None:
    lines = [
        line.strip("│ ").strip()
        for line in shown(Table("", ["x", "y"], [["local-folklore-rrwp-long", "a, b"]], "", "l"), 24).splitlines()
    ]
    assert "…" not in "".join(lines)
    assert "".join(line.split("│")[0].strip() for line in lines[3:-1]) == "local-folklore-rrwp-long"


def test_markdown() -> None:
    assert TABLE.markdown(2).split("\n") == [
        "## Title",
        "",
        "| name | share | count | more |",
        "|---|---|---|---|",
        r"| a\|b | 0.1235 | 12,000 | 1 ± 0.1 |",
        "| <all> |  |  | True |",
        "",
        "A caption.",
    ]
    assert Table("", ["x"], []).markdown() == "| x |\n|---|"


def test_html_is_escaped() -> None:
    assert TABLE.html() == (
        "<h2>Title</h2>\n<table><caption>A caption.</caption><thead><tr><th>name</th><th>share</th><th>count</th><th>more</th></tr></thead>"
        "<tbody><tr><td>a|b</td><td>0.1235</td><td>12,000</td><td>1 ± 0.1</td></tr>"
        "<tr><td>&lt;all&gt;</td><td></td><td></td><td>True</td></tr></tbody></table>"
    )
    assert Table("", ["x"], []).html().startswith("<table><thead>")
