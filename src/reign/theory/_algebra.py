"""The operations that are needed to evaluate a network exactly, on rows of integers."""

from abc import ABC, abstractmethod

from jaxtyping import Int
from torch import Tensor

Key = tuple[object, ...]  # the place of an operation in a network, which determines its random weights
Values = Int[Tensor, "rows width"]


class Algebra(ABC):
    """The operations of networks over integers: colours (``Hashing``), or numbers modulo a prime (``Field``)."""

    @abstractmethod
    def embed(self, labels: Int[Tensor, "rows"], *key: object) -> Values:
        """A random vector for each distinct label."""

    @abstractmethod
    def linear(self, key: Key, *parts: Values) -> Values:
        """The sum of random linear maps of the parts, plus a bias."""

    @abstractmethod
    def mlp(self, key: Key, *parts: Values) -> Values:
        """As ``linear``, followed by an activation and another linear map."""

    @abstractmethod
    def act(self, key: Key, x: Values) -> Values:
        """The activation."""

    @abstractmethod
    def scale(self, key: Key, x: Values) -> Values:
        """Multiply by a random number."""

    @abstractmethod
    def gate(self, key: Key, x: Values, labels: Int[Tensor, "rows"]) -> Values:
        """Multiply by a random vector for each label."""

    @abstractmethod
    def divide(self, total: Values, count: Int[Tensor, "rows 1"]) -> Values:
        """Turn a sum into a mean."""

    @abstractmethod
    def multiply(self, x: Values, y: Values) -> Values:
        """The product of two values, channel by channel."""

    @abstractmethod
    def product(self, x: Int[Tensor, "n n width"], y: Int[Tensor, "n n width"]) -> Int[Tensor, "n n width"]:
        """The sum over j of x[k, j] y[j, i]."""
