"""Results of models and of runs: what their files hold, and how a run is summarised over seeds and folds."""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from torch import Tensor

from reign.data import Ids, Problem
from reign.disk import first_line, read_json, read_record, write_csv, write_json
from reign.train.settings.config import PARTNERS, Partner, Recipe, explain, name_in
from reign.train.settings.losses import as_outputs
from reign.train.settings.metrics import METRICS

if TYPE_CHECKING:
    from reign.data.molecules import Report

Floats = NDArray[np.float64]
P = TypeVar("P", bound="Content")
FEW_ROWS = 100  # for validation; fewer hardly decide between two models
OPTIONAL: Any = None  # the default of a field that a file may leave out, but in which null is an error


class Content(BaseModel):
    """What a JSON file holds, or a part of it, with its fields in the order in which they are written.

    There may be more fields than those that are checked; a number that is not finite is a value, too.
    """

    model_config = ConfigDict(strict=True, extra="allow")

    @classmethod
    def check(cls: type[P], values: Any, file: Path, hint: str = "") -> P:
        """Make it from the content of a file. If that is damaged, ``ValueError`` names the file and the first wrong field."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ValueError(f"{file} is damaged ({explain(error, cls, most=1)}){hint}.") from None

    @classmethod
    def read(cls: type[P], file: Path, hint: str = "") -> P:
        """Read a file; see ``check``."""
        return cls.check(read_json(file), file, hint)

    @classmethod
    def read_if_there(cls: type[P], file: Path) -> P:
        """Read a file that runs of older versions do not have; without it, all fields have their defaults."""
        return cls.read(file) if file.is_file() else cls()

    def to_dict(self) -> dict[str, Any]:
        """The fields that were given."""
        return self.model_dump(exclude_unset=True)

    def write(self, file: Path) -> None:
        """Write it as JSON."""
        write_json(file, self.to_dict())


# -- the results of a model, and the summary of a run --------------------------------------------------------------------------


class Spread(Content):
    """A metric over several models; a single value has no deviation.

    In cross-validation it is over folds and belongs to an epoch of a seed. With several seeds it is over their means, and ``seeds`` has each of them.
    """

    seed: int = OPTIONAL
    epoch: int = OPTIONAL
    mean: float
    std: float | None
    values: list[float]
    seeds: "list[Spread]" = OPTIONAL

    @classmethod
    def over(cls, values: Sequence[float], **about: int) -> "Spread":
        """Mean and standard deviation; the deviation of one value is None."""
        return cls.model_validate({**about, "mean": mean(values), "std": deviation(values), "values": list(values)})


class MetricOfTargets(Content):
    """One of several metrics: its mean over models, and that of each target if there are several."""

    mean: float
    std: float | None = None
    values: list[float] = []
    targets: dict[str, float] = {}


class Ensemble(Content):
    """The metric of the mean prediction of all models."""

    size: int
    test: float


class Baseline(Content):
    """The metric of a forest or a Gaussian process that learned from the same rows as the models, on the splits that it did not learn from, one value
    for each split of the rows.
    """

    name: Partner
    val: Spread = OPTIONAL
    test: Spread = OPTIONAL
    parts: dict[str, Spread] = {}  # further splits of a data set
    val_rows: int = OPTIONAL  # of all splits together
    trees: int = OPTIONAL
    molecules: int = OPTIONAL
    columns: int = OPTIONAL
    seconds: float = OPTIONAL


class ModelResult(Content):
    """The results of one model: its metric on each split with the weights of the best and of the last epoch, and all metrics with those that are reported.

    ``seed``, ``fold`` and ``folder`` say which model of a run it is. An exported model has only these, ``best`` and ``last``.
    """

    seed: int = OPTIONAL
    fold: int | None = None
    folder: str = Field(OPTIONAL, pattern=r"^[^\x00]+$")
    metric: Annotated[str, name_in(METRICS)] = OPTIONAL
    report: Literal["best", "last"] = OPTIONAL
    epochs: int = OPTIONAL
    best_epoch: int = OPTIONAL
    best_train_loss: float = OPTIONAL
    parameters: int = OPTIONAL
    max_pairs: int | None = None
    seconds: float = OPTIONAL
    models_at_once: int | float | None = None
    best: dict[str, float] = {}
    last: dict[str, float] = {}
    metrics: dict[str, dict[str, Annotated[list[float], Field(min_length=1)]]] = {}

    def of(self, report: str) -> dict[str, float]:
        """The metric on each split with the weights of the best or of the last epoch."""
        return self.best if report == "best" else self.last


def read_result(file: Path, splits: Iterable[str], **about: Any) -> ModelResult:
    """The results of one model on these splits, as returned by ``reign.train.fit``; ``about`` says which model it is."""
    values = read_record(file, metric=str, report=str, best_train_loss=float, parameters=int, seconds=float, best=dict, last=dict)
    about |= {**values, "metrics": values.get("metrics", {})}  # runs of version 0.1.0 have no metrics
    result = ModelResult.check(about, file)
    for which in ("best", "last"):
        if set(result.of(which)) != set(splits):
            raise ValueError(
                f"{file} is damaged (it has {result.of(which)!r:.80}, expected a number for each of {', '.join(splits)})."
            )
    return result


class MemberResult(ModelResult):
    """One of the models in the summary of a run, which has a folder."""

    folder: str = Field(pattern=r"^[^\x00]+$")


class Summary(Content):
    """The results of a finished run. Splits that the data do not have are left out, and runs of version 0.1.0 have no ``metrics``."""

    metric: Annotated[str, name_in(METRICS)]
    report: Literal["best", "last"]
    average: float = 0.0
    parameters: int
    start: str = ""
    folds: int = 0
    train: Spread = OPTIONAL
    val: Spread = OPTIONAL
    test: Spread = OPTIONAL
    parts: dict[str, Spread] = {}  # further splits of a data set
    best_train: Spread = OPTIONAL
    ensemble: Ensemble = OPTIONAL
    baselines: list[Baseline] = []
    partners: list[Partner] = []  # those of the baselines with which the models predict
    together: dict[str, Spread] = {}  # the metric of the mean of models and partners
    metrics: dict[str, dict[str, MetricOfTargets]] = {}
    seconds: float
    members: list[MemberResult] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> "Summary":
        shapes = [{name: list(metric.targets) for name, metric in part.items()} for part in self.metrics.values()]
        if any(shape != shapes[0] for shape in shapes):
            raise ValueError(f"metrics are {shapes!r:.100}, expected the same metrics and targets for all splits")
        return self

    @property
    def splits(self) -> dict[str, Spread]:
        """The metric on each split that the run has."""
        return {split: getattr(self, split) for split in ("train", "val", "test") if getattr(self, split) is not None}

    def spread_of(self, name: str) -> Spread | None:
        """The metric on a split, or the smallest training loss ("best_train"); None if the run does not have it."""
        found: Spread | None = self.parts.get(name) or getattr(self, name, None)
        return found

    @property
    def beside(self) -> dict[str, Spread]:
        """The metric of the baselines on each split, and that of models and partners together, by what a table calls them."""
        found = {
            f"{split}, {PARTNERS[about.name].removeprefix('the ')}": spread
            for about in self.baselines
            for split, spread in {"val": about.val, "test": about.test, **about.parts}.items()
            if spread is not None
        }
        return found | {f"{split}, together": spread for split, spread in self.together.items()}

    def table(self) -> tuple[list[str], list[list[object]]]:
        """The columns and rows of the results: the metric on each split and what stands beside it, with several models also their deviation and number."""
        several = len(self.members) > 1
        found = {name: [spread.mean, spread.std, len(spread.values)] for name, spread in (self.splits | self.beside).items()}
        rows: list[list[object]] = [[name, *numbers[: 3 if several else 1]] for name, numbers in found.items()]
        if several and self.ensemble:
            rows.insert(len(self.splits), ["test, ensemble", self.ensemble.test, "", self.ensemble.size])
        return (["split", self.metric, "std", "models"] if several else ["split", self.metric]), rows

    def compare(self) -> str | None:
        """A sentence on whether the models or the baselines are better on the validation rows; None without a baseline."""
        if not self.baselines:
            return None
        who = " and ".join(PARTNERS[about.name] for about in self.baselines)
        if not self.val or any(not about.val for about in self.baselines):
            return (
                f"There are no validation rows that could say whether {who} {'is' if len(self.baselines) == 1 else 'are'} better."
            )
        several, ours = len(self.members) > 1, "the models" if len(self.members) > 1 else "the model"
        values = {ours: self.val.mean} | {PARTNERS[about.name]: about.val.mean for about in self.baselines if about.val}
        if any(map(math.isnan, values.values())):
            return f"{self.metric} is not defined on these validation rows, so they do not say whether {who} would be better."
        better = METRICS[self.metric].better
        best = [name for name, value in values.items() if not any(better(other, value) for other in values.values())]
        neither = len(best) == len(values) == 2
        winner, plural = "neither" if neither else " and ".join(best), len(best) > 1 or (several and best == [ours])
        verb = f"{'are' if plural and not neither else 'is'} {'better' if len(values) == 2 else 'best'}"
        values = {name + ", on average" * (several and name == ours): value for name, value in values.items()}
        numbers = f"{self.metric} " + ", ".join(f"{value:.4g} of {name}" for name, value in values.items())
        every = "both" if len(values) == 2 else "all"
        if "val" in self.together:
            some = every if len(self.partners) == len(self.baselines) else f"{ours} and {PARTNERS[self.partners[0]]}"
            numbers += f", {self.together['val'].mean:.4g} of {some} together"
        rows = self.baselines[0].val_rows
        few = rows is not None and rows < FEW_ROWS
        doubt = "; so few rows hardly decide, and --num-folds 5 compares on all rows" if few and not self.folds else ""
        names = " ".join(about.name for about in self.baselines)
        advice = (
            ""
            if self.partners or best == [ours]
            else f" A run with --ensemble-with {names} predicts with {'them' if len(values) > 2 else 'it'}, too."
        )
        return f"On the {'' if rows is None else f'{rows:,} '}validation rows {winner} {verb}: {numbers}{doubt}.{advice}"

    def describe_weights(self) -> str:
        """Which weights the results belong to.

        >>> Summary.model_construct(report="last", average=10.0).describe_weights()
        'weights of the last epoch, averaged over about 10 epochs'
        >>> Summary.model_construct(report="last", start="molecules-1").describe_weights()
        'weights of the last epoch; started from molecules-1'
        >>> Summary.model_construct(report="best", folds=10).describe_weights()
        '10 folds, epoch with the best mean'
        """
        words = f"weights of the {self.report} epoch"
        if self.folds:
            words = f"{self.folds} folds, " + ("last epoch" if self.report == "last" else "epoch with the best mean")
        words += f", averaged over about {self.average:g} epochs" if self.average else ""
        return words + (f"; started from {self.start}" if self.start else "")


def summarise(
    recipe: Recipe,
    problem: Problem,
    results: Sequence[ModelResult],
    curves: Sequence[Sequence[float]],
    predicted: Float[Tensor, "models graphs outputs"] | None,
    beside: dict[str, object] | None = None,
) -> Summary:
    """Summarise the results of all models of a run.

    Args:
        recipe: the settings of the run.
        problem: its graphs, targets and splits.
        results: the results of its models.
        curves: in cross-validation, the validation metric of each model for every epoch.
        predicted: the predictions of each model for the test graphs, if all have the same ones.
        beside: the results of baselines and partners, the fields of the summary.
    """
    first = results[0]
    out: dict[str, object] = {
        "metric": first.metric,
        "report": first.report,
        "average": recipe.train.average,
        "parameters": first.parameters,
    }
    if recipe.train.checkpoint is not None:
        out["start"] = Path(recipe.train.checkpoint).name
    if recipe.folds is not None:
        out["folds"] = recipe.folds
        out["val"] = _over_folds(recipe, first.metric, curves)
    else:
        spreads = {split: Spread.over([r.of(r.report)[split] for r in results]) for split in first.of(first.report)}
        out |= {split: spread for split, spread in spreads.items() if split in Summary.model_fields}
        if parts := {split: spread.to_dict() for split, spread in spreads.items() if split not in out}:
            out["parts"] = parts
        out["best_train"] = Spread.over([r.best_train_loss for r in results])
        if predicted is not None:
            mean_prediction = as_outputs(predicted.mean(0), problem.task)
            value = METRICS[first.metric](mean_prediction, problem.y[problem.splits["test"]])
            out["ensemble"] = Ensemble(size=len(results), test=value)
    out |= beside or {}
    out["metrics"] = _all_metrics(results, problem.targets)
    out["seconds"] = sum(r.seconds for r in results)
    out["members"] = [r.to_dict() for r in results]
    return Summary.model_validate(out)


def _all_metrics(results: Sequence[ModelResult], targets: list[str]) -> dict[str, dict[str, MetricOfTargets]]:
    """The mean over models for every split and metric, and for each target if there are several."""
    shapes = [{split: {name: len(value) for name, value in part.items()} for split, part in r.metrics.items()} for r in results]
    if any(shape != shapes[0] for shape in shapes):  # some models are older than others
        return {}
    found: dict[str, dict[str, MetricOfTargets]] = {}
    for split, part in results[0].metrics.items():
        for name in part:
            columns = list(zip(*(r.metrics[split][name] for r in results), strict=True))
            values = Spread.over(columns[0]).to_dict()
            if len(columns) > 1:
                values["targets"] = {target: mean(column) for target, column in zip(targets, columns[1:], strict=False)}
            found.setdefault(split, {})[name] = MetricOfTargets.model_validate(values)
    return found


def _over_folds(recipe: Recipe, metric: str, curves: Sequence[Sequence[float]]) -> Spread:
    """For every seed, the results of the last epoch, or of the epoch with the best mean over folds; then the mean over seeds."""
    assert recipe.folds is not None
    seeds = []
    for s, seed in enumerate(recipe.seeds):
        own = curves[s * recipe.folds : (s + 1) * recipe.folds]
        means = [mean(values) for values in zip(*own, strict=False)]  # a run that was stopped has folds of different lengths
        best = max if METRICS[metric].more_is_better else min
        epoch = means.index(best(means)) if recipe.train.report == "best" else len(means) - 1
        seeds.append(Spread.over([curve[epoch] for curve in own], seed=seed, epoch=epoch))
    if len(seeds) == 1:
        return seeds[0]
    return Spread.model_validate({**Spread.over([s.mean for s in seeds]).to_dict(), "seeds": [s.to_dict() for s in seeds]})


def deviation(values: Sequence[float]) -> float | None:
    """The standard deviation; None for one value, and NaN if a value is not a finite number.

    >>> deviation([1.0, 3.0]), deviation([1.0]), deviation([1.0, math.nan])
    (1.4142135623730951, None, nan)
    """
    if len(values) < 2:
        return None
    return stdev(values) if all(map(math.isfinite, values)) else math.nan


def spread_of(values: Float[Tensor, "models graphs outputs"]) -> Float[Tensor, "graphs outputs"]:
    """The standard deviation over models; NaN for a single model."""
    return values.std(0) if len(values) > 1 else torch.full_like(values[0], math.nan)


# -- tables: metrics of epochs, predictions, and rows that were left out -------------------------------------------------------


def read_curves(file: Path) -> dict[str, list[float]]:
    """The metrics of every epoch, by column."""
    header, rows = _rows(file)
    return {name: [_number(file, row[c]) for row in rows] for c, name in enumerate(header)}


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for the graphs of a split.

    Args:
        split: the split.
        names: the name or the index of each graph.
        texts: columns that describe the graphs, such as SMILES.
        y: the targets, NaN for a missing one; the index of the class for multiclass.
        values: the predictions; probabilities if targets are classes.
        unsure: their spread over models; None for a single model.
    """

    split: str
    names: list[str]
    texts: dict[str, list[str]]
    y: Floats
    values: Floats
    unsure: Floats | None

    @classmethod
    def read(cls, file: Path, split: str, targets: Sequence[str], classes: Sequence[str]) -> "Predictions":
        """Read a table that ``write_predictions`` wrote, of a run with these targets and classes."""
        header, rows = _rows(file)
        labels = classes or targets
        values = [f"{label}_pred" for label in labels]
        if missing := [name for name in [*targets, *values] if name not in header]:
            raise ValueError(f"{file} is damaged (it has no column '{missing[0]}').")
        first = header.index(targets[0], 1)
        unsure = [f"{label}_unc" for label in labels]

        def numbers(names: list[str], start: int) -> Floats:
            where = [header.index(name, start) for name in names]
            return np.array([[_number(file, row[c]) for c in where] for row in rows], dtype=np.float64).reshape(
                len(rows), len(names)
            )

        y = numbers(list(targets), first)
        if classes and not all(value in range(len(classes)) for value in y[~np.isnan(y)].tolist()):
            raise ValueError(f"{file} is damaged (expected classes from 0 to {len(classes) - 1}).")
        spread = numbers(unsure, first + len(targets)) if all(name in header for name in unsure) else None
        return cls(
            split,
            [row[0] for row in rows],
            {header[c]: [row[c] for row in rows] for c in range(1, first)},
            y,
            numbers(values, first + len(targets)),
            None if spread is None or np.isnan(spread).all() else spread,
        )

    @classmethod
    def joined(cls, parts: "Sequence[Predictions]") -> "Predictions":
        """The predictions of several models, each for other graphs of a split."""
        return cls(
            parts[0].split,
            [name for part in parts for name in part.names],
            {column: [text for part in parts for text in part.texts[column]] for column in parts[0].texts},
            np.concatenate([part.y for part in parts]),
            np.concatenate([part.values for part in parts]),
            None,
        )


