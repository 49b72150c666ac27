"""Pages of results: the table of records, the progress of the planned runs, and all runs next to the paper's numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import mean, mode
from textwrap import fill

from reign.disk import write_text
from reign.experiments.choose import settings_in_words
from reign.experiments.paper import PaperTable, cells, find_table, mean_and_std
from reign.experiments.records import Record, devices, mean_and_spread, span, with_used_again
from reign.experiments.reproduce import Cell, means_table
from reign.tables import Table, number
from reign.train.settings.yaml import parse_yaml

# -- the table of records ------------------------------------------------------------------------------------------------------

DATA, METRIC = "zinc", "mae"
TITLE = """# Records on ZINC-12k

All models that were trained at full length, those with the least validation MAE first. Validation and test are those of the weights of the best
validation epoch, as means over seeds, whatever the recipe reports: nothing was chosen by the test. Minutes are those of one model,
divided by the number of models that were trained on the same GPU at the same time, where its file has it. This page is written by `reign results --write`.

"""
COLUMNS = ["date", "model", "weights", "recipe", "epochs", "minutes", "GPU", "validation MAE", "test MAE", "seeds", "commit"]


def best_markdown(records: Sequence[Record]) -> str:
    """The table of records as Markdown."""
    mine = [r for r in records if r.metric == METRIC and _data(r) == DATA and r.values("best", "val") and r.values("best", "test")]
    mine.sort(key=lambda record: mean(record.values("best", "val")))
    return TITLE + Table("", COLUMNS, map(_cells, mine)).markdown() + "\n"


def _data(record: Record) -> object:
    """The data set of a record, if the whole training set was used."""
    data = record.recipe.get("data")
    whole = isinstance(data, dict) and not data.get("limit") and not data.get("num_train")
    return data.get("name") if isinstance(data, dict) and whole else None


def _cells(record: Record) -> list[object]:
    results = record.results
    return [
        max(result.date for result in results)[:10],
        find_table(record.table).rows[record.row].title,
        results[0].parameters,
        f"{record.table}/{record.row}",
        span([result.epochs for result in results]),
        f"{mean(result.own_seconds for result in results) / 60:.1f}",
        devices(results),
        *(number(*mean_and_spread(record.values("best", split)), decimals=4) for split in ("val", "test")),
        ", ".join(str(result.seed) for result in results),
        ", ".join(sorted({result.commit or "" for result in results})),
    ]


# -- the plan of full-length runs, and its progress ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A part of the plan: some cells of a table, and the number of seeds of each."""

    title: str
    table: str
    seeds: int
    rows: list[str] | None = None
    columns: list[str] | None = None

    def runs(self) -> Iterator[tuple[str, str]]:
        """The row and the column of each run. Columns that show numbers of the same run count once."""
        table = find_table(self.table)
        yield from dict.fromkeys((row, table.own_run(column)) for row, column in cells(table, self.rows, self.columns))


@dataclass(frozen=True)
class Progress:
    """The progress of a part: the number of finished models, the number of all models, and the estimated seconds for the rest on ``device``."""

    part: Part
    done: int
    total: int
    seconds: float | None
    device: str | None
    missing: dict[tuple[str, str], int]


def plan() -> list[Part]:
    """All parts of the plan, in order."""
    text = resources.files("reign.experiments").joinpath("evidence.yaml").read_text(encoding="utf-8")
    return [Part(**values) for values in parse_yaml(text)]


def progress(records: Sequence[Record], parts: Sequence[Part] | None = None) -> list[Progress]:
    """The progress of each part. Times are those on the ``usual_device`` of its table. A model without a measured time is assumed to take
    the mean time of the table. A model is done if it has all numbers that the columns of its run show."""
    records = with_used_again(records)
    found = {(record.table, record.row, record.column): record for record in records}
    out = []
    for part in plan() if parts is None else parts:
        table = find_table(part.table)
        folds = table.settings.get("folds") or 1
        ours = [record for record in records if record.table == part.table]
        device = usual_device(ours)
        seen = [result for record in ours for result in record.results if result.device == device]
        seen = [result for result in seen if result.models_at_once] or seen  # times of models alone, if some are known
        done = total = 0
        seconds, missing = 0.0, dict[tuple[str, str], int]()
        for row, column in part.runs():
            record = found.get((part.table, row, column))
            have = 0 if record is None else min(_complete(table, record), part.seeds * folds)
            done, total, left = done + have, total + part.seeds * folds, part.seeds * folds - have
            if left:
                missing[row, column] = left
                like = [result for result in (record.results if record else ()) if result.device == device] or seen
                seconds += left * mean([result.own_seconds for result in like] or [float("nan")])
        out.append(Progress(part, done, total, seconds if seconds == seconds else None, device, missing))
    return out


