"""Full-length runs: the plan, its progress, and the results compared with the paper's numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import mean, mode

from reign.disk import write_text
from reign.experiments.best import best_markdown
from reign.experiments.records import Record, mean_and_spread
from reign.experiments.table_files import find_table
from reign.experiments.tables import Table, cells, mean_and_std
from reign.train.overrides import parse_yaml

BEGIN, END = "<!-- results: written by reign results --write -->", "<!-- end of results -->"
HEADER = """# Results

These are full-length runs with the recipes of `reign recipes`. Each file holds the recipe, and for each model its seed, versions, commit, date,
device and duration. This page is written by `reign results --write`. "Ours" is the same figure that the paper reports, from the last epoch or from
the best validation epoch. The difference is in standard deviations of the paper, or ours if the paper gives none. Minutes are those of one model,
divided by the number of models that were trained on the same GPU at the same time, where the file has it; other devices than that of most
models are named.

"""


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
    """The progress of a part: the number of finished models, the number of all models, and the estimated seconds for the rest on the device
    of the records."""

    part: Part
    done: int
    total: int
    seconds: float | None
    missing: dict[tuple[str, str], int]


def plan() -> list[Part]:
    """All parts of the plan, in order."""
    text = resources.files("reign.experiments").joinpath("evidence.yaml").read_text()
    return [Part(**values) for values in parse_yaml(text)]


def progress(records: Sequence[Record], parts: Sequence[Part] | None = None) -> list[Progress]:
    """The progress of each part. Times are those on ``usual_device``. A model without a measured time is assumed to take the mean time of
    its table."""
    found = {(record.table, record.row, record.column): record for record in records}
    out, device = [], usual_device(records)
    for part in plan() if parts is None else parts:
        folds = find_table(part.table).settings.get("folds") or 1
        seen = [result for record in records if record.table == part.table for result in record.results if result.device == device]
        seen = [result for result in seen if result.models_at_once] or seen  # times of models alone, if some are known
        done = total = 0
        seconds, missing = 0.0, dict[tuple[str, str], int]()
        for row, column in part.runs():
            record = found.get((part.table, row, column))
            have = 0 if record is None else min(len(record.results), part.seeds * folds)
            done, total, left = done + have, total + part.seeds * folds, part.seeds * folds - have
            if left:
                missing[row, column] = left
                like = [result for result in (record.results if record else ()) if result.device == device] or seen
                seconds += left * mean([result.own_seconds for result in like] or [float("nan")])
        out.append(Progress(part, done, total, seconds if seconds == seconds else None, missing))
    return out


def usual_device(records: Sequence[Record]) -> str | None:
    """The device on which most models were trained; None without records."""
    devices = [result.device for record in records for result in record.results]
    return mode(devices) if devices else None


def write_pages(folder: Path, records: Sequence[Record]) -> list[Path]:
    """Write the results to ``folder/README.md``, the table of records to ``folder/records.md``, and the results to the README next to the
    folder if it has markers for them.
    """
    text, pages = results_markdown(records), [folder / "README.md", folder / "records.md"]
    write_text(folder / "README.md", HEADER + text)
    write_text(folder / "records.md", best_markdown(records))
    beside = folder.absolute().parent / "README.md"
    if not beside.is_file() or BEGIN not in (before := beside.read_text()):
        return pages
    write_text(beside, with_results(before, text))
    return [*pages, beside]


def with_results(page: str, text: str) -> str:
    """A page with the results between its markers."""
    head, rest = page.split(BEGIN, 1)
    _, tail = rest.split(END, 1)
    return f"{head}{BEGIN}\n{text.replace('## ', '### ')}{END}{tail}"


def results_markdown(records: Sequence[Record]) -> str:
    """The results as Markdown tables, one for each table of the paper."""
    parts, device = [], usual_device(records)
    for name in dict.fromkeys(record.table for record in records):
        table = find_table(name)
        lines = [
            f"## {table.title}",
            "",
            "| row | paper | ours | difference | last epoch | best validation epoch | models | minutes |",
        ]
        lines += ["|---|---|---|---|---|---|---|---|"]
        ours = sorted((record for record in records if record.table == name), key=lambda record: list(table.rows).index(record.row))
        lines += [_line(table, record, column, device) for record in ours for column in _shown(table, record)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _shown(table: Table, record: Record) -> list[str]:
    return [column for column in table.columns if table.own_run(column) == record.column and table.columns[column].value == "test"]


def _line(table: Table, record: Record, column: str, device: str | None) -> str:
    ours = {weights: mean_and_spread(table.factor * v for v in record.values(weights, "test")) for weights in ("last", "best")}
    reported = ours[record.report]
    theirs = table.rows[record.row].paper.get(column)
    paper, deviation = (None, None) if theirs is None else mean_and_std(theirs)
    unit = deviation or reported[1]
    difference = "" if paper is None or not unit else f"{(reported[0] - paper) / unit:+.1f} std"
    title = table.rows[record.row].title + ("" if len(table.columns) == 1 else f", {column}")
    own = usual_device([record])
    minutes = mean(result.own_seconds for result in record.results if result.device == own) / 60
    shown = [_number(paper, deviation), f"**{_number(*reported)}**", difference, _number(*ours["last"]), _number(*ours["best"])]
    where = "" if own == device else f" on {own}"
    return f"| {title} | {' | '.join(shown)} | {len(record.results)} | {minutes:.1f}{where} |"


def _number(value: float | None, deviation: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if deviation is None else f"{value:.4g} ± {deviation:.2g}"
