"""Calibrate the models of a run on its validation rows, for every method of uncertainty that its models support."""

from collections.abc import Sequence

import torch

from reign.data import Problem
from reign.train.calibration import FEWEST, Calibration, Interval, Steps, fit_temperature
from reign.train.engine.callbacks import Callback
from reign.train.trained_model import TrainedModel
from reign.train.uncertainty import forecast, methods_of


def calibrate(models: Sequence[TrainedModel], problem: Problem, callback: Callback | None = None) -> Calibration:
    """Calibrate the trained models of a run on the validation rows of its table."""
    ids, callback = problem.splits["val"], callback or Callback()
    y, found = problem.y[ids], Calibration()
    if problem.task == "regression":
        for method in methods_of(models):
            made = forecast(models, problem.graphs, ids, problem.task, method, callback)
            assert made.unsure is not None
            fitted = {t: Interval.fit(y[:, c], made.values[:, c], made.unsure[:, c]) for c, t in enumerate(problem.targets)}
            found.intervals[method] = {target: each for target, each in fitted.items() if each is not None}
    else:
        values = forecast(models, problem.graphs, ids, problem.task, None, callback).values
        for t, target in enumerate(problem.targets):
            there = ~y[:, t].isnan()
            if int(there.sum()) < FEWEST or y[there, t].unique().numel() < 2:
                continue
            if problem.task == "multiclass":
                found.temperature[target] = fit_temperature(y[there, t], values[there].clamp(min=1e-12).log())
            else:
                found.temperature[target] = fit_temperature(y[there, t], torch.logit(values[there, t, None], eps=1e-12))
                found.isotonic[target] = Steps.fit(y[there, t], values[there, t])
    return found
