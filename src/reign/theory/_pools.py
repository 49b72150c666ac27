"""Pooling as data: from values of pairs to one row per graph, in any algebra."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from reign.bags import Domain, SubgraphBag
from reign.nn import term
from reign.policies import whole
from reign.theory._algebra import Algebra
from reign.theory._exact_state import ExactState
from reign.theory._rules import Layer

How = Literal["sum", "mean"]
Pairs = Int[Tensor, "pairs width"]
Subgraphs = Int[Tensor, "subgraphs width"]
Graphs = Int[Tensor, "graphs width"]


@dataclass(frozen=True)
class Flat:
    """Sum or mean over the nodes of each subgraph, then over subgraphs, without a transform in between."""

    nodes: How = "sum"
    subgraphs: How = "sum"

    def __call__(self, h: Pairs, bag: SubgraphBag, domain: Domain, algebra: Algebra) -> Graphs:
        """One row per graph."""
        return _over_subgraphs(_readout(h, bag, domain, algebra, self.nodes), bag, algebra, self.subgraphs)


@dataclass(frozen=True)
class Nested:
    """A set of sets: the readout of every subgraph is transformed before pooling (if ``late``, together with the other readouts)."""

    nodes: How = "sum"
    subgraphs: How = "sum"
    layers: int = 1
    late: bool = False

    def __call__(self, h: Pairs, bag: SubgraphBag, domain: Domain, algebra: Algebra) -> Graphs:
        """One row per graph."""
        x = _readout(h, bag, domain, algebra, self.nodes)
        for t in range(self.layers):
            others = [bag.wiring.sub_to_graph.t(_over_subgraphs(x, bag, algebra, self.subgraphs))] if self.late else []
            x = algebra.act(("pool", t), algebra.linear(("pool", t), x, *others))
        return _over_subgraphs(x, bag, algebra, self.subgraphs)


@dataclass(frozen=True)
class Roots:
    """Only the roots."""

    how: How = "sum"

    def __call__(self, h: Pairs, bag: SubgraphBag, domain: Domain, algebra: Algebra) -> Graphs:
        """One row per graph."""
        return _over_subgraphs(ExactState(h, bag, domain, algebra).root, bag, algebra, self.how)


@dataclass(frozen=True)
class Outer:
    """NGNN's pooling: the readout of each subgraph at its root, message passing on the graph, then a pooling of all nodes."""

    layers: tuple[Layer, ...]
    nodes: How = "sum"
    graph: How = "sum"

    def __call__(self, h: Pairs, bag: SubgraphBag, domain: Domain, algebra: Algebra) -> Graphs:
        """One row per graph."""
        bag.require_node_based("NGNN's outer network")
        x = _readout(h, bag, domain, algebra, self.nodes)
        for t, layer in enumerate(self.layers):
            ((x, _),) = layer.steps(x, whole(bag), algebra, ("outer", t))
        total = bag.wiring.node_to_graph(x)
        return total if self.graph == "sum" else algebra.divide(total, bag.graph.sizes.clamp(min=1)[:, None])


@dataclass(frozen=True)
class OnAndOff:
    """2-IGN's pooling: the roots, and all other pairs."""

    how: How = "sum"

    def __call__(self, h: Pairs, bag: SubgraphBag, domain: Domain, algebra: Algebra) -> Graphs:
        """One row per graph."""
        state = ExactState(h, bag, domain, algebra, {"roots": self.how, "non_roots": self.how})
        return algebra.linear(("pool",), *(state.get(term(name)) for name in ("roots", "non_roots")))


@dataclass(frozen=True)
class OnAndPerNode:
    """The sum over the roots, and the sum over all other pairs divided by the number of nodes."""

    def __call__(self, h: Pairs, bag: SubgraphBag, domain: Domain, algebra: Algebra) -> Graphs:
        """One row per graph."""
        state = ExactState(h, bag, domain, algebra)
        others = algebra.divide(state.get(term("non_roots")), bag.graph.sizes.clamp(min=1)[:, None])
        return algebra.linear(("pool",), state.get(term("roots")), others)


Pool = Flat | Nested | Roots | Outer | OnAndOff | OnAndPerNode
POOLS: dict[str, Pool] = {"flat": Flat(), "nested": Nested(), "roots": Roots()}


def _readout(h: Pairs, bag: SubgraphBag, domain: Domain, algebra: Algebra, how: How) -> Subgraphs:
    return ExactState(h, bag, domain, algebra, {"readout": how}).get(term("readout"))


def _over_subgraphs(x: Subgraphs, bag: SubgraphBag, algebra: Algebra, how: How) -> Graphs:
    total = bag.wiring.sub_to_graph(x)
    if how == "sum":
        return total
    count = torch.bincount(bag.sub_batch, minlength=bag.num_graphs).clamp(min=1)
    return algebra.divide(total, count[:, None])
