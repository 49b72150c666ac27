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
    """A model to test.

    Args:
        name: its name in tables.
        make: function that makes the model for a number of features and an activation.
        depth: number of layers.
        layers: the number of layers in its name; None if the name does not give it.
    """

    name: str
    make: Callable[[int, Any], Model]
    depth: int
    layers: int | None = None


def parse_method(name: str) -> tuple[str, str | None, int | None]:
    """Split a name into the model, its policy and its number of layers.

    >>> parse_method("sun:ego+:2/4")
    ('sun', 'ego+:2', 4)
    """
    rest, _, layers = name.partition("/")
    model, _, policy = rest.partition(":")
    if layers and not layers.isdecimal():
        raise ValueError(f"'{name}' ends in '/{layers}', expected a number of layers, as in 'sun:nm/4'.")
    return model, policy or None, int(layers) if layers else None


def find_method(method: str | Model, layers: int = LAYERS, **options: Any) -> Method:
    """Make a method from a name or a model. The name is checked at once; the model is made when the number of features is known.

    Args:
        method: a name such as "sun:nm/4", or a model, whose weights do not matter.
        layers: number of layers, if the name does not give it.
        options: additional arguments of a model given by name.
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
