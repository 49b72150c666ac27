"""reign: subgraph graph neural networks in PyTorch.

A subgraph GNN is (A, X) -> (mu . rho . S . pi)(A, X): a policy pi selects a bag of subgraphs, equivariant layers S update it,
rho pools it, and mu predicts.

Submodules and names are imported when they are first used: ``reign.nn``, ``reign.policies``, ``reign.data``, ``reign.theory``, ...
"""

from importlib import import_module

from reign._version import __version__

TYPE_CHECKING = False  # stands in for typing.TYPE_CHECKING, because importing typing is slow
if TYPE_CHECKING:
    from typing import Any

    from reign import (
        bags,
        data,
        draw,
        experiments,
        explain,
        interop,
        lightning,
        nn,
        plots,
        policies,
        sklearn,
        testing,
        theory,
        train,
        transforms,
    )
    from reign._load import load
    from reign._validate import validate
    from reign.bags import SubgraphBag
    from reign.nn import build_model, list_models, list_terms
    from reign.policies import list_policies, policy
    from reign.theory import card

_MODULES = (
    "bags", "data", "draw", "experiments", "explain", "interop", "lightning", "nn", "plots", "policies", "sklearn", "testing",
    "theory", "train", "transforms",
)  # fmt: skip
_NAMES = {
    "SubgraphBag": "bags",
    "build_model": "nn",
    "card": "theory",
    "list_models": "nn",
    "list_policies": "policies",
    "list_terms": "nn",
    "load": "_load",
    "policy": "policies",
    "validate": "_validate",
}


def __getattr__(name: str) -> "Any":
    """Import a submodule, or a name from its submodule, on first use."""
    if name in _MODULES:
        return import_module(f"reign.{name}")
    if name in _NAMES:
        return getattr(import_module(f"reign.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'reign' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "SubgraphBag", "__version__", "bags", "build_model", "card", "data", "draw", "experiments", "explain", "interop",
    "lightning", "list_models", "list_policies", "list_terms", "load", "nn", "plots", "policies", "policy", "sklearn",
    "testing", "theory", "train", "transforms", "validate",
]  # fmt: skip
