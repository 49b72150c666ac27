r"""Encodings of pairs and nodes: structure of the graph, and the position of a node in its subgraph, which are added to x[k, i].

All are functions of A that do not depend on the order of nodes. Random walks go along the edges: :math:`M = D^{-1} A`, where :math:`A_{uv}`
counts the edges from u to v; nodes without an edge have a row of zeros. All other features ignore the direction of edges.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from reign._validate import check
from reign.bags import FAR, PerRow, SubgraphBag, hop_table, node_values, pair_values
from reign.nn._encoders import lookup
from reign.nn._mlp import Resettable
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


PAIR_ENCODINGS: Registry[Structure] = Registry("encoding of pairs", spelling=str)
NODE_ENCODINGS: Registry[Structure] = Registry("encoding of nodes", spelling=str)


def parse(name: str, known: Registry[Structure]) -> tuple[Structure, int]:
    """Split a name into a structural feature and its size.

    >>> parse("rrwp:8", PAIR_ENCODINGS)[1], parse("rrwp", PAIR_ENCODINGS)[1], parse("common", PAIR_ENCODINGS)[1]
    (8, 21, 1)
    """
    kind, _, size = name.partition(":") if isinstance(name, str) else (name, "", "")
    entry = known[kind]
    if not size:
        return entry, entry.default or 1
    if entry.default is None:
        raise ValueError(f"'{name}' has a size, expected '{kind}', which takes no size.")
    if not size.isdecimal() or not 1 <= int(size) <= 1000:
        raise ValueError(f"'{name}' ends in ':{size}', expected a number from 1 to 1000, as in '{kind}:{entry.default}'.")
    return entry, int(size)


def walk_matrix(A: Matrices) -> Matrices:
    """The probabilities of one step of a random walk."""
    return A / A.sum(2, keepdim=True).clamp(min=1)


def walks(A: Matrices, size: int) -> Float[Tensor, "graphs n n size"]:
    """The powers of M, starting with the identity."""
    step = walk_matrix(A)
    powers = [torch.eye(A.size(1), dtype=A.dtype, device=A.device).expand_as(A)]
    for _ in range(size - 1):
        powers.append(powers[-1] @ step)
    return torch.stack(powers, dim=3)


def returns(A: Matrices, size: int) -> Float[Tensor, "graphs n size"]:
    """The diagonals of the powers of M, without the identity."""
    return walks(A, size + 1)[..., 1:].diagonal(dim1=1, dim2=2).mT


def resistances(A: Matrices, _: int = 1) -> Float[Tensor, "graphs n n 1"]:
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
    projections = [(vectors * (number == each)[:, None].to(A.dtype)) @ vectors.mT for each in range(size)]
    return torch.stack(projections, dim=3)


def closed_walks(A: Matrices, size: int) -> Float[Tensor, "graphs n size"]:
    """(A^s)_ii / s! for s = 1, ..., size: the summands of the subgraph centrality exp(A)_ii that depend on the node."""
    values, vectors = torch.linalg.eigh(A)
    steps = torch.arange(1, size + 1, dtype=A.dtype, device=A.device)
    return (vectors.square() @ (values[:, :, None].pow(steps) / (steps + 1).lgamma().exp())).clamp(min=0)


def _hops(bag: SubgraphBag, size: int) -> Values:
    hops = hop_table(bag.graph, bag.root.unique()).at(bag.root[bag.sub], bag.node).long()
    level = hops.clamp(max=size).masked_fill(hops == FAR, size + 1)
    return (level[:, None] == torch.arange(size + 2, device=level.device)).double()


def _register(
    known: Registry[Structure],
    of_matrices: Callable[..., Tensor],
    name: str,
    matrices: Callable[[Matrices, int], Tensor],
    meaning: str,
    default: int | None = None,
    both_ways: bool = False,
) -> None:
    """Register a feature that is a function of A, with as many channels as its size (one without a size)."""

    def values(bag: SubgraphBag, size: int) -> Values:
        return of_matrices(bag, size, lambda A: matrices(A, size), both_ways=both_ways)

    known.register(name)(Structure(meaning, lambda size: size, values, default))


_pairs, _nodes = partial(_register, PAIR_ENCODINGS, pair_values), partial(_register, NODE_ENCODINGS, node_values)

DISTANCES = "hop distance, one channel for each distance up to the given one, and one for unreachable nodes"
PAIR_ENCODINGS.register("hop")(Structure(DISTANCES, lambda d: d + 2, _hops, 5))
_pairs("rrwp", walks, "probability that a random walk of 0, 1, 2, ... steps from the root ends at the node", 21)
_pairs("resistance", resistances, "resistance distance in the graph, 0 if there is no path", both_ways=True)
_pairs("common", lambda A, _: (A @ A)[..., None], "number of common neighbours", both_ways=True)
_pairs("laplacian", projectors, "entry of the projection onto each of the first eigenspaces of the Laplacian", 8, both_ways=True)
_nodes("return", returns, "probability that a random walk of 1, 2, ... steps ends where it started", 20)
_nodes(
    "central",
    closed_walks,
    "number of closed walks of 1, 2, ... steps, each divided by the factorial of its steps; with 1 their sum is the subgraph centrality",
    20,
    both_ways=True,
)
_nodes(
    "laplacian",
    lambda A, spaces: projectors(A, spaces).diagonal(dim1=1, dim2=2).mT.clamp(min=0).sqrt(),
    "absolute value in each of the first eigenvectors of the Laplacian, or the length of the projection if these are not unique",
    8,
    both_ways=True,
)


class Encodings(Resettable):
    r"""Linear maps of encodings of the pair (k, i) and of the node i, which are added to x[k, i] or put in front of it.

    .. math:: x^k_i \leftarrow x^k_i + W p^k_i + V q_i

    The encodings are computed once for each bag, which caches them; in training, once for the data set.

    Args:
        widths: numbers of input channels of each layer.
        pairs: names of encodings of pairs, such as "rrwp:21"; see ``list_encodings``.
        nodes: names of encodings of nodes, such as "return:20".
        every_layer: whether they are added before every layer, with separate maps, or only before the first layer.
        channels: number of channels that are put in front of the values before the first layer; None: they are added to the values.
        roots: whether encodings of pairs have one more map at the pair of a root with itself, whose result is added. Maps of pairs then have no bias.
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        pairs: Sequence[str] = (),
        nodes: Sequence[str] = (),
        every_layer: bool = False,
        channels: int | None = None,
        roots: bool = False,
    ) -> None:
        super().__init__()
        for what, names in (("pairs", pairs), ("nodes", nodes)):
            valid = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
            check(f"encodings.{what}", names, valid, "a list of names, such as ['rrwp:21']; see reign.nn.list_encodings()")
        check("encodings", {"pairs": pairs, "nodes": nodes}, bool(pairs or nodes), "at least one encoding of pairs or nodes")
        check("encodings.every_layer", every_layer, isinstance(every_layer, bool), "True or False")
        valid = channels is None or (type(channels) is int and channels >= 1 and not every_layer)
        check("encodings.channels", channels, valid, "a whole number of at least 1 without every_layer, or None")
        valid = isinstance(roots, bool) and (bool(pairs) or not roots)
        check("encodings.roots", roots, valid, "True or False, and True only with encodings of pairs")
        self.pairs, self.nodes, self.every_layer, self.in_front = list(pairs), list(nodes), every_layer, channels is not None
        outs = list(widths) if every_layer else [channels or widths[0]]
        self.of_pairs = _maps(self.pairs, PAIR_ENCODINGS, outs, not roots)
        self.of_roots = _maps(self.pairs, PAIR_ENCODINGS, outs, False) if roots else None
        self.of_nodes = _maps(self.nodes, NODE_ENCODINGS, outs, not self.pairs)
        self.out_channels = widths[0] + (channels or 0)

    def forward(self, h: Float[Tensor, "pairs channels"], bag: SubgraphBag, layer: int = 0) -> Float[Tensor, "pairs out_channels"]:
        """Add the encodings to the input of a layer."""
        if layer and not self.every_layer:
            return h
        added: Tensor | None = None
        if self.pairs:
            values = encoded(bag, self.pairs, PAIR_ENCODINGS, "pair", h.dtype)
            added = self.of_pairs[layer](values)
            if self.of_roots is not None:
                rows = bag.wiring.root_row
                added = added.index_add(0, rows, self.of_roots[layer](values.index_select(0, rows)).to(added.dtype))
        if self.nodes:
            nodes = bag.wiring.to_node.t(self.of_nodes[layer](encoded(bag, self.nodes, NODE_ENCODINGS, "node", h.dtype)))
            added = nodes if added is None else added + nodes
        assert added is not None
        return torch.cat([added, h], dim=1) if self.in_front else h + added

    def extra_repr(self) -> str:
        """The names of the encodings."""
        return ", ".join([*self.pairs, *self.nodes]) + (", before every layer" if self.every_layer else "")


