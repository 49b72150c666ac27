"""The results of a finished run in ``summary.json``, as ``reign.train.results.summarise`` makes them."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from reign.disk import read_json
from reign.train.settings.config import explain, name_in
from reign.train.settings.metrics import METRICS

LEFT_OUT: Any = None  # the default of a field that a file may leave out, but in which null is an error


class Part(BaseModel):
    """A part of the results. It may have more fields than those that are checked; a number that is not finite is a result, too."""

    model_config = ConfigDict(strict=True)


class Spread(Part):
    """A metric over several models; a single value has no deviation."""

    mean: float
    std: float | None
    values: list[float]


class Ensemble(Part):
    """The metric of the mean prediction of all models."""

    size: int
    test: float


class MetricOfTargets(Part):
    """One of several metrics: its mean over models, and that of each target if there are several."""

    mean: float
    targets: dict[str, float] = {}


class Member(Part):
    """A model: its folder in that of the run, and its metric on each split in the best and in the last epoch."""

    folder: str = Field(pattern=r"^[^\x00]+$")
    best: dict[str, float] = {}
    last: dict[str, float] = {}


class Summary(Part):
    """The results of a finished run. Splits that the data do not have are left out, and runs of version 0.1.0 have no ``metrics``."""

    metric: Annotated[str, name_in(METRICS)]
    report: Literal["best", "last"]
    average: float = 0.0
    parameters: int
    seconds: float
    members: list[Member] = Field(min_length=1)
    folds: int = 0
    train: Spread = LEFT_OUT
    val: Spread = LEFT_OUT
    test: Spread = LEFT_OUT
    best_train: Spread = LEFT_OUT
    ensemble: Ensemble = LEFT_OUT
    metrics: dict[str, dict[str, MetricOfTargets]] = {}

    @model_validator(mode="after")
    def _check(self) -> "Summary":
        shapes = [{name: list(metric.targets) for name, metric in part.items()} for part in self.metrics.values()]
        if any(shape != shapes[0] for shape in shapes):
            raise ValueError(f"metrics are {shapes!r:.100}, expected the same metrics and targets for all splits")
        return self


def read_summary(folder: Path) -> dict[str, Any]:
    """Read the results of a finished run. They must not refer to folders outside the run."""
    file = folder / "summary.json"
    found: dict[str, Any] = read_json(file)
    try:
        summary = Summary.model_validate(found)
    except ValidationError as error:
        raise ValueError(
            f"{file} is damaged ({explain(error, Summary, most=1)}); delete it and continue the run with --resume, which writes it anew."
        ) from None
    for member in summary.members:
        if not (folder / member.folder).resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{file} refers to the folder {member.folder}, which is outside the run; do not use this run.")
    return found


def in_words(summary: dict[str, Any]) -> str:
    """Which weights the results of a run belong to.

    >>> in_words({"report": "last", "average": 10.0}), in_words({"report": "best", "folds": 10})
    ('weights of the last epoch, averaged over about 10 epochs', '10 folds, epoch with the best mean')
    """
    if folds := summary.get("folds"):
        words = f"{folds} folds, " + ("last epoch" if summary["report"] == "last" else "epoch with the best mean")
    else:
        words = f"weights of the {summary['report']} epoch"
    return f"{words}, averaged over about {summary['average']:g} epochs" if summary.get("average") else words


def best_member(folder: Path, summary: dict[str, Any]) -> dict[str, Any]:
    """The model of a run with the best validation metric."""
    best: dict[str, Any] | None = None
    for member in summary["members"]:
        values = member.get(summary["report"], {})
        if "val" not in values:
            raise ValueError(f"{folder} has no validation metric by which one of its models is the best.")
        if best is None or METRICS[summary["metric"]].better(values["val"], best[summary["report"]]["val"]):
            best = member
    assert best is not None
    return best
