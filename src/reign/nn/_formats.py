"""The format of saved models and runs, and what earlier formats meant.

A saved model or run holds only the options that its user gave. All others are defaults, so a file whose format is older than a change of a
default has to be read with the default of its time. Formats: 1 (files without a number), up to commit 8599632; and 2, in which models by
name are the formulas of the paper.
"""

import inspect
from collections.abc import Mapping
from typing import Any

from reign.nn._catalogue import MODELS

FORMAT = 2

_BLOCKS = {
    "combine": "linear",
    "aggregation": "mean",
    "end_norm": True,
    "end_act": True,
    "graph_pooling": "mean",
    "domain": "members",
}
OLD_DEFAULTS: dict[str, dict[str, Any]] = {  # of format 1: model -> option -> default
    "GNNAK": _BLOCKS,
    "GNNAKctx": _BLOCKS,
    "NGNN": {"readout": "mean", "graph_pooling": "mean"},
    "IDGNN": {"graph_pooling": "mean"},
}
OLD_VALUES = {"GNNAK": {"combine": {"cat": "linear"}}}  # of format 1: model -> option -> value -> its name today


def read_format(found: object, source: object) -> int:
    """The format of a file; ``ValueError`` if it is not one that this version reads."""
    if type(found) is not int or not 1 <= found <= FORMAT:
        raise ValueError(
            f"{source} has the format {found!r:.80}, expected a number up to {FORMAT}; a newer one needs a newer version of reign."
        )
    return found


def todays_options(model: str, options: Mapping[str, Any], format: int) -> dict[str, Any]:
    """The options of a model in a file as this version reads them: with defaults that have changed since spelled out.

    >>> todays_options("ngnn", {"outer_layers": 2}, 1)
    {'outer_layers': 2, 'readout': 'mean', 'graph_pooling': 'mean'}
    >>> todays_options("ngnn", {"outer_layers": 2}, 2)
    {'outer_layers': 2}
    """
    found = dict(options)
    if format >= 2 or model not in MODELS:
        return found
    parents = MODELS[model].__mro__
    for name, values in OLD_VALUES.items():
        if MODELS[name] in parents:
            found |= {option: new[found[option]] for option, new in values.items() if found.get(option) in new}
    for name, defaults in OLD_DEFAULTS.items():
        if MODELS[name] in parents:  # a class of a user has the same defaults, unless it declares its own
            own = {option for kind in parents[: parents.index(MODELS[name])] for option in _declared(kind)}
            found |= {option: default for option, default in defaults.items() if found.get(option) is None and option not in own}
    return found


def _declared(kind: type) -> list[str]:
    constructor = vars(kind).get("__init__")
    return [] if constructor is None else list(inspect.signature(constructor).parameters)