def encoded(
    bag: SubgraphBag, names: Sequence[str], known: Registry[Structure], rows: str, dtype: torch.dtype
) -> Float[Tensor, "rows channels"]:
    """The concatenated values of encodings, cached by the bag."""
    bag = bag.plain

    def make() -> PerRow:
        parts = [entry.values(bag, size) for entry, size in (parse(name, known) for name in names)]
        return PerRow(torch.cat(parts, dim=1).to(dtype), rows)

    return bag.cache(("encoding", rows, *names, str(dtype)), make).values


def _maps(names: Sequence[str], known: Registry[Structure], outs: Sequence[int], bias: bool) -> nn.ModuleList:
    width = sum(entry.channels(size) for entry, size in (parse(name, known) for name in names))
    return nn.ModuleList([nn.Linear(width, out, bias=bias) for out in outs] if names else [])


def list_encodings() -> dict[str, dict[str, str]]:
    """All encodings of pairs and of nodes, with their meanings.

    >>> list(list_encodings()["pairs"]), list(list_encodings()["nodes"])
    (['hop', 'rrwp', 'resistance', 'common', 'laplacian'], ['return', 'central', 'laplacian'])
    """
    known: dict[str, Registry[Any]] = {"pairs": PAIR_ENCODINGS, "nodes": NODE_ENCODINGS}
    return {what: {name: entry.meaning for name, entry in registry.items()} for what, registry in known.items()}


