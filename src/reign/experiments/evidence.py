"""Full-length runs: the plan and its progress."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from statistics import mean, mode

from reign.experiments.records import Record
from reign.experiments.table_files import find_table
from reign.experiments.tables import cells
from reign.tables import Table
from reign.train.settings.yaml import parse_yaml


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
    text = resources.files("reign.experiments").joinpath("evidence.yaml").read_text()
    return [Part(**values) for values in parse_yaml(text)]


def progress(records: Sequence[Record], parts: Sequence[Part] | None = None) -> list[Progress]:
    """The progress of each part. Times are those on the ``usual_device`` of its table. A model without a measured time is assumed to take
    the mean time of the table."""
    found = {(record.table, record.row, record.column): record for record in records}
    out = []
    for part in plan() if parts is None else parts:
        folds = find_table(part.table).settings.get("folds") or 1
        ours = [record for record in records if record.table == part.table]
        device = usual_device(ours)
        seen = [result for record in ours for result in record.results if result.device == device]
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
        out.append(Progress(part, done, total, seconds if seconds == seconds else None, device, missing))
    return out


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
