"""Calibrate a finished run on its validation rows, for every method of uncertainty that its models support."""

from pathlib import Path

import torch

from reign.data import Problem
from reign.train.calibration import FEWEST, Calibration, Interval, Steps, fit_temperature
from reign.train.callbacks import Callback
from reign.train.predictor import Predictor
from reign.train.uncertainty import forecast, methods_of

FILE = "calibration.json"


def calibrate(folder: Path, problem: Problem, device: torch.device) -> None:
    """Calibrate a finished run, and write the result to its folder."""
    predictor, ids = Predictor(folder, device=device), problem.splits["val"]
    y, models = problem.y[ids], predictor.models
    found = Calibration()
    if problem.task == "regression":
        for method in methods_of(models):
            made = forecast(models, problem.graphs, ids, problem.task, method, Callback())
            assert made.unsure is not None
            fitted = {t: Interval.fit(y[:, c], made.values[:, c], made.unsure[:, c]) for c, t in enumerate(problem.targets)}
            found.intervals[method] = {target: each for target, each in fitted.items() if each is not None}
    else:
        values = forecast(models, problem.graphs, ids, problem.task, None, Callback()).values
        for t, target in enumerate(problem.targets):
            there = ~y[:, t].isnan()
            if int(there.sum()) < FEWEST or y[there, t].unique().numel() < 2:
                continue
            if problem.task == "multiclass":
                found.temperature[target] = fit_temperature(y[there, t], values[there].clamp(min=1e-12).log())
            else:
                found.temperature[target] = fit_temperature(y[there, t], torch.logit(values[there, t, None], eps=1e-12))
                found.isotonic[target] = Steps.fit(y[there, t], values[there, t])
    found.save(folder / FILE)
