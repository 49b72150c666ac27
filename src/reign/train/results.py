"""Results over seeds and folds: means, deviations, and the ensemble."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import Problem
from reign.disk import read_record
from reign.train.engine.history import read_metrics
from reign.train.prediction_files import read_predictions
from reign.train.settings.config import Recipe
from reign.train.settings.losses import as_outputs
from reign.train.settings.metrics import METRICS


def deviation(values: Sequence[float]) -> float | None:
    """The standard deviation; None for one value, and NaN if a value is not a finite number.

    >>> deviation([1.0, 3.0]), deviation([1.0]), deviation([1.0, math.nan])
    (1.4142135623730951, None, nan)
    """
    if len(values) < 2:
        return None
    return stdev(values) if all(map(math.isfinite, values)) else math.nan


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean and standard deviation; the deviation of one value is None."""
    return {"mean": mean(values), "std": deviation(values), "values": list(values)}


def read_result(folder: Path, splits: Iterable[str]) -> dict[str, Any]:
    """The results of one model on these splits, as returned by ``reign.train.fit``."""
    file = folder / "result.json"
    result = read_record(file, metric=str, report=str, best_train_loss=float, parameters=int, seconds=float, best=dict, last=dict)
    if result["metric"] not in METRICS or result["report"] not in ("best", "last"):
        raise ValueError(f"{file} is damaged (it has the metric {result['metric']!r} and the report {result['report']!r}).")
    for which in ("best", "last"):
        if set(result[which]) != set(splits) or not all(isinstance(value, int | float) for value in result[which].values()):
            raise ValueError(
                f"{file} is damaged (it has {result[which]!r:.80}, expected a number for each of {', '.join(splits)})."
            )
    _check_metrics(file, result.setdefault("metrics", {}))  # runs of version 0.1.0 have none
    return result


def _check_metrics(file: Path, found: Any) -> None:
    """Raise ``ValueError`` unless these are numbers by split and metric."""
    parts = list(found.values()) if isinstance(found, dict) else [None]
    values = [value for part in parts for value in (part.values() if isinstance(part, dict) else [None])]
    if not all(isinstance(value, list) and value and all(isinstance(v, int | float) for v in value) for value in values):
        raise ValueError(f"{file} is damaged (its metrics are {found!r:.80}, expected numbers by split and metric).")


def summarise(recipe: Recipe, problem: Problem, folder: Path, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Summarise the results of all models of a run."""
    first = results[0]
    name = first["metric"]
    out: dict[str, Any] = {
        "metric": name,
        "report": first["report"],
        "average": recipe.train.average,
        "parameters": first["parameters"],
    }
    if recipe.folds is not None:
        out["folds"] = recipe.folds
        out["val"] = _over_folds(recipe, folder, name)
    else:
        for split in first[first["report"]]:
            out[split] = spread([r[r["report"]][split] for r in results])
        out["best_train"] = spread([r["best_train_loss"] for r in results])
        if "test" in problem.splits:
            out["ensemble"] = {"size": len(results), "test": _ensemble(problem, predicted(problem, folder, results), name)}
    out["metrics"] = _all_metrics(results, problem.targets)
    return {**out, "seconds": sum(r["seconds"] for r in results), "members": results}


def _all_metrics(results: list[dict[str, Any]], targets: list[str]) -> dict[str, Any]:
    """The mean over models for every split and metric, and for each target if there are several."""
    every = [r.get("metrics", {}) for r in results]
    shapes = [{split: {name: len(value) for name, value in part.items()} for split, part in each.items()} for each in every]
    if any(shape != shapes[0] for shape in shapes):  # some models are older than others
        return {}
    found: dict[str, Any] = {}
    for split, part in every[0].items():
        for name in part:
            columns = list(zip(*(each[split][name] for each in every), strict=True))
            about: dict[str, Any] = spread(columns[0])
            if len(columns) > 1:
                about["targets"] = {target: mean(values) for target, values in zip(targets, columns[1:], strict=False)}
            found.setdefault(split, {})[name] = about
    return found


def _over_folds(recipe: Recipe, folder: Path, name: str) -> dict[str, Any]:
    """For every seed, the results of the last epoch, or of the epoch with the best mean over folds; then the mean over seeds."""
    seeds = []
    for seed in recipe.seeds:
        assert recipe.folds is not None
        curves = [read_metrics(folder / f"seed-{seed}" / f"fold-{f}", f"val_{name}") for f in range(recipe.folds)]
        means = [mean(values) for values in zip(*curves, strict=False)]  # a run that was stopped has folds of different lengths
        best = max if METRICS[name].more_is_better else min
        epoch = means.index(best(means)) if recipe.train.report == "best" else len(means) - 1
        seeds.append({"seed": seed, "epoch": epoch, **spread([curve[epoch] for curve in curves])})
    if len(seeds) == 1:
        return seeds[0]
    return {**spread([s["mean"] for s in seeds]), "seeds": seeds}


def predicted(problem: Problem, folder: Path, results: list[dict[str, Any]]) -> Float[Tensor, "models graphs outputs"]:
    """The predictions of every model of a run for the test graphs."""
    size = problem.splits["test"].numel(), problem.num_outputs
    return torch.stack([read_predictions(folder / r["folder"] / "predictions.csv", *size) for r in results])


def _ensemble(problem: Problem, values: Float[Tensor, "models graphs outputs"], name: str) -> float:
    """The metric of the mean prediction of several models."""
    return METRICS[name](as_outputs(values.mean(0), problem.task), problem.y[problem.splits["test"]])


def spread_of(values: Float[Tensor, "models graphs outputs"]) -> Float[Tensor, "graphs outputs"]:
    """The standard deviation over models; NaN for a single model."""
    return values.std(0) if len(values) > 1 else torch.full_like(values[0], math.nan)
