"""Predictions of several models as named columns: mean, spread, and probabilities of classes."""

from typing import Any

from jaxtyping import Float
from torch import Tensor

from reign.train.results import spread_of
from reign.train.tasks import as_values


def column_names(targets: list[str], classes: list[str], several: bool) -> list[str]:
    """The names of the columns: ``<target>_pred``, ``<target>_unc`` with several models, and ``<target>_prob_<class>`` for classes.

    >>> column_names(["logS"], [], several=True), column_names(["kind"], ["a", "b"], several=False)
    (['logS_pred', 'logS_unc'], ['kind_pred', 'kind_prob_a', 'kind_prob_b'])
    """
    kinds = ("pred", "unc") if several else ("pred",)
    names = [f"{target}_{kind}" for target in targets for kind in kinds]
    return names + [f"{targets[0]}_prob_{name}" for name in classes]


def prediction_columns(
    outs: Float[Tensor, "models graphs outputs"], task: str, targets: list[str], classes: list[str]
) -> dict[str, list[Any]]:
    """The columns by name, each with a value for every graph."""
    values = as_values(outs, task)
    mean, spread = values.mean(0), spread_of(values)
    if task == "multiclass":
        best = mean.argmax(1)
        columns = [[classes[int(c)] for c in best], spread.gather(1, best[:, None]).squeeze(1).tolist()]
    else:
        columns = [column for t in range(len(targets)) for column in (mean[:, t].tolist(), spread[:, t].tolist())]
    several = len(values) > 1
    found = [*(columns if several else columns[::2]), *(mean[:, c].tolist() for c in range(len(classes)))]
    return dict(zip(column_names(targets, classes, several), found, strict=True))
