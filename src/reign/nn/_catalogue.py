"""All models by name."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reign.registry import Registry

if TYPE_CHECKING:
    from reign.nn._model import Model


MODELS: Registry[type["Model"]] = Registry("model", hint="; a model of your own must be registered first")


def list_models() -> list[str]:
    """List the names that ``build_model`` takes: the general model first, then those of the paper and the baselines.

    >>> list_models()[:4]
    ['subgraphgnn', 'sun', 'reign2', 'ds']
    """
    return MODELS.names()


def find_model(name: str) -> "type[Model]":
    """Find a model class by name. Case and punctuation do not matter.

    >>> find_model("GNN-AK+").__name__
    'GNNAKPlus'
    """
    return MODELS[name]


def build_model(name: str, *args: Any, **kwargs: Any) -> "Model":
    """Make a model by name.

    Args:
        name: name of the model; case and punctuation do not matter.
        args, kwargs: arguments of its constructor.

    >>> build_model("dss", 16, 64, 4, 1, policy="nm")
    DSS(16 -> 64 x 4 -> 1, policy='nm', terms=['own+local', 'needle+needle_msg'])
    """
    return find_model(name)(*args, **kwargs)


@dataclass(frozen=True)
class ModelSummary:
    """A model in one line.

    Args:
        name: its name.
        policy: name of its default policy.
        about: the first paragraph of its docstring.
    """

    name: str
    policy: str
    about: str


def model_summaries() -> list[ModelSummary]:
    """A one-line summary of every model in ``list_models``.

    >>> model_summaries()[3]
    ModelSummary(name='ds', policy='ego+:3', about='DS-GNN: message passing in every subgraph, then a set network over the subgraphs.')
    """
    summaries = []
    for name, kind in MODELS.items():
        about = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
        summaries.append(ModelSummary(name, str(build_model(name, 8, 8, 2, 1).policy), about))
    return summaries
