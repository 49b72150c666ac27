"""Contributions of values x[k, i], edges and subgraphs to an output of a model."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Attribution:
    """The contributions to one output for one graph.

    Args:
        output: the output, in the units of the target (the logit of a class).
        nothing: the output when every x[k, i] is zero.
        pairs: the contribution of each x[k, i] to the output. They sum to ``output - nothing``, up to the error of the integral.
        member: whether node i is in subgraph k.
        root: the root of each subgraph; -1 if it has none or several anchors.
        edge_index: the edges.
        edges: the contribution of the messages along each edge to the output.
        subgraphs: the decrease of the output when all values of one subgraph are set to zero.
    """

    output: float
    nothing: float
    pairs: Float[Tensor, "subgraphs nodes"]
    member: Tensor
    root: Int[Tensor, "subgraphs"]
    edge_index: Int[Tensor, "2 edges"]
    edges: Float[Tensor, "edges"]
    subgraphs: Float[Tensor, "subgraphs"]

    @cached_property
    def nodes(self) -> Float[Tensor, "nodes"]:
        """The contribution of each node to the output, summed over all subgraphs."""
        return self.pairs.sum(0)

    @property
    def error(self) -> float:
        """The error of the integral: the difference between the sum of all contributions and ``output - nothing``."""
        return abs(float(self.pairs.sum()) - (self.output - self.nothing))

    def bond(self, i: int, j: int) -> float:
        """The contribution of an edge to the output, summed over both directions."""
        source, target = self.edge_index
        return float(self.edges[((source == i) & (target == j)) | ((source == j) & (target == i))].sum())


def mean_of(parts: list[Attribution]) -> Attribution:
    """The attribution of the mean prediction of several models."""
    first = parts[0]

    def mean(name: str) -> Tensor:
        return torch.stack([getattr(part, name) for part in parts]).mean(0)

    return Attribution(
        sum(part.output for part in parts) / len(parts),
        sum(part.nothing for part in parts) / len(parts),
        mean("pairs"),
        first.member,
        first.root,
        first.edge_index,
        mean("edges"),
        mean("subgraphs"),
    )