def _complete(table: PaperTable, record: Record) -> int:
    """The number of models of a record that have all numbers that its columns show."""
    values = [column.value for name, column in table.columns.items() if table.own_run(name) == record.column]
    return min([len(record.values(record.report, value)) for value in values], default=0)


def usual_device(records: Sequence[Record]) -> str | None:
    """The device on which most models were trained; None without records."""
    devices = [result.device for record in records for result in record.results]
    return mode(devices) if devices else None


def progress_table(records: Sequence[Record]) -> Table:
    """How much of the planned runs is done."""
    lines = []
    for each in progress(records):
        rows = list(dict.fromkeys(row for row, _ in each.missing))
        left = ", ".join(rows[:4]) + (f" and {len(rows) - 4} more rows" if len(rows) > 4 else "")
        hours = "unknown" if each.seconds is None else f"{each.seconds / 3600:.1f} on {each.device}"
        done = f"{each.done} of {each.total}"
        lines.append([each.part.title, each.part.table, done, left or "-", hours if each.missing else "0"])
    columns = ["part", "table", "models done", "still to run", "hours left"]
    caption = "Hours are estimated from finished models of the same table."
    return Table("Runs at full length", columns, lines, caption, "llrlr")


# -- the results of all tables, and their summary ------------------------------------------------------------------------------

SUMMARY = {  # the rows of the summary, at most 25: chosen by what they are, before their results
    "zinc": ("sun-ego", "sun-ego+", "gin", "ngnn", "ds-ego", "ds-ego+", "dss-ego", "dss-ego+", "gnn-ak", "gnn-ak-ctx", "gnn-ak+"),
    "counting": ("sun-ego", "sun-ego+", "gcn", "gin", "gnn-ak+", "ppgn"),
    "beyond": ("sun-rrwp", "sswl+", "local-folklore"),
}
WIDTH = 120  # of a line of text of the summary
BEGIN, END = "<!-- results: written by reign results --write -->", "<!-- end of results -->"
HEADER = """# Results

These are full-length runs with the recipes of `reign recipes`. Each file holds the recipe, and for each model its seed, versions, commit, date,
device and duration. This page is written by `reign results --write`. "Ours" is the same figure that the paper reports, from the last epoch or from
the best validation epoch. The difference is in standard deviations of the paper, or ours if the paper gives none. Minutes are those of one model,
divided by the number of models that were trained on the same GPU at the same time, where the file has it, on the device on
which most models of the table were trained; other devices are named.

Where settings were chosen from a grid with `reign reproduce --tune`, the file also holds the validation metric of every point, and a second table shows them: test data
played no part. What was chosen in other ways is in the notes of the recipes and in docs/readings.md.

"""


def write_pages(folder: Path, records: Sequence[Record]) -> list[Path]:
    """Write the results to ``folder/README.md``, the table of records to ``folder/records.md``, and the summary to the README next to the
    folder if it has markers for it.
    """
    pages = [folder / "README.md", folder / "records.md"]
    write_text(folder / "README.md", HEADER + results_markdown(records))
    write_text(folder / "records.md", best_markdown(records))
    beside = folder.absolute().parent / "README.md"
    if not beside.is_file() or BEGIN not in (before := beside.read_text(encoding="utf-8")):
        return pages
    write_text(beside, with_summary(before, records))
    return [*pages, beside]


def with_summary(page: str, records: Sequence[Record]) -> str:
    """A page with the summary between its markers."""
    head, rest = page.split(BEGIN, 1)
    _, tail = rest.split(END, 1)
    return f"{head}{BEGIN}\n{summary_markdown(records)}{END}{tail}"


def summary_markdown(records: Sequence[Record]) -> str:
    """The rows of ``SUMMARY`` as far as they have been run, in the shape of the paper's tables, with the paper's numbers in parentheses; and what the
    plan still lacks.
    """
    found = {(record.table, record.row, record.column): record for record in with_used_again(records)}
    done: dict[str, dict[str, dict[str, Record]]] = {}  # by table, row and column
    for part in plan():
        table = find_table(part.table)
        for row, column in part.runs():
            record = found.get((part.table, row, column))
            if row in SUMMARY.get(part.table, ()) and record is not None:
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
    return "\n\n".join([*parts, _still_missing(records)]) + "\n"


