"""Which values x[k, i], edges and subgraphs an output of a model rests on."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Attribution:
    """The parts of one output for one graph.

    Args:
        output: the output, in the units of the target (the logit of a class).
        nothing: the output where every x[k, i] is zero.
        pairs: what x[k, i] adds to the output; all of them sum up to ``output - nothing``, but for the error of the integral.
        member: whether node i is in subgraph k.
        root: the node that each subgraph is tied to, -1 if there is none or there are several.
        edge_index: the edges.
        edges: what the messages along each edge add to the output.
        subgraphs: by how much the output falls where all values of one subgraph are zero.
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
        """What each node adds to the output, in all subgraphs together."""
        return self.pairs.sum(0)

    @property
    def error(self) -> float:
        """How far the parts are from their sum: the error of the integral."""
        return abs(float(self.pairs.sum()) - (self.output - self.nothing))

    def bond(self, i: int, j: int) -> float:
        """What an edge adds to the output, in both directions together."""
        source, target = self.edge_index
        return float(self.edges[((source == i) & (target == j)) | ((source == j) & (target == i))].sum())


def mean_of(parts: list[Attribution]) -> Attribution:
    """The attribution of the mean of several models."""
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
