"""The linear equivariant maps between tensors, as pooling and broadcasting over orbits.

An orbit of [n]^k under permutations is an equality pattern of k indices, written with letters: "aab" are the entries (i, i, j)
with i != j. Every linear equivariant map is a combination of maps that read one orbit, sum over some of its indices (Pool), and
copy the result to another orbit (Broad). For example, ``"acc->abb"`` sums x[a, c, c] over c != a and writes the sum to [a, b, b]. Their
number for orders k and l is the number of partitions of a set of k + l elements, the Bell number: 2, 5, 15, 52, 203 for k + l = 2, ..., 6.
"""

from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import combinations, permutations

import torch
from jaxtyping import Float
from torch import Tensor

LETTERS = "abcdefghij"  # as many as the largest sum of two orders: a map of the basis may need a letter for each index


@cache
def orbits(order: int) -> tuple[str, ...]:
    """The equality patterns of ``order`` indices, as letters in the order of first appearance.

    >>> orbits(2)
    ('aa', 'ab')
    >>> orbits(3)
    ('aaa', 'aab', 'aba', 'abb', 'abc')
    """
    _check_orders(order)
    found = [""]
    for _ in range(order):
        found = [p + letter for p in found for letter in LETTERS[: len(set(p)) + 1]]
    return tuple(sorted(found))


@cache
def basis(order_in: int, order_out: int) -> tuple[str, ...]:
    """All pooling-broadcasting maps between tensors of two orders, as strings "source->target".

    >>> basis(1, 1)
    ('b->a', 'a->a')
    >>> [len(basis(k, l)) for k, l in ((3, 3), (3, 4), (4, 4))]
    [203, 877, 4140]
    """
    _check_orders(order_in, order_out)
    maps = []
    for target in orbits(order_out):
        for source in orbits(order_in):
            for relabelled in _relabelled(source, sorted(set(target))):
                maps.append(f"{relabelled}->{target}")
    return tuple(maps)


def _check_orders(*orders: int) -> None:
    """Raise ``ValueError`` unless the orders are whole numbers from 0, with a sum that there are letters for."""
    if any(type(order) is not int or order < 0 for order in orders) or sum(orders) > len(LETTERS):
        raise ValueError(
            f"orders are {' and '.join(str(order) for order in orders)}, expected whole numbers from 0 whose sum is at most {len(LETTERS)}, "
            "for which there are already 115,975 maps."
        )


def _relabelled(source: str, targets: list[str]) -> Iterator[str]:
    """Every way to identify some letters of a source orbit with letters of the target. The others get new letters."""
    letters = sorted(set(source))
    fresh = [c for c in LETTERS if c not in targets]
    for number in range(min(len(letters), len(targets)) + 1):
        for kept in combinations(letters, number):
            for images in permutations(targets, number):
                names = dict(zip(kept, images, strict=True))
                names |= dict(zip([c for c in letters if c not in kept], fresh, strict=False))
                yield "".join(names[c] for c in source)


def pool_broadcast(x: Float[Tensor, "*nodes channels"], op: str) -> Float[Tensor, "*targets channels"]:
    """Apply one map of the basis to a tensor of shape (n, ..., n, channels).

    >>> x = torch.arange(9.0).view(3, 3, 1)
    >>> pool_broadcast(x, "ab->a").flatten()          # sums over the row, without the diagonal
    tensor([ 3.,  8., 13.])
    """
    source, target = op.split("->")
    n, channels = x.size(0) if x.dim() > 1 else 0, x.size(-1)
    letters = sorted(set(source))
    values = torch.einsum(f"{source}z->{''.join(letters)}z", x) if source else x
    values = values * _distinct(len(letters), n, x.dtype)
    kept = [c for c in letters if c in target]
    if len(kept) < len(letters):
        values = torch.einsum(f"{''.join(letters)}z->{''.join(kept)}z", values)
    free = sorted(set(target))
    if not free:
        return values
    n = n or _size_of(x)
    shape = [n if c in kept else 1 for c in free]
    values = values.view([*shape, channels]).expand([n] * len(free) + [channels]) * _distinct(len(free), n, x.dtype)
    out = x.new_zeros([n] * len(target) + [channels])
    index = torch.meshgrid(*[torch.arange(n)] * len(free), indexing="ij")
    out[tuple(index[free.index(c)] for c in target)] = values
    return out


def _size_of(x: Tensor) -> int:
    raise ValueError("a map from order 0 needs the number of nodes; start from a tensor of at least order 1.")


@lru_cache(maxsize=32)
def _distinct(number: int, n: int, dtype: torch.dtype) -> Tensor:
    """1 where all indices are different."""
    mask = torch.ones([n] * number + [1], dtype=dtype)
    for a, b in combinations(range(number), 2):
        shape = [n if d in (a, b) else 1 for d in range(number)]
        mask = mask * (1 - torch.eye(n, dtype=dtype)).view([*shape, 1])
    return mask
