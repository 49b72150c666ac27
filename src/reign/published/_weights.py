"""Map the arrays of the authors' code to our weights, and check that their settings have a counterpart here."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

Config = Mapping[str, Any]


class Weights:
    """Our weights by name, taken from the authors' arrays.

    Args:
        theirs: the authors' arrays by name.
    """

    def __init__(self, theirs: dict[str, Tensor]) -> None:
        self.theirs, self.ours, self.used = theirs, dict[str, Tensor](), set[str]()
        self.sources = dict[str, str]()

    def __contains__(self, name: str) -> bool:
        return name in self.theirs

    def get(self, name: str) -> Tensor:
        """One of their arrays, which is then marked as used."""
        if name not in self.theirs:
            raise ValueError(f"params lack the array {name!r}; got {len(self.theirs)} arrays.")
        self.used.add(name)
        return self.theirs[name]

    def put(self, here: str, there: str, change: Callable[[Tensor], Tensor] = lambda value: value) -> None:
        """Set our weight ``here`` to their array ``there``, after applying ``change``."""
        self.ours[here], self.sources[here] = change(self.get(there)), there

    def linear(self, here: str, there: str) -> None:
        """A linear map, or a convolution of size 1."""
        self.put(f"{here}.weight", f"{there}.weight", lambda value: value.flatten(1))
        if f"{there}.bias" in self:
            self.put(f"{here}.bias", f"{there}.bias")

    def norm(self, here: str, there: str) -> None:
        """A batch norm."""
        for part in ("weight", "bias", "running_mean", "running_var"):
            self.put(f"{here}.{part}", f"{there}.{part}")

    def mlp(self, here: str, lin1: str, norm: str | None, lin2: str) -> None:
        """One of our MLPs."""
        self.linear(f"{here}.lin1", lin1)
        if norm is not None:
            self.norm(f"{here}.norm", norm)
        self.linear(f"{here}.lin2", lin2)

    def sequential(self, here: str, there: str) -> None:
        """One of our MLPs, from their linear map, norm, ReLU and linear map."""
        self.mlp(here, f"{there}.0", f"{there}.1", f"{there}.3")

    def rows(self, name: str) -> int:
        """The number of rows of one of their tables."""
        return self.get(name).size(0)


def allow(config: Mapping[str, Any], **allowed: tuple[Any, ...]) -> None:
    """Raise ``ValueError`` for settings that have no counterpart here. A setting that is not given has the first allowed value."""
    for name, values in allowed.items():
        key = name.replace("__", ".")
        if config.get(key, values[0]) not in values:
            raise ValueError(
                f"config has {key}={config[key]!r}, expected {' or '.join(map(repr, values))}; other values are not supported."
            )


def head(w: Weights, linears: list[str], norms: list[str] | None = None) -> None:
    """The layers of a head, and the norms of its hidden ones."""
    for place, there in enumerate(linears, 1):
        w.linear(f"head.lin{place}", there)
    for place, there in enumerate(norms or [], 1):
        w.norm(f"head.norm{place}", there)
