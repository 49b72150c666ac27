"""The plan of what to compute in addition to predictions, checked before the work starts."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reign._validate import check
from reign.train.calibration import FEWEST, Interval
from reign.train.uncertainty import METHODS, WHY_NOT, methods_of

if TYPE_CHECKING:
    from reign.train.predictor import Predictor

CALIBRATIONS = ("temperature", "isotonic", "none")


@dataclass(frozen=True)
class Plan:
    """What to compute in addition to predictions.

    Args:
        method: the method of uncertainty; None for no uncertainty.
        calibration: the calibration of probabilities, one of ``CALIBRATIONS``.
        alpha: the share of rows that may lie outside their interval.
        intervals: the calibrated intervals by target.
        warnings: whether to mark molecules and predictions beyond the domain of the models.
    """

    method: str | None
    calibration: str
    alpha: float
    intervals: dict[str, Interval]
    warnings: bool = True


def make_plan(
    predictor: "Predictor", uncertainty: str | bool, calibration: str | None, alpha: float, warnings: bool = True
) -> Plan:
    """Make the plan. Raise ``ValueError`` for anything that the models do not support.

    Args:
        predictor: the models and their calibration.
        uncertainty, calibration, alpha, warnings: as in ``Predictor.predict_file``.
    """
    can = methods_of(predictor.models)
    method = next((m for m in can if m != "dropout"), None) if uncertainty is True else uncertainty or None
    if method is not None and method not in METHODS:
        raise ValueError(f"the method of uncertainty is {method!r}, expected {', '.join(METHODS)}, or none.")
    if method is not None and method not in can:
        raise ValueError(f"uncertainty by '{method}' is not possible. {WHY_NOT[method]}")
    check("alpha", alpha, isinstance(alpha, int | float) and 0 < alpha < 1, "a number above 0 and below 1")
    check("calibration", calibration, calibration is None or calibration in CALIBRATIONS, ", ".join(CALIBRATIONS))
    if predictor.task == "regression" and calibration not in (None, "none"):
        raise ValueError(f"calibration by '{calibration}' is for classes, but the targets are numbers; leave it out.")
    known = {"temperature": predictor.calibration.temperature, "isotonic": predictor.calibration.isotonic}
    if predictor.task != "regression" and calibration in known and not known[calibration]:
        raise ValueError(
            f"calibration by '{calibration}' is not possible: it needs a single run in which a target has at least {FEWEST} validation labels of both classes"
            + ("; for several classes, only temperature is possible." if predictor.task == "multiclass" else ".")
        )
    intervals = {} if calibration == "none" or method is None else predictor.calibration.intervals.get(method, {})
    intervals = {target: each for target, each in intervals.items() if target in predictor.targets}
    for each in intervals.values():
        each.factor(alpha)
    return Plan(method, calibration or "none", alpha, intervals, warnings)


def why_no_intervals(predictor: "Predictor", plan: Plan, calibration: str | None) -> str | None:
    """The reason why a plan has no intervals; None if it has some."""
    if plan.intervals:
        return None
    if predictor.task != "regression":
        return "the targets are classes, which have probabilities in place of intervals"
    if calibration == "none":
        return "intervals are calibrated, and the calibration method is none"
    if len(predictor.folders) > 1:
        return "intervals belong to one run, and several were given"
    if predictor.best:
        return "intervals belong to all models of a run together, and only the best one is used"
    if predictor.recipe.folds is not None:
        return "all rows of a run by folds were trained on, so none is left to calibrate intervals with"
    return f"the run has fewer than {FEWEST} validation labels to calibrate intervals with"
