"""The values of a bag as whole numbers, with means that are exact."""

import torch
from jaxtyping import Int
from torch import Tensor

from reign.bags import Domain, SubgraphBag, Where
from reign.nn import State, Term
from reign.theory._algebra import Algebra, Values


class ExactState(State):
    """A ``State`` of whole numbers: terms are evaluated by their own formulas, means divide as the algebra does."""

    def __init__(
        self, h: Values, bag: SubgraphBag, domain: Domain, algebra: Algebra, aggregation: dict[str, str] | None = None
    ) -> None:
        super().__init__(h, bag, domain, aggregation)  # type: ignore[arg-type]
        self.algebra = algebra
        self._totals: dict[tuple[str, Where], Tensor] = {}
        self._means: dict[tuple[str, Where], Tensor] = {}

    def get(self, term: Term, where: Where = "off") -> Values:
        """The value of a term, a sum or a mean, for all pairs or for the roots."""
        key = (term.name, where)
        if self.aggregation.get(term.name, "sum") == "sum":
            return self.sum(term, where)
        if key not in self._means:
            self._means[key] = self.algebra.divide(self.sum(term, where), self._number(term, where))
        return self._means[key]

    def sum(self, term: Term, where: Where = "off") -> Values:
        """The sum of a term, whatever its aggregation is."""
        key = (term.name, where)
        if key not in self._totals:
            if term.node_based:
                self.bag.require_node_based(f"term '{term.name}'")
            self._totals[key] = term.value(self, where)
        return self._totals[key]

    def _number(self, term: Term, where: Where) -> Int[Tensor, "rows 1"]:
        """How many values a term sums: the term itself, of ones; 1 where there are none."""
        inner = {"needle": "mean"} if self.aggregation.get("needle") == "mean" and term.name != "needle" else {}

        def count() -> Tensor:
            ones = torch.ones(self.bag.num_pairs, 1, dtype=torch.float64)
            return State(ones, self.bag, self.domain, inner).get(term, where).round().long().clamp(min=1)  # type: ignore[arg-type]

        return self.bag.wiring.once(("number", term.name, where, self.domain, str(bool(inner))), count)
