"""Models by short names: "sun:ego+:2/4" is SUN with the policy "ego+:2" and 4 layers."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reign.nn import Model, find_model

LAYERS = 6
HIDDEN, OUT = 16, 4


@dataclass(frozen=True)
class Method:
    """A model to try.

    Args:
        name: how it is shown.
        make: makes it for a number of features and an activation.
        depth: number of layers.
        layers: how many the name says, None if it says nothing.
    """

    name: str
    make: Callable[[int, Any], Model]
    depth: int
    layers: int | None = None


def parse_method(name: str) -> tuple[str, str | None, int | None]:
    """A model, its policy, its number of layers.

    >>> parse_method("sun:ego+:2/4")
    ('sun', 'ego+:2', 4)
    """
    rest, _, layers = name.partition("/")
    model, _, policy = rest.partition(":")
    if layers and not layers.isdecimal():
        raise ValueError(f"'{name}' ends in '/{layers}', expected a number of layers, as in 'sun:nm/4'.")
    return model, policy or None, int(layers) if layers else None


def find_method(method: str | Model, layers: int = LAYERS, **options: Any) -> Method:
    """A method of a name, or of a model: the name is checked now, the model is made when the number of features is known.

    Args:
        method: a name, as "sun:nm/4", or a model, of which the architecture is taken.
        layers: number of layers, if the name does not say.
        options: further arguments of a model given by name.
    """
    if isinstance(method, Model):
        return Method(repr(method), lambda _, __: copy.deepcopy(method), method.num_layers)
    kind, policy, own = parse_method(method)
    found = find_model(kind)
    depth = layers if own is None else own
    given = {"norm": None, **found.for_separation(depth), **options}
    if policy is not None:
        given["policy"] = policy

    def make(channels: int, act: Any = "silu") -> Model:
        return found(channels, HIDDEN, out_channels=OUT, act=act, **given)

    make(1)
    return Method(method, make, depth, own)
