"""Explanations of the predictions of a run."""

from dataclasses import dataclass

import torch
from torch_geometric.data import Data

from reign.explain._attribution import Attribution, Level, attribute, mean_of
from reign.train.predict.predictor import Predictor


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation of a prediction for a graph.

    Args:
        target: the target, or the class.
        prediction: the prediction of the run: a number, or the probability of a class.
        parts: the attribution, averaged over the models of the run; for classes, the attribution of the logit.
    """

    target: str
    prediction: float
    parts: Attribution


def explain(
    predictor: Predictor, data: Data, target: str | None = None, steps: int = 32, level: Level | None = None
) -> Explanation:
    """Explain the prediction of a run for a graph.

    Args:
        predictor: the run, as returned by ``reign.load``.
        data: the graph.
        target: the target, or the class of a multiclass run; the first target, or the predicted class, if not given.
        steps: number of points of the integral.
        level: the values x[k, i] to use, "input" or "output"; see ``attribute``.
    """
    names = predictor.classes or predictor.targets
    if target is not None and target not in names:
        raise ValueError(f"the run has no target '{target}'; it has {', '.join(names)}.")
    outs = predictor.outputs([data])[:, 0]
    best = int(outs.softmax(-1).mean(0).argmax()) if predictor.classes else 0
    index = best if target is None else names.index(target)
    found = []
    for trained in predictor.models:
        part = attribute(trained.model, data, index, steps, level)
        scale = trained.scale.deviation[index if trained.scale.deviation.numel() > 1 else 0].item()
        shift = trained.scale.mean[index if trained.scale.mean.numel() > 1 else 0].item()
        found.append(_scaled(part, scale, shift))
    return Explanation(names[index], _prediction(predictor.task, outs, index), mean_of(found))


def _scaled(part: Attribution, scale: float, shift: float) -> Attribution:
    """The same attribution in the units of the target."""
    return Attribution(
        part.output * scale + shift,
        part.nothing * scale + shift,
        part.pairs * scale,
        part.member,
        part.root,
        part.edge_index,
        part.edges * scale,
        part.subgraphs * scale,
    )


def _prediction(task: str, outs: torch.Tensor, index: int) -> float:
    if task == "multiclass":
        return float(outs.softmax(-1).mean(0)[index])
    return float((outs.sigmoid() if task == "classification" else outs).mean(0)[index])
