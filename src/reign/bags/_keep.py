"""Properties that are computed once, also for later: what was first asked for in inference mode can still be trained on."""

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, TypeVar

import torch

T = TypeVar("T")


class kept(cached_property[T]):
    """A cached property whose value is made outside of inference mode."""

    def __init__(self, build: Callable[[Any], T]) -> None:
        super().__init__(lasting(build))


def lasting(build: Callable[..., T]) -> Callable[..., T]:
    """A function that runs outside of inference mode."""

    @wraps(build)
    def outside(*args: Any, **kwargs: Any) -> T:
        with torch.inference_mode(False):
            return build(*args, **kwargs)

    return outside
