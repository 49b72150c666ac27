r"""Structural features of pairs of nodes and of nodes: functions of A that do not depend on the order of nodes.

Random walks go along the edges: :math:`M = D^{-1} A`, where :math:`A_{uv}` counts the edges from u to v; nodes without an edge have a row of
zeros. All other features ignore the direction of edges.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from reign.bags import FAR, SubgraphBag, hop_table, node_values, pair_values
from reign.registry import Registry

Matrices = Float[Tensor, "graphs n n"]
Values = Float[Tensor, "rows channels"]
SAME = 1e-6  # eigenvalues that differ by less count as equal


@dataclass(frozen=True)
class Structure:
    """A structural feature of pairs or nodes.

    Args:
        meaning: a short description.
        channels: function that returns the number of channels for a given size.
        values: function that returns the values for a bag and a size.
        default: the default size; None if the feature has no size.
    """

    meaning: str
    channels: Callable[[int], int]
    values: Callable[[SubgraphBag, int], Values]
    default: int | None = None


OF_PAIRS: Registry[Structure] = Registry("encoding of pairs", spelling=str)
OF_NODES: Registry[Structure] = Registry("encoding of nodes", spelling=str)


def parse(name: str, known: Registry[Structure]) -> tuple[Structure, int]:
    """Split a name into a structural feature and its size.

    >>> parse("rrwp:8", OF_PAIRS)[1], parse("rrwp", OF_PAIRS)[1], parse("common", OF_PAIRS)[1]
    (8, 21, 1)
    """
    kind, _, size = name.partition(":") if isinstance(name, str) else (name, "", "")
    found = known[kind]
    if not size:
        return found, found.default or 1
    if found.default is None:
        raise ValueError(f"'{name}' has a size, expected '{kind}', which takes no size.")
    if not size.isdecimal() or not 1 <= int(size) <= 1000:
        raise ValueError(f"'{name}' ends in ':{size}', expected a number from 1 to 1000, as in '{kind}:{found.default}'.")
    return found, int(size)


def walk_matrix(A: Matrices) -> Matrices:
    """The probabilities of one step of a random walk."""
    return A / A.sum(2, keepdim=True).clamp(min=1)


def walks(A: Matrices, size: int) -> Float[Tensor, "graphs n n size"]:
    """The powers of M, starting with the identity."""
    step = walk_matrix(A)
    found = [torch.eye(A.size(1), dtype=A.dtype, device=A.device).expand_as(A)]
    for _ in range(size - 1):
        found.append(found[-1] @ step)
    return torch.stack(found, dim=3)


def resistances(A: Matrices) -> Float[Tensor, "graphs n n 1"]:
    """The resistance distances of all pairs of nodes, where every edge has resistance 1; 0 if there is no path."""
    laplacian = torch.diag_embed(A.sum(2)) - A
    inverse = torch.linalg.pinv(laplacian, hermitian=True)
    own = inverse.diagonal(dim1=1, dim2=2)
    return ((own[:, :, None] + own[:, None] - 2 * inverse) * _reached(A))[..., None]


def _reached(A: Matrices) -> Matrices:
    """1 if there is a path from one node to the other, otherwise 0."""
    reached = (A + torch.eye(A.size(1), dtype=A.dtype, device=A.device)).clamp(max=1)
    for _ in range(max(A.size(1) - 1, 1).bit_length()):
        reached = (reached @ reached).clamp(max=1)
    return reached


def projectors(A: Matrices, size: int) -> Float[Tensor, "graphs n n size"]:
    r"""The projections onto the eigenspaces of :math:`I - D^{-1/2} A D^{-1/2}`, for the smallest distinct eigenvalues.

    The sign of an eigenvector is arbitrary, and so is the basis of an eigenspace. The projection :math:`\sum_v v v^T` is unique.
    """
    degree = A.sum(2)
    scale = torch.where(degree > 0, degree.clamp(min=1).rsqrt(), 0)
    values, vectors = torch.linalg.eigh(torch.diag_embed((degree > 0).to(A.dtype)) - scale[:, :, None] * A * scale[:, None])
    number = torch.nn.functional.pad((values.diff(dim=1) > SAME).cumsum(1), (1, 0))  # the index of the eigenspace of each vector
    found = [(vectors * (number == each)[:, None].to(A.dtype)) @ vectors.mT for each in range(size)]
    return torch.stack(found, dim=3)


def _hops(bag: SubgraphBag, size: int) -> Values:
    hops = hop_table(bag.graph, bag.root.unique()).at(bag.root[bag.sub], bag.node).long()
    level = hops.clamp(max=size).masked_fill(hops == FAR, size + 1)
    return (level[:, None] == torch.arange(size + 2, device=level.device)).double()


OF_PAIRS.register("hop")(
    Structure(
        "hop distance, one channel for each distance up to the given one, and one for unreachable nodes", lambda d: d + 2, _hops, 5
    )
)
OF_PAIRS.register("rrwp")(
    Structure(
        "probability that a random walk of 0, 1, 2, ... steps from the root ends at the node",
        lambda steps: steps,
        lambda bag, steps: pair_values(bag, steps, lambda A: walks(A, steps)),
        21,
    )
)
OF_PAIRS.register("resistance")(
    Structure(
        "resistance distance in the graph, 0 if there is no path",
        lambda _: 1,
        lambda bag, _: pair_values(bag, 1, resistances, both_ways=True),
    )
)
OF_PAIRS.register("common")(
    Structure(
        "number of common neighbours",
        lambda _: 1,
        lambda bag, _: pair_values(bag, 1, lambda A: (A @ A)[..., None], both_ways=True),
    )
)
OF_PAIRS.register("laplacian")(
    Structure(
        "entry of the projection onto each of the first eigenspaces of the Laplacian",
        lambda spaces: spaces,
        lambda bag, spaces: pair_values(bag, spaces, lambda A: projectors(A, spaces), both_ways=True),
        8,
    )
)
OF_NODES.register("return")(
    Structure(
        "probability that a random walk of 1, 2, ... steps ends where it started",
        lambda steps: steps,
        lambda bag, steps: node_values(bag, steps, lambda A: walks(A, steps + 1)[..., 1:].diagonal(dim1=1, dim2=2).mT),
        20,
    )
)
OF_NODES.register("laplacian")(
    Structure(
        "absolute value in each of the first eigenvectors of the Laplacian, or the length of the projection if these are not unique",
        lambda spaces: spaces,
        lambda bag, spaces: node_values(
            bag, spaces, lambda A: projectors(A, spaces).diagonal(dim1=1, dim2=2).mT.clamp(min=0).sqrt(), both_ways=True
        ),
        8,
    )
)
