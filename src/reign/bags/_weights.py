"""A bag with edge weights, which multiply the messages in every sum over neighbours.

Membership and hop distances do not change. Weights are used by explanations, to find out which edges matter for a prediction. An edge of
weight 0 carries no message.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jaxtyping import Float, Int, Shaped
from torch import Tensor

from reign._validate import kind_of
from reign.bags._triples import Neighbours, Where
from reign.bags._wiring import FolkloreMessages, Messages, Wiring
from reign.kernels import Sum

if TYPE_CHECKING:
    from reign.bags._bag import SubgraphBag

WEIGHT, PLAIN = "edge weight", "bag without weights"


def weigh(bag: "SubgraphBag", weight: Any) -> "SubgraphBag":
    """See ``SubgraphBag.weighted``."""
    edges = bag.graph.edge_index.size(1)
    if not isinstance(weight, Tensor) or weight.shape != (edges,) or not weight.is_floating_point():
        raise ValueError(f"weight is {kind_of(weight)}, expected one floating-point number for each of the {edges} edges.")
    made = replace(bag)
    made._kept[WEIGHT], made._kept[PLAIN] = weight, bag.plain
    return made


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """``sum(x)[t]`` is the sum of ``weight[e] * x[source of e]`` over the entries e with target t.

    Without ``rows``, x already has one row per entry. ``index_t`` is the target of each entry, as in ``Sum``.
    """

    rows: Sum | None
    weight: Float[Tensor, "entries"]
    into: Sum

    @property
    def index_t(self) -> Int[Tensor, "entries"]:
        """The target of each entry."""
        return self.into.index_t

    def __call__(self, x: Shaped[Tensor, "sources channels"]) -> Shaped[Tensor, "targets channels"]:
        """Sum the rows of x."""
        values = x if self.rows is None else self.rows(x)
        return self.into(values * self.weight.to(x.dtype)[:, None])


class WeightedWiring(Wiring):
    """The sums of a bag with edge weights. The index maps are those of the bag without weights, which caches them."""

    def keep(self, key: Any, make: Any) -> Any:
        """Store a value in the cache of the bag without weights, since none of these values depends on the weights."""
        return self.bag.plain.keep(key, make)

    def rows(self, neighbours: Neighbours, values: str, where: Where = "off") -> Any:
        """See ``Wiring.rows``."""

        def build() -> tuple[Sum, Tensor, Sum]:
            t = self.triples(neighbours, where)
            letters = {"k": t.k, "i": t.i, "j": t.j}
            return self._parts(self.bag.row_within(letters[values[0]], letters[values[1]]), t.edge, t.target, t.size)

        return self._weighted(self.keep(("weighted rows", neighbours, values, where), build))

    def nodes(self, neighbours: Neighbours, where: Where = "off") -> Any:
        """See ``Wiring.nodes``."""

        def build() -> tuple[Sum, Tensor, Sum]:
            t = self.triples(neighbours, where)
            return Sum.broadcast(t.j, self.bag.num_nodes), t.edge, Sum.broadcast(t.target, t.size).t

        return self._weighted(self.keep(("weighted nodes", neighbours, where), build))

    def root_messages(self, where: Where = "off") -> Any:
        """See ``Wiring.root_messages``."""

        def build() -> tuple[Sum, Tensor, Sum]:
            t = self.triples("Ak", where)
            mine = (t.j == self.bag.root[t.k]).nonzero().squeeze(1)
            return self._parts(self.bag.row_within(t.k[mine], t.j[mine]), t.edge[mine], t.target[mine], t.size)

        return self._weighted(self.keep(("weighted root_messages", where), build))

    def messages(self, neighbours: Neighbours, where: Where = "off") -> Messages:
        """See ``Wiring.messages``."""
        plain = super().messages(neighbours, where)
        into: Any = WeightedSum(None, self._weight[plain.from_edges.index], plain.into_targets)
        return plain._replace(into_targets=into)

    def folklore(self, neighbours: Neighbours, where: Where = "off", members: bool = False) -> FolkloreMessages:
        """See ``Wiring.folklore``."""
        plain = super().folklore(neighbours, where, members)
        into: Any = WeightedSum(None, self._weight[plain.from_edges.index], plain.into_targets)
        return plain._replace(into_targets=into)

    @property
    def _weight(self) -> Float[Tensor, "edges"]:
        weight = self.bag.edge_weight
        assert weight is not None
        return weight

    def _parts(self, row: Tensor, edge: Tensor, target: Tensor, size: int) -> tuple[Sum, Tensor, Sum]:
        there = (row >= 0).nonzero().squeeze(1)  # rows that are not stored have the value 0
        return Sum.broadcast(row[there], self.bag.num_pairs), edge[there], Sum.broadcast(target[there], size).t

    def _weighted(self, parts: tuple[Sum, Tensor, Sum]) -> WeightedSum:
        rows, edge, into = parts
        return WeightedSum(rows, self._weight[edge], into)
