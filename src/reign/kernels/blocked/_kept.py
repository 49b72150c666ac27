"""What follows from the index maps of a batch alone is kept with them, for all layers and for the way back."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch

T = TypeVar("T")


def kept(owner: Any, key: Hashable, make: Callable[[], T]) -> T:
    """A value that belongs to some index maps, made on first use, and outside inference mode, so that training can use it, too.

    Several threads may make it at the same time; one of the equal values stays.
    """
    values: dict[Hashable, T] = vars(owner).setdefault("_kept", {})
    if key not in values:
        with torch.inference_mode(False):
            values[key] = make()
    return values[key]
