"""What a bag keeps in memory: index maps and sums that are made when they are first asked for, and then stay.

A ``Keeper`` keeps what is made through its method ``keep``, and ``@kept`` turns a method into a property that does so.
Values are made outside of inference mode, so that what was first asked for in inference mode can still be trained on. Copies
and pickles hold the same values; an object with other fields (``dataclasses.replace``, ``bag.to(device)``) makes its own.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Keeper:
    """An object that keeps what it made.

    >>> keeper = Keeper()
    >>> keeper.keep("answer", lambda: 6 * 7), keeper.keep("answer", lambda: 1 / 0)
    (42, 42)
    """

    _kept: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)
    _sealed: list[bool] = field(default_factory=list, init=False, repr=False)

    def keep(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value that was made under this key before; if there is none, it is made now."""
        if key not in self._kept:
            if self._sealed:
                raise RuntimeError(f"{key} was not made ready for a bag of fixed sizes")
            with torch.inference_mode(False):
                self._kept[key] = make()
        return cast(T, self._kept[key])

    def seal(self) -> None:
        """From here on nothing new is kept: what is kept changes in place, and what would be made now would not."""
        self._sealed.append(True)


def kept(method: Callable[[Any], T]) -> T:
    """A property whose value is made once, and kept under the full name of the method."""
    key = method.__qualname__

    def get(self: Any) -> T:
        return self.keep(key, lambda: method(self))

    return cast(T, property(get, doc=method.__doc__))


@dataclass(frozen=True, eq=False)
class Bound:
    """A kept number that no graph of a bag exceeds; that of several bags is the largest of theirs."""

    value: int

    def spaces(self, name: str) -> dict[str, tuple[str, str | None, bool]]:
        """It belongs to no rows."""
        return {}


@dataclass(frozen=True, eq=False)
class PerRow:
    """Kept values of which there is one for each node, subgraph ("sub"), pair or graph of a bag."""

    values: Tensor
    rows: str

    def spaces(self, name: str) -> dict[str, tuple[str, str | None, bool]]:
        """What the values belong to; they point to nothing."""
        return {"values": (self.rows, None, False)}