def _rows(file: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            header, *rows = csv.reader(lines)
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(f"{file} is damaged ({first_line(error)}).") from None
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"{file} is damaged (a row does not have {len(header)} fields).")
    return header, rows


def _number(file: Path, text: str) -> float:
    try:
        return float(text) if text else math.nan
    except ValueError:
        raise ValueError(f"{file} is damaged ('{text[:40]}' is not a number).") from None


def write_predictions(
    file: Path,
    problem: Problem,
    ids: Ids,
    values: Float[Tensor, "graphs outputs"],
    unsure: Float[Tensor, "graphs outputs"] | None = None,
) -> None:
    """Write targets and predictions (probabilities for classes) of some graphs with all digits, and optionally the spread over models."""
    labels = problem.classes if problem.task == "multiclass" else problem.targets
    header = ["row" if problem.names is not None else "graph", *problem.texts]
    header += [*problem.targets, *(f"{label}_pred" for label in labels)]
    columns: list[Sequence[Any]] = [
        [problem.names[i] for i in ids.tolist()] if problem.names is not None else ids.tolist(),
        *([texts[i] for i in ids.tolist()] for texts in problem.texts.values()),
        *problem.y[ids].t().tolist(),
        *values.t().tolist(),
    ]
    if unsure is not None:
        header += [f"{label}_unc" for label in labels]
        columns += unsure.t().tolist()
    rows = ([None if value != value else value for value in row] for row in zip(*columns, strict=True))  # NaN is an empty cell
    write_csv(file, header, rows)


def write_left_out(file: Path, report: "Report") -> None:
    """Write the rows of a table that could not be read, with the reasons. If all could be read, no file is written."""
    if report.left_out:
        write_csv(file, ["row", "reason"], report.left_out.items())
