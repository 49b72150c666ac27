"""Evaluate the models of a run, one by one and as an ensemble."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import Ids, Problem
from reign.disk import read_record
from reign.train.metrics import METRICS, measure_all
from reign.train.tasks import as_outputs, as_values


def split_of(member: Path, split: str, problem: Problem) -> Ids:
    """The ids of the graphs in a split when the model was trained. The folder of the model stores their names."""
    saved = read_record(member / "splits.json")
    if split not in saved:
        raise ValueError(f"the run has no split '{split}'; it has {', '.join(saved) or 'none'}.")
    names: Sequence[Any] = range(len(problem.graphs)) if problem.names is None else problem.names
    place = {name: i for i, name in enumerate(names)}
    found = saved[split] if isinstance(saved[split], list) else [None]
    if wrong := [name for name in found if not isinstance(name, int | str) or isinstance(name, bool) or name not in place]:
        raise ValueError(
            f"{member / 'splits.json'} is damaged ({split} has the graph {wrong[0]!r}, which is not in {problem.name})."
        )
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
