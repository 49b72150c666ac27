"""The cache of a bag: index maps and sums that are computed on first use and then stored.

A ``Cached`` stores the values that are computed through its method ``cache``, and ``@cached`` turns a method into a cached property.
Values are computed outside inference mode, so that they can be used in training even if they were first needed in inference mode. Copies
and pickles hold the same values; an object with other fields (``dataclasses.replace``, ``bag.to(device)``) computes its own.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Cached:
    """An object with a cache.

    >>> thing = Cached()
    >>> thing.cache("answer", lambda: 6 * 7), thing.cache("answer", lambda: 1 / 0)
    (42, 42)
    """

    _cache: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)
    _sealed: list[bool] = field(default_factory=list, init=False, repr=False)

    def cache(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value stored under this key; if there is none, it is computed and stored."""
        if key not in self._cache:
            if self._sealed:
                raise RuntimeError(f"{key} was not prepared for a bag of fixed sizes")
            with torch.inference_mode(False):
                self._cache[key] = make()
        return cast(T, self._cache[key])

    def seal(self) -> None:
        """Forbid new values from now on. Stored values are updated in place, but new ones would not be."""
        self._sealed.append(True)


def cached(method: Callable[[Any], T]) -> T:
    """A property whose value is computed once, and stored under the full name of the method."""
    key = method.__qualname__

    def get(self: Any) -> T:
        return self.cache(key, lambda: method(self))

    return cast(T, property(get, doc=method.__doc__))


@dataclass(frozen=True, eq=False)
class Bound:
    """A stored upper bound of something in the graphs of a bag; for several bags together, the largest of their bounds applies."""

    value: int

    def spaces(self, name: str) -> dict[str, tuple[str, str | None, bool]]:
        """A bound has no rows."""
        return {}


@dataclass(frozen=True, eq=False)
class PerRow:
    """Stored values with one row for each node, subgraph ("sub"), pair or graph of a bag."""

    values: Tensor
    rows: str

    def spaces(self, name: str) -> dict[str, tuple[str, str | None, bool]]:
        """The space of the rows. The values are not indices."""
        return {"values": (self.rows, None, False)}
