"""Full-length results as small files that can be committed with the code, one for each run of a table of the paper."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import mean

from reign.disk import read_json, write_json
from reign.experiments.choose import Choice, chosen
from reign.experiments.paper import PaperTable, find_table, list_tables
from reign.experiments.reproduce import predict_mean
from reign.train.engine.execution import make_fabric
from reign.train.runs.results import MemberResult, Summary, deviation
from reign.train.runs.run import Environment, Run
from reign.train.settings.config import Recipe, Settings
from reign.train.settings.yaml import RawSettings, merge

VERSIONS = ("reign", "python", "torch", "torch_geometric", "lightning")


class Result(Settings):
    """The results of one model: its metric on each split, with the weights of the best validation epoch and of the last epoch.

    With folds, the reported epoch is the same for all folds of a seed, and there is only the metric on the validation split.
    """

    seed: int
    fold: int | None = None
    epochs: int
    best_epoch: int
    parameters: int
    seconds: float
    models_at_once: float | None = None
    best: dict[str, float]
    last: dict[str, float]
    best_train: float | None = None
    date: str
    device: str
    versions: dict[str, str]
    commit: str | None = None

    @property
    def own_seconds(self) -> float:
        """The time of this model, without the share of the models that were trained at the same time."""
        return self.seconds / (self.models_at_once or 1)

    @property
    def key(self) -> tuple[int, int]:
        """The seed and the fold."""
        return self.seed, -1 if self.fold is None else self.fold

    @property
    def numbers(self) -> RawSettings:
        """All but when, where and by which version it was made."""
        return self.model_dump(exclude={"seconds", "date", "device", "versions", "commit"})


class Record(Settings):
    """The results of one run of a table. ``best_train`` of a result is the lowest training loss of all epochs. If settings were chosen from a grid,
    ``choice`` has all of its points with their validation metrics."""

    table: str
    row: str
    column: str
    metric: str
    report: str
    recipe: RawSettings
    results: list[Result]
    choice: Choice | None = None

    @classmethod
    def of(
        cls, folder: Path, table: str, row: str, column: str, commit: str | None = None, choice: Choice | None = None
    ) -> "Record":
        """Make the record of a finished run. Its commit is the given one, or the one that the run itself noted."""
        run = Run(folder)
        if not run.finished:
            raise ValueError(f"{folder} holds no finished run; continue it with: reign train --resume {folder}.")
        recipe = run.recipe.model_dump(mode="json", exclude={"seeds"})
        made = cls._made(run.summary, run.environment, recipe, table, row, column, commit)
        fits = choice is not None and merge(recipe, choice.settings) == recipe  # the run may be older than the search
        return made.model_copy(update={"choice": choice if fits else None})

    @classmethod
    def of_mean(cls, table: PaperTable, name: str, row: str, commit: str | None = None) -> "Record":
        """Make the record of the trivial predictor, which needs no run."""
        column = next(iter(table.columns))
        recipe, about = table.recipe(row, column), Environment.present(make_fabric(accelerator="cpu"))
        settings = recipe.model_dump(mode="json", exclude={"seeds", "model"})
        return cls._made(predict_mean(recipe), about, settings, name, row, column, commit)

    @classmethod
    def _made(
        cls, summary: Summary, about: Environment, recipe: RawSettings, table: str, row: str, column: str, commit: str | None
    ) -> "Record":
        own = {name: getattr(about, name) for name in VERSIONS}
        results = [
            Result(
                seed=member.seed, fold=member.fold, epochs=member.epochs, best_epoch=member.best_epoch, parameters=member.parameters,
                seconds=member.seconds, models_at_once=member.models_at_once, best=member.best, last=member.last,
                best_train=member.best_train_loss,
                date=about.date, device=about.device, versions=own, commit=commit or about.commit,
            )
            for member in _members(summary)
        ]  # fmt: skip
        return cls(
            table=table, row=row, column=column, metric=summary.metric, report=summary.report, recipe=dict(recipe), results=results
        )

    @classmethod
    def read(cls, file: Path) -> "Record":
        """Read a file written by ``write``."""
        return cls.check(read_json(file), f"{file} is not a valid record of results")

    def write(self, folder: Path) -> Path:
        """Write the record to ``folder/table/row.json``, with the column in the name if there are several. Existing results of other seeds
        are kept, and so is an existing record of the trivial predictor, which has no run, if its numbers are the same."""
        file = folder / self.table / (f"{self.row}.json" if self.column == "test" else f"{self.row}--{self.column}.json")
        record = self
        if file.is_file():
            before = Record.read(file)
            if _filled(before.recipe) != _filled(self.recipe):
                raise ValueError(f"{file} holds results of another recipe; move it away to start a new record.")
            if "model" not in self.recipe and [one.numbers for one in before.results] == [one.numbers for one in self.results]:
                return file
            results = {result.key: result for result in (*before.results, *self.results)}
            record = self.model_copy(
                update={"results": [results[key] for key in sorted(results)], "choice": self.choice or before.choice}
            )
        write_json(file, record.model_dump(mode="json"))
        return file

    def values(self, weights: str, split: str) -> list[float]:
        """The metric of each model, with the weights of the best validation epoch ("best") or of the last epoch ("last"). "best_train" in place of a split
        is the lowest training loss."""
        if split == "best_train":
            return [result.best_train for result in self.results if result.best_train is not None]
        return [getattr(result, weights)[split] for result in self.results if split in getattr(result, weights)]


def _members(summary: Summary) -> Iterator[MemberResult]:
    """What a summary says about each model; with folds, at the epoch that is reported."""
    if not summary.folds:
        yield from summary.members
        return
    seeds = {one.seed: one for one in summary.val.seeds or [summary.val]}
    for member in summary.members:
        own = seeds[member.seed]
        epoch = {"best_epoch": own.epoch} if summary.report == "best" else {}
        yield member.model_copy(update={**epoch, summary.report: {"val": own.values[member.fold or 0]}})


def _filled(recipe: RawSettings) -> Recipe:
    """The recipe of a record with the defaults of settings that did not exist yet when it was written."""
    return Recipe.model_validate({"format": 1, **recipe, "seeds": [0]})


def read_records(folder: Path) -> list[Record]:
    """Read all records in a folder."""
    return [Record.read(file) for file in sorted(folder.glob("*/*.json"))]


def record_table(runs: Path, name: str, table: PaperTable, results: Path, commit: str | None = None) -> list[Path]:
    """Write records of all finished runs of a table in ``runs/row/column``, as written by ``reign reproduce``, with what was chosen for them by
    validation; and the records of rows without a model. A run that predicts with a forest, too, has no record, which has the results of single models."""
    made = [
        Record.of(folder, name, row, column, commit, chosen(table, runs, row, column))
        for row, column, folder in _cells(runs, table)
        if (run := Run(folder)).finished and not run.recipe.ensemble_with
    ]
    made += [Record.of_mean(table, name, row, commit) for row, about in table.rows.items() if about.trivial and runs.is_dir()]
    return [record.write(results) for record in made]


def with_used_again(records: Sequence[Record]) -> list[Record]:
    """The records, and copies of those that a row of another table uses again (``Row.runs``) and has no record of its own for."""
    found = {f"{record.table}/{record.row}/{record.column}": record for record in records}
    out = list(records)
    for name, table in ((name, find_table(name)) for name in list_tables()):
        for row, about in table.rows.items():
            column = next(iter(table.columns))
            if about.runs in found and f"{name}/{row}/{column}" not in found:
                out.append(found[about.runs].model_copy(update={"table": name, "row": row, "column": column}))
    return out


def _cells(runs: Path, table: PaperTable) -> Iterator[tuple[str, str, Path]]:
    for row in table.rows:
        for column in dict.fromkeys(map(table.own_run, table.columns)):
            yield row, column, runs / row / column


def mean_and_spread(values: Iterable[float]) -> tuple[float, float | None]:
    """The mean, and the standard deviation if there are several values.

    >>> mean_and_spread([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    found = list(values)
    return mean(found), deviation(found)


def span(values: Sequence[int]) -> str:
    """The value if all are the same, otherwise the least and the largest.

    >>> span([3, 3]), span([400, 1200, 300])
    ('3', '300 to 1,200')
    """
    return f"{values[0]:,}" if len(set(values)) == 1 else f"{min(values):,} to {max(values):,}"


def devices(results: Iterable[Result]) -> str:
    """The devices on which some models were trained."""
    return ", ".join(sorted({result.device.removeprefix("NVIDIA ") for result in results}))
