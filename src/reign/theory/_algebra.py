"""What a network needs to be evaluated exactly: a handful of operations on rows of whole numbers."""

from abc import ABC, abstractmethod

from jaxtyping import Int
from torch import Tensor

Key = tuple[object, ...]  # where in a network an operation stands: its random choices depend on it
Values = Int[Tensor, "rows width"]


class Algebra(ABC):
    """What networks are made of, over whole numbers: colours (``Hashing``), or numbers modulo a prime (``Field``)."""

    @abstractmethod
    def embed(self, labels: Int[Tensor, "rows"], *key: object) -> Values:
        """A random vector for each different label."""

    @abstractmethod
    def linear(self, key: Key, *parts: Values) -> Values:
        """The sum of random linear maps of the parts, and a bias."""

    @abstractmethod
    def mlp(self, key: Key, *parts: Values) -> Values:
        """The same, an activation, and another linear map."""

    @abstractmethod
    def act(self, key: Key, x: Values) -> Values:
        """The activation."""

    @abstractmethod
    def scale(self, key: Key, x: Values) -> Values:
        """Times a random number."""

    @abstractmethod
    def gate(self, key: Key, x: Values, labels: Int[Tensor, "rows"]) -> Values:
        """Times a random vector for each label."""

    @abstractmethod
    def divide(self, total: Values, count: Int[Tensor, "rows 1"]) -> Values:
        """A sum as a mean."""

    @abstractmethod
    def multiply(self, x: Values, y: Values) -> Values:
        """The product of two values, channel by channel."""

    @abstractmethod
    def product(self, x: Int[Tensor, "n n width"], y: Int[Tensor, "n n width"]) -> Int[Tensor, "n n width"]:
        """The sum over j of x[k, j] y[j, i]."""
