"""Evaluate the models of a run, one by one and as an ensemble."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import Ids, Problem
from reign.disk import read_record
from reign.train.engine.callbacks import Callback
from reign.train.inputs import descriptors_like
from reign.train.prediction_plan import Plan
from reign.train.reliability import measure_uncertainty
from reign.train.runs.build import make_problem
from reign.train.runs.run import ModelFiles
from reign.train.settings.losses import as_outputs, as_values, choose
from reign.train.settings.metrics import METRICS, measure_all

if TYPE_CHECKING:
    from reign.train.predictor import Predictor


def evaluate_split(
    predictor: "Predictor", split: str, metrics: Sequence[str] | None, plan: Plan, callback: Callback
) -> dict[str, Any]:
    """The metrics and the quality of uncertainties on a split of the data of the run. See ``Predictor.evaluate``."""
    names = _metrics(predictor, metrics)
    if not ModelFiles(predictor.models[0].folder).splits.is_file():
        raise ValueError(f"{predictor.paths[0]} is an exported model, which has no splits; evaluate on a table with -i FILE.")
    problem, _ = make_problem(predictor.recipe.data, callback=callback, known_targets=predictor.targets)
    if problem.graphs.fingerprint() != predictor.fingerprint:
        raise ValueError(f"the data of {problem.name} have changed since the run was trained; evaluate on a table with -i FILE.")
    ids = [split_of(model.folder, split, problem) for model in predictor.models]
    outs = [
        model.outputs(problem.graphs, own, callback, rows=problem.names) for model, own in zip(predictor.models, ids, strict=True)
    ]
    return {
        "split": split,
        **measure_models(names, problem, outs, ids),
        **measure_uncertainty(predictor, problem, ids, plan, callback),
    }


def evaluate_table(
    predictor: "Predictor",
    path: str | Path,
    metrics: Sequence[str] | None,
    plan: Plan,
    callback: Callback,
    descriptors_path: str | Path | None = None,
) -> dict[str, Any]:
    """The metrics and the quality of uncertainties on all rows of a table. See ``Predictor.evaluate_file``."""
    names = _metrics(predictor, metrics)
    predictor.need_smiles("leave -i out.")
    from reign.data.molecules import load_table

    problem, report = load_table(
        path,
        predictor.recipe.data.smiles_columns,
        predictor.targets,
        predictor.task,
        "none",
        classes=predictor.classes,
        descriptors=descriptors_like(predictor.recipe.data, descriptors_path),
        progress=callback.track,
        stereo=predictor.recipe.data.stereo_of_graphs,
    )
    callback.table(report)
    failed: dict[int, str] = {}
    outs = predictor.outputs(problem.graphs, callback=callback, failed=failed)
    assert problem.names is not None
    report.leave_out({int(problem.names[g]): reason for g, reason in failed.items()})
    ids = torch.tensor([g for g in range(len(problem.graphs)) if g not in failed], dtype=torch.long)
    if not ids.numel():
        row, reason = next(iter(report.left_out.items()))
        raise ValueError(f"{path} has no row that can be evaluated; row {row}: {reason}.")
    every = [ids] * len(predictor.models)
    measured = measure_models(names, problem, list(outs[:, ids]), every) | measure_uncertainty(
        predictor, problem, every, plan, callback
    )
    return {"split": Path(path).name, **measured, "rows": report.rows, "left_out": report.left_out}


def _metrics(predictor: "Predictor", given: Sequence[str] | None) -> list[str]:
    """Metrics by their names, each of which must suit the task; those of the training if none are given."""
    names = list(given) if given else [predictor.metric, *predictor.recipe.train.metrics]
    known = [str(METRICS.name_of(METRICS[name])) for name in names]
    return list(dict.fromkeys(choose(METRICS, name, predictor.task) for name in known))


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
    metrics: Sequence[str], problem: Problem, outs: Sequence[Float[Tensor, "_ outputs"]], ids: Sequence[Ids]
) -> dict[str, Any]:
    """The first metric of each model on its own graphs, that of their mean if all have the same graphs, and ``all_metrics``.

    Args:
        metrics: names of metrics.
        problem: has the labels.
        outs: the outputs of each model.
        ids: the graphs of these outputs, for each model.
    """
    measure = METRICS[metrics[0]]
    values = [measure(out, problem.y[own]) for out, own in zip(outs, ids, strict=True)]
    result: dict[str, Any] = {"metric": metrics[0], "models": values, "targets": problem.targets}
    result["all_metrics"] = [measure_all(metrics, out, problem.y[own], problem.targets) for out, own in zip(outs, ids, strict=True)]
    if all(torch.equal(own, ids[0]) for own in ids):
        mean = as_values(torch.stack(list(outs)), problem.task).mean(0)
        result["ensemble"] = measure(as_outputs(mean, problem.task), problem.y[ids[0]])
        result["ensemble_metrics"] = measure_all(metrics, as_outputs(mean, problem.task), problem.y[ids[0]], problem.targets)
    return result
