"""The table of records: all full-length runs on a data set, with the weights of the best validation epoch, sorted by validation metric."""

from collections.abc import Sequence
from statistics import mean

from reign.experiments.records import Record, devices, mean_and_spread, span
from reign.experiments.table_files import find_table
from reign.tables import Table, number

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