LabelKind = Literal["hop", "spd"] | None


class PairLabels(Resettable):
    """A vector for the label of every pair (k, i), added to its values, or put in front of them.

    With ``kind="hop"`` the label is the hop distance d from the root k to node i, and its vector E[d]. With ``kind="spd"`` there are two
    labels, whose vectors are summed: d + 1, and again d + 1 if at least two neighbours of i lie one hop nearer to the root, 0 if not.
    A resistance distance r adds w r + b.

    Args:
        lifted: number of channels of the values.
        kind: "hop", "spd" or None (the resistance distance alone).
        max_distance: greater hop distances count as this one.
        channels: number of channels of vectors that are put in front of the values; with None, vectors are added to the values.
        far: whether unreachable nodes have their own label with "hop"; otherwise they count as ``max_distance`` hops away.
        resistance: whether to add the resistance distance from the root, inside the subgraph.
    """

    def __init__(
        self,
        lifted: int,
        *,
        kind: LabelKind = "hop",
        max_distance: int = 5,
        channels: int | None = None,
        far: bool = True,
        resistance: bool = False,
    ) -> None:
        super().__init__()
        check(
            "labels.kind",
            kind,
            kind in ("hop", "spd") or (kind is None and resistance),
            "'hop', 'spd', or None with resistance=True",
        )
        check("labels.max_distance", max_distance, type(max_distance) is int and max_distance >= 1, "a whole number of at least 1")
        valid = channels is None or (type(channels) is int and channels >= 1)
        check("labels.channels", channels, valid, "a whole number of at least 1, or None")
        self.kind, self.max_distance, self.in_front, self.far = kind, max_distance, channels is not None, far
        width = channels or lifted
        rows = max_distance + (1 if kind == "hop" and not far else 2)
        self.embedding = None if kind is None else nn.Embedding(rows, width)
        self.resistance = nn.Linear(1, width) if resistance else None
        self.out_channels = lifted + (width if self.in_front else 0)

    def forward(self, h: Float[Tensor, "pairs channels"], bag: SubgraphBag) -> Float[Tensor, "pairs out_channels"]:
        """The values with the vectors of their labels."""
        vectors: list[Tensor] = []
        if self.embedding is not None:
            vectors += [lookup(self.embedding.weight, label) for label in self.labels(bag)]
        if self.resistance is not None:
            vectors.append(self.resistance(bag.resistance.to(h.dtype)[:, None]))
        value = vectors[0] if len(vectors) == 1 else torch.stack(vectors).sum(0)
        return torch.cat([value, h], dim=1) if self.in_front else h + value

    def labels(self, bag: SubgraphBag) -> list[Int[Tensor, "pairs"]]:
        """The labels of the pairs of a bag, one column or two."""
        hops = bag.hops(self.max_distance)
        if self.kind == "hop":
            return [hops if self.far else hops.clamp(max=self.max_distance)]
        first = torch.where(hops > self.max_distance, 0, hops + 1)
        return [first, torch.where(bag.on_several_paths, first, 0)]

    def extra_repr(self) -> str:
        """What is embedded."""
        return f"{self.kind}, max_distance={self.max_distance}"
