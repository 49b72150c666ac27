"""Colours as 64-bit numbers: a multiset of colours is the sum of their random images, modulo 2^64.

Two different multisets have the same sum with a probability of about 10^-19 per comparison (slightly more if multiplicities
differ by a multiple of a power of two). Equal multisets always have the same sum, so different sums prove a difference.
"""

import zlib

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch_geometric.data import Data

from reign.theory._algebra import Algebra, Key


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


class Hashing(Algebra):
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
