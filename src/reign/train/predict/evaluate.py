"""Evaluate models with labels: their metrics, one by one and as an ensemble, and the quality of their uncertainties."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import Ids, Problem
from reign.disk import read_record
from reign.train.engine.callbacks import Callback
from reign.train.predict.calibration import Interval
from reign.train.predict.ensemble import CALIBRATIONS, ForecastPlan, TrainedEnsemble, forecast
from reign.train.runs.build import make_problem
from reign.train.runs.run import ModelFiles
from reign.train.settings.losses import as_outputs, as_values, choose
from reign.train.settings.metrics import METRICS, measure_all

BINS = 10
ROUNDING = 1 + 1e-5  # a label exactly on the bound of an interval is inside it
LEVELS = [level / 20 for level in range(1, 20)]
Column = Float[Tensor, "graphs"]
Outputs = Float[Tensor, "models graphs outputs"]


class Quality(TypedDict, total=False):
    """The quality of the uncertainties of a target: that of intervals (level, coverage, width), or of probabilities (brier, confidence)."""

    labels: int
    level: float
    coverage: float
    width: float
    calibration_error: float
    brier: float
    confidence: float


class Evaluation(TypedDict, total=False):
    """The metrics of models on a split or a table, and the quality of their uncertainties.

    Args:
        split: the split, or the name of the table.
        metric, models, targets: the main metric, its value for each model, and the targets.
        all_metrics: all metrics of each model, with a value for each target.
        ensemble, ensemble_metrics: the same for the mean prediction of models and partners, if all models have the same graphs.
        uncertainty: the quality of uncertainties by target and method, where there are any.
        rows, left_out: of a table, the number of its rows, and those that could not be used, with the reasons.
    """

    split: str
    metric: str
    models: list[float]
    targets: list[str]
    all_metrics: list[dict[str, list[float]]]
    ensemble: float
    ensemble_metrics: dict[str, list[float]]
    uncertainty: dict[str, dict[str, Quality]]
    rows: int
    left_out: dict[int, str]


def evaluate_split(
    ensemble: TrainedEnsemble, split: str, metrics: Sequence[str] | None, plan: ForecastPlan, callback: Callback
) -> Evaluation:
    """The metrics and the quality of uncertainties on a split of the data of the run. See ``Predictor.evaluate``."""
    names = _metrics(ensemble, metrics)
    if not ModelFiles(ensemble.models[0].folder).splits.is_file():
        raise ValueError(f"{ensemble.paths[0]} is an exported model, which has no splits; evaluate on a table with -i FILE.")
    problem, _ = make_problem(ensemble.recipe.data, callback=callback, known_targets=ensemble.targets)
    if problem.graphs.fingerprint() != ensemble.fingerprint:
        raise ValueError(f"the data of {problem.name} have changed since the run was trained; evaluate on a table with -i FILE.")
    ids = [split_of(model.folder, split, problem) for model in ensemble.models]
    outs = [
        model.outputs(problem.graphs, own, callback, rows=problem.names) for model, own in zip(ensemble.models, ids, strict=True)
    ]
    beside = _beside(ensemble, problem, ids, callback)
    return {
        "split": split,
        **measure_models(names, problem, outs, ids, beside),
        **measure_uncertainty(ensemble, problem, ids, plan, callback, beside),
    }


def evaluate_table(
    ensemble: TrainedEnsemble,
    path: str | Path,
    metrics: Sequence[str] | None,
    plan: ForecastPlan,
    callback: Callback,
    descriptors_path: str | Path | None = None,
) -> Evaluation:
    """The metrics and the quality of uncertainties on all rows of a table. See ``Predictor.evaluate_file``."""
    names = _metrics(ensemble, metrics)
    ensemble.need_smiles("leave -i out.")
    from reign.data.molecules import load_table

    problem, report = load_table(
        path,
        ensemble.recipe.data.smiles_columns,
        ensemble.targets,
        ensemble.task,
        "none",
        classes=ensemble.classes,
        descriptors=ensemble.recipe.data.descriptors_like(descriptors_path),
        progress=callback.track,
        stereo=ensemble.recipe.data.stereo_of_graphs,
    )
    callback.table(report)
    failed: dict[int, str] = {}
    outs = ensemble.outputs(problem.graphs, callback=callback, failed=failed)
    assert problem.names is not None
    too_large = {int(problem.names[g]): reason for g, reason in failed.items()}
    report.leave_out(too_large)
    ids = torch.tensor([g for g in range(len(problem.graphs)) if g not in failed], dtype=torch.long)
    if not ids.numel():
        row, reason = next(iter(report.left_out.items()))
        raise ValueError(f"{path} has no row that can be evaluated; row {row}: {reason}.")
    if too_large:  # which the report did not have yet
        total = f" (in total, {len(too_large):,} rows are too large)" if len(too_large) > 1 else ""
        callback.note(f"row {min(too_large)} left out: {too_large[min(too_large)]}{total}")
    every = [ids] * len(ensemble.models)
    beside = _beside(ensemble, problem, every, callback)
    measured = measure_models(names, problem, list(outs[:, ids]), every, beside) | measure_uncertainty(
        ensemble, problem, every, plan, callback, beside
    )
    return {"split": Path(path).name, **measured, "rows": report.rows, "left_out": report.left_out}


def _beside(ensemble: TrainedEnsemble, problem: Problem, ids: Sequence[Ids], callback: Callback) -> Outputs | None:
    """The predictions of the partners for the graphs of all models, NaN for others; None without partners."""
    chosen = torch.cat(list(ids)).unique()
    texts = [[column[g] for g in chosen.tolist()] for column in problem.texts.values()]
    if (found := ensemble.beside(problem.graphs.select(chosen), texts, callback)) is None:
        return None
    out = found.new_full((len(found), len(problem.graphs), found.size(2)), torch.nan)
    out[:, chosen] = found
    return out


def _metrics(ensemble: TrainedEnsemble, given: Sequence[str] | None) -> list[str]:
    """Metrics by their names, each of which must suit the task; those of the training if none are given."""
    names = list(given) if given else [ensemble.metric, *ensemble.recipe.train.metrics]
    known = [str(METRICS.name_of(METRICS[name])) for name in names]
    return list(dict.fromkeys(choose(METRICS, name, ensemble.task) for name in known))


def split_of(member: Path, split: str, problem: Problem) -> Ids:
    """The ids of the graphs in a split when the model was trained. The folder of the model stores their names."""
    file = ModelFiles(member).splits
    saved = read_record(file)
    if split not in saved:
        raise ValueError(f"the run has no split '{split}'; it has {', '.join(saved) or 'none'}. Choose one of them with --split.")
    names: Sequence[Any] = range(len(problem.graphs)) if problem.names is None else problem.names
    place = {name: i for i, name in enumerate(names)}
    found = saved[split] if isinstance(saved[split], list) else [None]
    if wrong := [name for name in found if not isinstance(name, int | str) or isinstance(name, bool) or name not in place]:
        raise ValueError(f"{file} is damaged ({split} has the graph {wrong[0]!r}, which is not in {problem.name}).")
    return torch.tensor([place[name] for name in found], dtype=torch.long)


def measure_models(
    metrics: Sequence[str],
    problem: Problem,
    outs: Sequence[Float[Tensor, "_ outputs"]],
    ids: Sequence[Ids],
    beside: Outputs | None = None,
) -> Evaluation:
    """The first metric of each model on its own graphs, that of their mean if all have the same graphs, and ``all_metrics``.

    Args:
        metrics: names of metrics.
        problem: has the labels.
        outs: the outputs of each model.
        ids: the graphs of these outputs, for each model.
        beside: the predictions of partners for all graphs, see ``TrainedEnsemble.beside``.
    """
    measure = METRICS[metrics[0]]
    values = [measure(out, problem.y[own]) for out, own in zip(outs, ids, strict=True)]
    result: Evaluation = {"metric": metrics[0], "models": values, "targets": problem.targets}
    result["all_metrics"] = [measure_all(metrics, out, problem.y[own], problem.targets) for out, own in zip(outs, ids, strict=True)]
    if all(torch.equal(own, ids[0]) for own in ids):
        each = as_values(torch.stack(list(outs)), problem.task)
        mean = (each if beside is None else torch.cat([each, beside[:, ids[0]].to(each)])).mean(0)
        result["ensemble"] = measure(as_outputs(mean, problem.task), problem.y[ids[0]])
        result["ensemble_metrics"] = measure_all(metrics, as_outputs(mean, problem.task), problem.y[ids[0]], problem.targets)
    return result


def interval_quality(interval: Interval, y: Column, mean: Column, unsure: Column, alpha: float) -> Quality | None:
    """The share of labels inside their interval (coverage), the mean width, and the calibration error; None without labels.

    The calibration error is the mean over levels 5 %, ..., 95 % of the difference between level and coverage.
    """
    there = ~y.isnan() & mean.isfinite()
    if not bool(there.any()):
        return None
    deviation = interval.deviation(unsure[there])
    scores = (y - mean)[there].abs() / deviation
    levels = [level for level in LEVELS if level <= interval.labels / (interval.labels + 1)]
    gaps = [abs(float((scores <= ROUNDING * interval.factor(1 - level)).double().mean()) - level) for level in levels]
    return {
        "labels": int(there.sum()),
        "level": 1 - alpha,
        "coverage": float((scores <= ROUNDING * interval.factor(alpha)).double().mean()),
        "width": 2 * interval.factor(alpha) * float(deviation.mean()),
        "calibration_error": sum(gaps) / len(gaps),
    }


def class_quality(y: Column, p: Float[Tensor, "graphs classes"]) -> Quality | None:
    r"""The expected calibration error, the Brier score and the mean confidence of probabilities; None without labels.

    .. math:: \text{ECE} = \sum_b \frac{|b|}{n} | \text{accuracy}(b) - \text{confidence}(b) |

    over ten bins of the probability of the most likely class. One column of probabilities stands for two classes.
    """
    there = ~y.isnan()
    if not bool(there.any()):
        return None
    every = torch.cat([1 - p, p], dim=1)[there] if p.size(1) == 1 else p[there]
    labels = y[there].long()
    confidence, guess = every.max(1)
    right = (guess == labels).double()
    bins = (confidence * BINS).long().clamp(max=BINS - 1)
    parts = [bins == b for b in range(BINS)]
    error = sum(float(part.double().mean() * (right[part].mean() - confidence[part].mean()).abs()) for part in parts if part.any())
    hits = torch.nn.functional.one_hot(labels, every.size(1)).double()
    return {
        "labels": int(there.sum()),
        "calibration_error": error,
        "brier": float((every - hits).square().sum(1).mean()),
        "confidence": float(confidence.mean()),
    }


def measure_uncertainty(
    ensemble: TrainedEnsemble,
    problem: Problem,
    ids: Sequence[Ids],
    plan: ForecastPlan,
    callback: Callback,
    beside: Outputs | None = None,
) -> Evaluation:
    """The quality of the uncertainties by target and method; empty without uncertainties, or if the models have different graphs."""
    if not all(torch.equal(own, ids[0]) for own in ids) or (ensemble.task == "regression" and not plan.intervals):
        return {}
    found = forecast(ensemble.models, problem.graphs, ids[0], ensemble.task, plan.method, callback, beside=beside)
    y, worth = problem.y[ids[0]], dict[str, dict[str, Quality]]()
    for t, target in enumerate(ensemble.targets):
        if target in plan.intervals and found.unsure is not None:
            how = plan.method or ""
            quality = interval_quality(plan.intervals[target], y[:, t], found.values[:, t], found.unsure[:, t], plan.alpha)
            worth[target] = {how: quality} if quality is not None else {}
        elif ensemble.task != "regression":
            worth[target] = {}
            for how in CALIBRATIONS:
                if how != "none" and target not in getattr(ensemble.calibration, how):
                    continue
                p = ensemble.calibration.probabilities(found.values, ensemble.task, ensemble.targets, how)
                quality = class_quality(y[:, t], p if ensemble.task == "multiclass" else p[:, t, None])
                if quality is not None:
                    worth[target]["not calibrated" if how == "none" else how] = quality
    return {"uncertainty": worth}


def describe_quality(found: Quality) -> str:
    """The quality in one line."""
    if "coverage" in found:
        return (
            f"intervals of level {found['level']:.4g} cover {found['coverage']:.1%} of {found['labels']:,} labels, mean width {found['width']:.4g}, "
            f"calibration error {found['calibration_error']:.3f}"
        )
    return (
        f"calibration error {found['calibration_error']:.3f}, Brier score {found['brier']:.3f}, mean confidence {found['confidence']:.3f}, "
        f"{found['labels']:,} labels"
    )
