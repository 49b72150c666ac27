"""The results as pages: all runs compared with the paper's numbers, and a summary of the planned ones in the shape of the paper's tables."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from reign.disk import write_text
from reign.experiments.best import best_markdown
from reign.experiments.evidence import plan, usual_device
from reign.experiments.records import Record, devices, mean_and_spread, span
from reign.experiments.table_files import find_table
from reign.experiments.tables import PaperTable, mean_and_std
from reign.tables import Table, number

BEGIN, END = "<!-- results: written by reign results --write -->", "<!-- end of results -->"
HEADER = """# Results

These are full-length runs with the recipes of `reign recipes`. Each file holds the recipe, and for each model its seed, versions, commit, date,
device and duration. This page is written by `reign results --write`. "Ours" is the same figure that the paper reports, from the last epoch or from
the best validation epoch. The difference is in standard deviations of the paper, or ours if the paper gives none. Minutes are those of one model,
divided by the number of models that were trained on the same GPU at the same time, where the file has it, on the device on
which most models of the table were trained; other devices are named.

"""


def write_pages(folder: Path, records: Sequence[Record]) -> list[Path]:
    """Write the results to ``folder/README.md``, the table of records to ``folder/records.md``, and the summary to the README next to the
    folder if it has markers for it.
    """
    pages = [folder / "README.md", folder / "records.md"]
    write_text(folder / "README.md", HEADER + results_markdown(records))
    write_text(folder / "records.md", best_markdown(records))
    beside = folder.absolute().parent / "README.md"
    if not beside.is_file() or BEGIN not in (before := beside.read_text()):
        return pages
    write_text(beside, with_summary(before, records))
    return [*pages, beside]


def with_summary(page: str, records: Sequence[Record]) -> str:
    """A page with the summary between its markers."""
    head, rest = page.split(BEGIN, 1)
    _, tail = rest.split(END, 1)
    return f"{head}{BEGIN}\n{summary_markdown(records)}{END}{tail}"


def summary_markdown(records: Sequence[Record]) -> str:
    """The planned rows as far as they have been run, in the shape of the paper's tables, with the paper's numbers in parentheses."""
    found = {(record.table, record.row, record.column): record for record in records}
    done: dict[str, dict[str, dict[str, Record]]] = {}  # by table, row and column
    for part in plan():
        table = find_table(part.table)
        for row, column in part.runs():
            if (record := found.get((part.table, row, column))) is not None:
                own = done.setdefault(part.table, {}).setdefault(row, {})
                own.update(dict.fromkeys(_shown(table, record), record))
    parts = []
    for name, rows in done.items():
        table = find_table(name)
        columns = [column for column in table.columns if any(column in row for row in rows.values())]
        lines = []
        for row, own in sorted(rows.items(), key=lambda item: list(table.rows).index(item[0])):
            shown = [_cell(table, own[column], column) if column in own else "" for column in columns]
            seeds = span([len({result.seed for result in record.results}) for record in own.values()])
            where = devices(result for record in own.values() for result in record.results)
            lines.append([table.rows[row].title, *shown, seeds, where])
        heads = ["ours (paper)", *columns, "seeds", "device"]
        parts.append(Table(f"{table.title}: {table.unit}", heads, lines).markdown())
    return "\n\n".join(parts) + "\n"


def _cell(table: PaperTable, record: Record, column: str) -> str:
    theirs = number(*_paper(table, record.row, column))
    return number(*_ours(table, record, record.report)) + (f" ({theirs})" if theirs else "")


def results_markdown(records: Sequence[Record]) -> str:
    """The results as Markdown tables, one for each table of the paper."""
    parts = []
    for name in dict.fromkeys(record.table for record in records):
        table, own = find_table(name), [record for record in records if record.table == name]
        device = usual_device(own)
        ours = sorted(own, key=lambda record: list(table.rows).index(record.row))
        lines = [_line(table, record, column, device) for record in ours for column in _shown(table, record)]
        heads = ["row", "paper", "ours", "difference", "last epoch", "best validation epoch", "models", f"minutes on {device}"]
        parts.append(Table(table.title, heads, lines).markdown(2))
    return "\n\n".join(parts) + "\n"


def _shown(table: PaperTable, record: Record) -> list[str]:
    """The columns that show a run on the test split, or with folds on the validation split."""
    return [
        name for name, column in table.columns.items() if table.own_run(name) == record.column and column.value == _split(record)
    ]


def _split(record: Record) -> str:
    return "test" if record.recipe.get("folds") is None else "val"


def _paper(table: PaperTable, row: str, column: str) -> tuple[float | None, float | None]:
    """The paper's number and its standard deviation, as far as there are any."""
    theirs = table.rows[row].paper.get(column)
    return (None, None) if theirs is None else mean_and_std(theirs)


def _ours(table: PaperTable, record: Record, weights: str) -> tuple[float, float | None]:
    """Our number and its standard deviation, with the weights of the last or the best validation epoch."""
    return mean_and_spread(table.factor * value for value in record.values(weights, _split(record)))


def _line(table: PaperTable, record: Record, column: str, device: str | None) -> list[object]:
    reported, (paper, deviation) = _ours(table, record, record.report), _paper(table, record.row, column)
    unit = deviation or reported[1]
    difference = "" if paper is None or not unit else f"{(reported[0] - paper) / unit:+.1f} std"
    title = table.rows[record.row].title + ("" if len(table.columns) == 1 else f", {column}")
    own = usual_device([record])
    minutes = mean(result.own_seconds for result in record.results if result.device == own) / 60
    shown = [number(paper, deviation), f"**{number(*reported)}**", difference]
    shown += [number(*_ours(table, record, weights)) for weights in ("last", "best")]
    where = "" if own == device else f" on {own}"
    return [title, *shown, len(record.results), f"{minutes:.1f}{where}"]
