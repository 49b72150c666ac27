"""Predictions as named columns: values, deviations, intervals, and probabilities of classes."""

from collections.abc import Sequence
from typing import Any

from reign.train.calibration import Interval
from reign.train.uncertainty import Forecast


def column_names(targets: Sequence[str], classes: Sequence[str], unsure: bool, intervals: Sequence[str] = ()) -> list[str]:
    """The names of the columns: ``<target>_pred``, ``<target>_unc``, ``<target>_lower`` and ``_upper``, ``<target>_prob_<class>``.

    >>> column_names(["logS"], [], unsure=True), column_names(["kind"], ["a", "b"], unsure=False)
    (['logS_pred', 'logS_unc'], ['kind_pred', 'kind_prob_a', 'kind_prob_b'])
    >>> column_names(["logS"], [], True, intervals=["logS"])
    ['logS_pred', 'logS_unc', 'logS_lower', 'logS_upper']

    Args:
        targets: the targets.
        classes: names of the classes, for multiclass.
        unsure: whether there are deviations.
        intervals: the targets that have intervals.
    """
    names = []
    for target in targets:
        kinds = ("pred", *(("unc",) if unsure else ()), *(("lower", "upper") if target in intervals else ()))
        names += [f"{target}_{kind}" for kind in kinds]
    return names + [f"{targets[0]}_prob_{name}" for name in classes]


def forecast_columns(
    found: Forecast,
    task: str,
    targets: Sequence[str],
    classes: Sequence[str],
    intervals: dict[str, Interval],
    alpha: float,
) -> dict[str, list[Any]]:
    """The columns by name, each with a value for every graph; with an interval the deviation is the calibrated one.

    Args:
        found: the predictions.
        task, targets, classes: as in ``Problem``.
        intervals: those of the run, by target.
        alpha: the share of rows that may lie outside an interval.
    """
    values, unsure = found.values, found.unsure
    columns: list[list[Any]] = []
    if task == "multiclass":
        best = values.argmax(1)
        columns.append([classes[int(c)] for c in best])
        if unsure is not None:
            columns.append(unsure.gather(1, best[:, None]).squeeze(1).tolist())
        columns += [values[:, c].tolist() for c in range(len(classes))]
        return dict(zip(column_names(targets, classes, unsure is not None), columns, strict=True))
    for t, target in enumerate(targets):
        columns.append(values[:, t].tolist())
        if unsure is not None and target in intervals:
            deviation, factor = intervals[target].deviation(unsure[:, t]), intervals[target].factor(alpha)
            columns += [side.tolist() for side in (deviation, values[:, t] - factor * deviation, values[:, t] + factor * deviation)]
        elif unsure is not None:
            columns.append(unsure[:, t].tolist())
    return dict(zip(column_names(targets, [], unsure is not None, list(intervals)), columns, strict=True))
