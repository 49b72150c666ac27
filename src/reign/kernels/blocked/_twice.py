"""Gradients that are to be differentiated again: they are computed once more, by plain operations."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def differentiably(
    plain: Callable[..., Sequence[Tensor | None]], inputs: Sequence[Tensor | None], given: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """The gradients of the inputs of a plain function, as results of operations that autograd records.

    Args:
        plain: the function.
        inputs: its inputs; None and what needs no gradient get none.
        given: the gradients of its results.
    """
    views = [x if x is None or not x.requires_grad else x.view_as(x) for x in inputs]  # one may have been computed from another
    results = plain(*views)
    pairs = [(y, g) for y, g in zip(results, given, strict=True) if y is not None and g is not None and y.requires_grad]
    wanted = [v for v in views if v is not None and v.requires_grad]
    if not pairs or not wanted:
        return [None] * len(inputs)
    found = iter(torch.autograd.grad([y for y, _ in pairs], wanted, [g for _, g in pairs], create_graph=True, allow_unused=True))
    return [None if v is None or not v.requires_grad else next(found) for v in views]
