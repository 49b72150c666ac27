"""Networks on rows of integers, which are exact: as colours (``Hashing``), or over a finite field (``Field``).

Colours are 64-bit numbers, and a multiset of colours is the sum of their random images, modulo 2^64. Two different multisets have the same
sum with a probability of about 10^-19 per comparison (slightly more if multiplicities differ by a multiple of a power of two). Equal
multisets always have the same sum, so different sums prove a difference.

Over the integers modulo a prime p, networks have random weights and 1/x as activation. The functions 1/(x + b) of b are linearly independent
for different x. With a random bias b, the sum over a multiset therefore identifies the multiset, except with a probability of about its size
over p, independently in each channel. Polynomials of low degree do not have this property: x^2 depends on two power sums only. 0 is mapped to 0.
"""

import zlib

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch_geometric.data import Data

Key = tuple[object, ...]  # the place of an operation in a network, which determines its random weights
Values = Int[Tensor, "rows width"]


# -- colours ------------------------------------------------------------------------------------------------------------------


def mix(x: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """A bijection of 64-bit integers that scatters them (the finaliser of SplitMix64, arithmetic modulo 2^64)."""
    x = x + -7046029254386353131
    x = (x ^ ((x >> 30) & (2**34 - 1))) * -4658895280553007687
    x = (x ^ ((x >> 27) & (2**37 - 1))) * -7723592293110705685
    return x ^ ((x >> 31) & (2**33 - 1))


def salt(*key: object) -> int:
    """A 64-bit number for each key, the same in every process."""
    return int(mix(torch.tensor(zlib.crc32(repr(key).encode()))))


def rows(x: Float[Tensor, "rows channels"]) -> Int[Tensor, "rows"]:
    """A hash of the exact values of each row of features."""
    bits = (x.double() + 0.0).contiguous().view(torch.long)  # + 0.0 makes -0.0 the same number as 0.0
    return mix(sum((mix(bits[:, c] + 7919 * c) for c in range(bits.size(1))), torch.zeros(x.size(0), dtype=torch.long)))


def features(data: Data) -> Float[Tensor, "nodes channels"]:
    """The features of a graph; zeros if it has none."""
    return torch.zeros(data.num_nodes, 1, dtype=torch.float64) if data.x is None else data.x.double()


def partition(values: Int[Tensor, "rows width"]) -> int:
    """A hash of the partition into rows with equal values, independent of the values."""
    inverse = values[:, 0].unique(return_inverse=True)[1]
    place = torch.arange(inverse.numel())
    first = torch.full_like(place, inverse.numel()).scatter_reduce_(0, inverse, place, "amin")
    return int(mix(mix(first[inverse]) + place).sum())


class Hashing:
    """The algebra of colour tests: every function of a network is a random hash function, so only sums lose information.

    A colour is itself a random image, so a term of a layer applied to colours is the hash of the multiset it sums.
    """

    def embed(self, labels: Int[Tensor, "rows"], *key: object) -> Int[Tensor, "rows 1"]:
        """A colour for each distinct label."""
        return mix(labels + salt(*key))[:, None]

    def linear(self, key: Key, *parts: Int[Tensor, "rows 1"]) -> Int[Tensor, "rows 1"]:
        """A hash of several values, one from each part: the sum of random functions of them."""
        return sum((mix(part + salt(*key, p)) for p, part in enumerate(parts)), torch.zeros_like(parts[0]))

    mlp = linear

    def act(self, key: Key, x: Int[Tensor, "rows 1"]) -> Int[Tensor, "rows 1"]:
        """A random function."""
        return mix(x + salt(*key))

    def scale(self, key: Key, x: Int[Tensor, "rows 1"]) -> Int[Tensor, "rows 1"]:
        """Multiply by a random odd number, which is invertible."""
        return x * (salt(*key) | 1)

    def gate(self, key: Key, x: Int[Tensor, "rows 1"], labels: Int[Tensor, "rows"]) -> Int[Tensor, "rows 1"]:
        """Hash values together with their labels, before they are summed."""
        return mix(x + mix(labels + salt(*key))[:, None])

    def divide(self, total: Int[Tensor, "rows 1"], count: Int[Tensor, "rows 1"]) -> Int[Tensor, "rows 1"]:
        """Proportions: sums divided by counts. All are multiplied by the largest power of two that divides a count, which has no inverse."""
        power = count & -count  # the largest power of two that divides it
        odd = count // power
        inverse = odd  # correct to 3 bits; each Newton step doubles their number
        for _ in range(5):
            inverse = inverse * (2 - odd * inverse)
        return total * inverse * (power.max() // power if power.numel() else power)

    def multiply(self, x: Int[Tensor, "rows 1"], y: Int[Tensor, "rows 1"]) -> Int[Tensor, "rows 1"]:
        """A hash of two values, before they are summed; as of a product, their order makes no difference."""
        return mix(mix(x) + mix(y))

    def product(self, x: Int[Tensor, "n n 1"], y: Int[Tensor, "n n 1"]) -> Int[Tensor, "n n 1"]:
        """For each (k, i) the multiset over j of the pairs (x[k, j], y[j, i])."""
        return mix(mix(x)[:, :, None] + mix(y + 1)[None]).sum(1)


# -- numbers modulo a prime ---------------------------------------------------------------------------------------------------

PRIME = 2**31 - 1
WIDTH = 2


class Field:
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


Algebra = Hashing | Field  # the operations of networks over integers


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
