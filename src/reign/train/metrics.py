"""Losses and metrics; a target that is NaN is missing and counts nowhere."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

# metric: is more better?
METRICS = {"mae": False, "rmse": False, "log10_mse": False, "accuracy": True, "roc_auc": True, "average_precision": True}
# what each task can be learned and measured with, the usual first
LOSSES_OF_TASK = {"regression": ["mse", "l1"], "classification": ["bce"], "multiclass": ["cross_entropy"]}
METRICS_OF_TASK = {
    "regression": ["rmse", "mae", "log10_mse"],
    "classification": ["roc_auc", "average_precision", "accuracy"],
    "multiclass": ["accuracy"],
}


def choose(what: str, given: str | None, of_task: dict[str, list[str]], task: str) -> str:
    """A loss or metric that suits a task: the given one, or the usual one."""
    if given is not None and given not in of_task[task]:
        raise ValueError(f"train.{what} is '{given}', and the task is {task}; expected {' or '.join(of_task[task])}.")
    return given or of_task[task][0]


def loss_sum(name: str, out: Tensor, y: Tensor) -> Tensor:
    """The sum of a loss over all labels that are there, so that parts of a batch can be added up."""
    if name == "cross_entropy":
        y = y.squeeze(1)
    there = ~y.isnan()
    known = torch.where(there, y, torch.zeros_like(y))
    if name == "cross_entropy":
        each = F.cross_entropy(out, known.long(), reduction="none")
    else:
        of: dict[str, Callable[..., Tensor]] = {"l1": F.l1_loss, "mse": F.mse_loss, "bce": F.binary_cross_entropy_with_logits}
        each = of[name](out, known.to(out.dtype), reduction="none")
    return torch.where(there, each, torch.zeros_like(each)).sum()


def metric(name: str, out: Tensor, y: Tensor) -> float:
    """A metric of predictions (logits for classes); NaN where it means nothing, as the ROC-AUC of one class.

    Several targets: errors and accuracy are means over all labels, ROC-AUC and average precision means over targets.

    >>> metric("mae", torch.tensor([[1.0], [2.0]]), torch.tensor([[1.5], [float("nan")]]))
    0.5
    """
    out, y = out.detach().double().cpu(), y.double().cpu()
    if name in ("roc_auc", "average_precision"):
        return _ranking(name, out, y)
    if name == "accuracy":
        right = (out.argmax(1, keepdim=True) == y) if out.size(1) > 1 and y.size(1) == 1 else ((out > 0) == (y > 0.5))
        there = ~y.isnan()
        return float(right[there].double().mean()) if bool(there.any()) else float("nan")
    error = (out - y)[~y.isnan()]
    if error.numel() == 0:
        return float("nan")
    if name == "mae":
        return float(error.abs().mean())
    mean_square = error.square().mean()
    return float(mean_square.sqrt() if name == "rmse" else mean_square.log10())


def _ranking(name: str, out: Tensor, y: Tensor) -> float:
    from sklearn.metrics import average_precision_score, roc_auc_score

    score = roc_auc_score if name == "roc_auc" else average_precision_score
    values = []
    for t in range(y.size(1)):
        there = ~y[:, t].isnan()
        labels = y[there, t]
        if labels.unique().numel() == 2 and bool(out[there, t].isfinite().all()):
            values.append(float(score(labels.numpy(), out[there, t].numpy())))
    return sum(values) / len(values) if values else float("nan")


def better(name: str, one: float, other: float | None) -> bool:
    """Is one value of a metric better than another? NaN is never better, and any number is better than none or NaN."""
    if one != one:
        return False
    if other is None or other != other:
        return True
    return one > other if METRICS[name] else one < other