def _still_missing(records: Sequence[Record]) -> str:
    every = progress(records)
    done, total = (sum(getattr(each, name) for each in every) for name in ("done", "total"))
    partly, none = ([each.part.title for each in every if each.missing and bool(each.done) == begun] for begun in (True, False))
    lists = [f" {word}: {'; '.join(titles)}." for word, titles in (("In part", partly), ("Not begun", none)) if titles]
    return fill(f"Still missing: of the {total:,} models of the plan, {done:,} are trained.{''.join(lists)}", WIDTH)


def _cell(table: PaperTable, record: Record, column: str) -> str:
    theirs = number(*_paper(table, record.row, column))
    return number(*_ours(table, record, record.report, column)) + (f" ({theirs})" if theirs else "")


def results_markdown(records: Sequence[Record]) -> str:
    """The results as Markdown tables, one for each table of the paper."""
    parts, records = [], with_used_again(records)
    for name in dict.fromkeys(record.table for record in records):
        table, own = find_table(name), [record for record in records if record.table == name]
        device = usual_device(own)
        ours = sorted(own, key=lambda record: list(table.rows).index(record.row))
        lines = [_line(table, record, column, device) for record in ours for column in _shown(table, record)]
        heads = ["row", "paper", "ours", "difference", "last epoch", "best validation epoch", "models", f"minutes on {device}"]
        if table.also:
            shown = [(record, column) for record in ours for column in _shown(table, record)]
            found = [
                Cell(r.row, c, *mean_and_spread(r.values(r.report, table.columns[c].value)), len(r.results), None, None)
                for r, c in shown
            ]
            parts.append(means_table(table, found, " ".join(table.notes)).markdown(2))
        parts.append(Table(table.title, heads, lines).markdown(2))
        parts += _choices(table, ours)
    return "\n\n".join(parts) + "\n"


def _choices(table: PaperTable, records: Sequence[Record]) -> list[str]:
    """What was chosen by validation: all points of the grids, the best one first."""
    lines = []
    for record in records:
        if (choice := record.choice) is not None:
            order = [choice.best, *(point for point in choice.points if point is not choice.best)]
            shown = [mean_and_spread(table.factor * v for v in point.validation) if point.validation else None for point in order]
            said = [
                f"{settings_in_words(p.settings)}: {number(*v) if v else 'too many weights'}"
                for p, v in zip(order, shown, strict=True)
            ]
            title = table.rows[record.row].title + ("" if len(table.columns) == 1 else f", {record.column}")
            lines.append([title, f"**{said[0]}**", "; ".join(said[1:]), len(choice.best.validation)])
    heads = ["row", "chosen: validation", "the others", "models"]
    return [f"Chosen by validation among the points of a grid:\n\n{Table('', heads, lines).markdown()}"] if lines else []


def _shown(table: PaperTable, record: Record) -> list[str]:
    """The columns that show a run, as far as it has their numbers."""
    mine = ((name, column.value) for name, column in table.columns.items() if table.own_run(name) == record.column)
    return [name for name, value in mine if record.values(record.report, value)]


def _paper(table: PaperTable, row: str, column: str) -> tuple[float | None, float | None]:
    """The paper's number and its standard deviation, as far as there are any."""
    theirs = table.rows[row].paper.get(column)
    return (None, None) if theirs is None else mean_and_std(theirs)


def _ours(table: PaperTable, record: Record, weights: str, column: str) -> tuple[float | None, float | None]:
    """Our number of a column and its standard deviation, with the weights of the last or the best validation epoch, if there is one."""
    values = record.values(weights, table.columns[column].value)
    return mean_and_spread(table.factor * value for value in values) if values else (None, None)


def _line(table: PaperTable, record: Record, column: str, device: str | None) -> list[object]:
    reported, (paper, deviation) = _ours(table, record, record.report, column), _paper(table, record.row, column)
    unit = deviation or reported[1]
    difference = "" if paper is None or reported[0] is None or not unit else f"{(reported[0] - paper) / unit:+.1f} std"
    title = table.rows[record.row].title + ("" if len(table.columns) == 1 else f", {column}")
    own = usual_device([record])
    minutes = mean(result.own_seconds for result in record.results if result.device == own) / 60
    shown = [number(paper, deviation), f"**{number(*reported)}**", difference]
    lowest = table.columns[column].value == "best_train"  # of all epochs
    shown += ["" if lowest else number(*_ours(table, record, weights, column)) for weights in ("last", "best")]
    where = "" if own == device else f" on {own}"
    return [title, *shown, len(record.results), f"{minutes:.1f}{where}"]
