"""All models by name."""

from difflib import get_close_matches
from typing import Any

from reign.nn import models as nn
from reign.nn._model import Model
from reign.nn._subgraph_gnn import SubgraphGNN

MODELS: dict[str, type[Model]] = {
    kind.__name__.lower(): kind
    for kind in (
        nn.SUN,
        nn.ReIGN2,
        nn.DS,
        nn.DSS,
        nn.ReconstructionGNN,
        nn.NGNN,
        nn.IDGNN,
        nn.GNNAK,
        nn.GNNAKctx,
        nn.GNNAKPlus,
        nn.SSWL,
        nn.IGN2,
        nn.PPGN,
        nn.MPNN,
        SubgraphGNN,
    )
}


def list_models() -> list[str]:
    """The names that ``build_model`` takes.

    >>> list_models()[:4]
    ['sun', 'reign2', 'ds', 'dss']
    """
    return list(MODELS)


def find_model(name: str) -> type[Model]:
    """A model by name, in any usual spelling.

    >>> find_model("GNN-AK+").__name__
    'GNNAKPlus'
    """
    plain = name.lower().replace("-", "").replace("_", "").replace("(2)", "2").replace("+", "plus")
    if plain not in MODELS:
        near = get_close_matches(plain, list_models(), n=2)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
        raise ValueError(f"unknown model '{name}'{hint} Known: {', '.join(map(repr, MODELS))}.")
    return MODELS[plain]


def build_model(name: str, *args: Any, **kwargs: Any) -> Model:
    """A model by name; all other arguments are its own.

    >>> build_model("dss", 16, 64, 4, 1, policy="nm")
    DSS(16 -> 64 x 4 -> 1, policy='nm', terms=['own+local', 'needle+needle_msg'])
    """
    return find_model(name)(*args, **kwargs)
