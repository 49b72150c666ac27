"""Networks over the integers modulo a prime, with random weights and 1/x as activation: exact, without digits to lose.

Sums of 1/(x + b) with different x are linearly independent as functions of b, so a random bias b makes the sum over a multiset tell
which multiset it was, but for a chance of about its size over p, in each of the channels independently. Polynomials of low degree
do not: x^2 sees two power sums only. 1/x maps 0 to 0.
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
        seed: of the random weights.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def embed(self, labels: Int[Tensor, "rows"], *key: object) -> Values:
        """A random vector for each different label."""
        return torch.stack([mix(labels + salt(self.seed, c, *key)) % PRIME for c in range(WIDTH)], dim=1)

    def linear(self, key: Key, *parts: Values) -> Values:
        """The sum of random linear maps of the parts, and a bias."""
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
        """Times a random number."""
        return x % PRIME * self._weights((*key, "scale"), 1)[0, 0, 0] % PRIME

    def gate(self, key: Key, x: Values, labels: Int[Tensor, "rows"]) -> Values:
        """Times a random vector for each label."""
        return x % PRIME * self.embed(labels, *key, "gate") % PRIME

    def divide(self, total: Values, count: Int[Tensor, "rows 1"]) -> Values:
        """A sum times the inverse of its count."""
        return total % PRIME * inverse(count) % PRIME

    def multiply(self, x: Values, y: Values) -> Values:
        """The product of two values, channel by channel."""
        return x % PRIME * (y % PRIME) % PRIME

    def product(self, x: Int[Tensor, "n n width"], y: Int[Tensor, "n n width"]) -> Int[Tensor, "n n width"]:
        """A matrix product in every channel; one factor is split in two, so that sums stay below 2^63."""
        a, b = (x % PRIME).movedim(-1, 0), (y % PRIME).movedim(-1, 0)
        high = (a >> 16) @ b % PRIME * 2**16
        return ((high + (a & 0xFFFF) @ b) % PRIME).movedim(0, -1)

    def _weights(self, key: Key, number: int) -> Int[Tensor, "parts width width"]:
        rng = torch.Generator().manual_seed(salt(self.seed, *key) & 2**62 - 1)
        return torch.randint(1, PRIME, (number, WIDTH, WIDTH), generator=rng)


def inverse(x: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """1/x modulo ``PRIME`` for all entries at once, and 0 for 0: three products an entry, by a tree of products.

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
