"""All models by name."""

from typing import Any

from reign.nn._model import MODELS, Model


def list_models() -> list[str]:
    """List the names that ``build_model`` takes: the general model first, then those of the paper and the baselines.

    >>> list_models()[:4]
    ['subgraphgnn', 'sun', 'reign2', 'ds']
    """
    return MODELS.names()


def find_model(name: str) -> type[Model]:
    """Find a model class by name, in any usual spelling.

    >>> find_model("GNN-AK+").__name__
    'GNNAKPlus'
    """
    return MODELS[name]


def build_model(name: str, *args: Any, **kwargs: Any) -> Model:
    """Make a model by name.

    Args:
        name: name of the model, in any usual spelling.
        args, kwargs: arguments of its constructor.

    >>> build_model("dss", 16, 64, 4, 1, policy="nm")
    DSS(16 -> 64 x 4 -> 1, policy='nm', terms=['own+local', 'needle+needle_msg'])
    """
    return find_model(name)(*args, **kwargs)
