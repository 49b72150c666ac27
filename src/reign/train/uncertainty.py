"""The uncertainty of predictions: the spread of several models, the spread under dropout, or a variance that the model predicts."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reign.data import GraphPack, Ids
from reign.train.engine.callbacks import Callback
from reign.train.settings.losses import as_values
from reign.train.trained_model import TrainedModel

METHODS = ("ensemble", "dropout", "mve")
WHY_NOT = {
    "ensemble": "A single model has no spread. Train several models with --ensemble-size 5, or give several runs by repeating --model-paths.",
    "dropout": "The model has no dropout. Train it with --dropout 0.1.",
    "mve": "The model predicts no variance. Train it with --loss-function mve.",
}
PASSES = 10  # number of passes of each model with dropout


@dataclass(frozen=True, eq=False)
class Forecast:
    """Predictions (probabilities for classes), with a standard deviation of each if there is a method of uncertainty.

    Args:
        values: the mean over models.
        unsure: the deviations, not calibrated; None without a method.
    """

    values: Float[Tensor, "graphs outputs"]
    unsure: Float[Tensor, "graphs outputs"] | None


def methods_of(models: Sequence[TrainedModel]) -> list[str]:
    """The methods that some models support: "mve" if they were trained with this loss, "ensemble" if there are several, "dropout" if
    they have dropout.

    The first one is the default, except "dropout", which takes ten times as long and is used only on request.
    """
    can = {
        "mve": all(model.gives_variance for model in models),
        "ensemble": len(models) > 1,
        "dropout": all(has_dropout(model.model) for model in models),
    }
    return [method for method, possible in can.items() if possible]


def has_dropout(model: nn.Module) -> bool:
    """Whether a model has dropout."""
    return any(isinstance(module, nn.Dropout) and module.p > 0 for module in model.modules())


def forecast(
    models: Sequence[TrainedModel],
    graphs: GraphPack,
    ids: Ids,
    task: str,
    method: str | None,
    callback: Callback,
    failed: dict[int, str] | None = None,
) -> Forecast:
    r"""The mean over models, and its standard deviation by a method.

    With M models that give means and variances, the variance of the mixture is

    .. math:: \sigma^2 = \frac{1}{M} \sum_m \sigma_m^2 + \frac{1}{M} \sum_m (\mu_m - \bar\mu)^2

    Args:
        models: the models.
        graphs: all graphs.
        ids: the graphs to predict for.
        task: the task, as in ``Problem``.
        method: one of ``METHODS``; None for no deviation.
        callback: receives an event after every batch.
        failed: dictionary that receives the graphs that are too large for the memory, with the reasons. Without it, such graphs raise an error.
    """
    found = [model.moments(graphs, ids, callback, failed) for model in models]  # some may have variances, and others not
    width = models[0].num_outputs
    each = as_values(torch.stack([moments[:, :width] for moments in found]), task)
    values = each.mean(0)
    if method == "ensemble":
        return Forecast(values, each.std(0))
    if method == "mve":
        variances = torch.stack([moments[:, width:] for moments in found])
        return Forecast(values, (variances.mean(0) + each.var(0, correction=0)).sqrt())
    if method == "dropout":
        passes = [
            as_values(model.moments(graphs, ids, callback, failed, dropped=draw)[:, :width], task)
            for model in models
            for draw in range(PASSES)
        ]
        return Forecast(values, torch.stack(passes).std(0))
    return Forecast(values, None)
