"""The weights of labels in training: weights of rows, and weights that balance classes."""

import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import Problem


def label_weights(problem: Problem, class_balance: bool) -> Float[Tensor, "graphs targets"] | None:
    r"""A weight for each label, with mean 1 over the training labels; None if all weights are equal.

    .. math:: w_{gt} \propto r_g \, / \, \textstyle\sum_{h : y_{ht} = y_{gt}} r_h

    The denominator is the total weight of the training labels of the same target and class; it is used only with ``class_balance``.

    Args:
        problem: the problem, which holds the weights r of rows, if there are any.
        class_balance: whether the classes of a target have equal total weights. It cannot be used for regression.
    """
    if class_balance and problem.task == "regression":
        raise ValueError("class_balance is for classification and multiclass, but the task is regression; leave it out.")
    if problem.weights is None and not class_balance:
        return None
    y, train = problem.y, problem.splits["train"]
    rows = torch.ones(len(problem.graphs), dtype=torch.float64) if problem.weights is None else problem.weights
    weights = rows[:, None].expand(y.shape).clone()
    if class_balance:
        for t in range(y.size(1)):
            for label in y[train, t][~y[train, t].isnan()].unique():
                same = y[:, t] == label
                total = weights[train, t][same[train]].sum()
                weights[same, t] /= total if total > 0 else 1.0
    there = ~y[train].isnan()
    mean = weights[train][there].mean()
    if not mean > 0:
        raise ValueError(f"the weights of all training rows of {problem.name} are 0, expected some above 0.")
    return weights / mean
