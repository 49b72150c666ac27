"""Networks over the integers modulo a prime p, with random weights and 1/x as activation. They are exact, without rounding.

The functions 1/(x + b) of b are linearly independent for different x. With a random bias b, the sum over a multiset therefore identifies
the multiset, except with a probability of about its size over p, independently in each channel. Polynomials of low degree do not have
this property: x^2 depends on two power sums only. 0 is mapped to 0.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from reign.theory._algebra import Algebra, Key, Values
from reign.theory._hashing import mix, salt

PRIME = 2**31 - 1
WIDTH = 2


class Field(Algebra):
    """The algebra of networks over the integers modulo ``PRIME``, with ``WIDTH`` channels everywhere.

    Args:
        seed: seed of the random weights.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def embed(self, labels: Int[Tensor, "rows"], *key: object) -> Values:
        """A random vector for each distinct label."""
        return torch.stack([mix(labels + salt(self.seed, c, *key)) % PRIME for c in range(WIDTH)], dim=1)

    def linear(self, key: Key, *parts: Values) -> Values:
        """The sum of random linear maps of the parts, plus a bias."""
        weight = self._weights(key, len(parts) + 1)
        out = weight[-1, 0].expand(parts[0].size(0), WIDTH)
        for matrix, part in zip(weight, parts, strict=False):
            for c in range(WIDTH):
                out = (out + part[:, c, None] % PRIME * matrix[c]) % PRIME
        return out

    def mlp(self, key: Key, *parts: Values) -> Values:
        """Linear, activation, linear."""
        return self.linear((*key, "second"), self.act(key, self.linear(key, *parts)))

    def act(self, key: Key, x: Values) -> Values:
        """1/x."""
        return inverse(x)

    def scale(self, key: Key, x: Values) -> Values:
        """Multiply by a random number."""
        return x % PRIME * self._weights((*key, "scale"), 1)[0, 0, 0] % PRIME

    def gate(self, key: Key, x: Values, labels: Int[Tensor, "rows"]) -> Values:
        """Multiply by a random vector for each label."""
        return x % PRIME * self.embed(labels, *key, "gate") % PRIME

    def divide(self, total: Values, count: Int[Tensor, "rows 1"]) -> Values:
        """A sum times the inverse of its count."""
        return total % PRIME * inverse(count) % PRIME

    def multiply(self, x: Values, y: Values) -> Values:
        """The product of two values, channel by channel."""
        return x % PRIME * (y % PRIME) % PRIME

    def product(self, x: Int[Tensor, "n n width"], y: Int[Tensor, "n n width"]) -> Int[Tensor, "n n width"]:
        """A matrix product in every channel. One factor is split in two, so that sums stay below 2^63."""
        a, b = (x % PRIME).movedim(-1, 0), (y % PRIME).movedim(-1, 0)
        high = (a >> 16) @ b % PRIME * 2**16
        return ((high + (a & 0xFFFF) @ b) % PRIME).movedim(0, -1)

    def _weights(self, key: Key, number: int) -> Int[Tensor, "parts width width"]:
        rng = torch.Generator().manual_seed(salt(self.seed, *key) & 2**62 - 1)
        return torch.randint(1, PRIME, (number, WIDTH, WIDTH), generator=rng)


def inverse(x: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """1/x modulo ``PRIME`` for all entries at once, and 0 for 0. A tree of products needs three products per entry.

    >>> inverse(torch.tensor([0, 1, 2, 7])) * torch.tensor([0, 1, 2, 7]) % PRIME
    tensor([0, 1, 1, 1])
    """
    flat = x.reshape(-1) % PRIME
    zero = flat == 0
    levels = [flat + zero.long()]
    while levels[-1].numel() > 1:
        last = levels[-1] if levels[-1].numel() % 2 == 0 else torch.cat([levels[-1], levels[-1].new_ones(1)])
        levels[-1] = last
        levels.append(last[::2] * last[1::2] % PRIME)
    if not flat.numel():
        return x
    found = torch.tensor([pow(int(levels.pop()), -1, PRIME)])
    while levels:
        pairs = levels.pop().view(-1, 2)
        found = (found[: pairs.size(0), None] * pairs.flip(1) % PRIME).flatten()
    return (found[: flat.numel()] * ~zero).view(x.shape)
