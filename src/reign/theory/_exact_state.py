"""The values of a bag as integers, with exact means."""

from reign.bags import Domain, SubgraphBag, Where
from reign.nn import State, Term
from reign.theory._algebra import Algebra, Values


class ExactState(State):
    """A ``State`` of integers. Terms are evaluated by their own formulas, and means use the division of the algebra."""

    def __init__(
        self, h: Values, bag: SubgraphBag, domain: Domain, algebra: Algebra, aggregation: dict[str, str] | None = None
    ) -> None:
        super().__init__(h, bag, domain, aggregation)  # type: ignore[arg-type]
        self.algebra = algebra

    def get(self, term: Term, where: Where = "off") -> Values:
        """The value of a term, a sum or a mean, for all pairs or for the roots."""
        if self.aggregation.get(term.name, "sum") == "sum":
            return self.sum(term, where)

        def mean() -> Values:
            count = self._count(term, where).round().long().clamp(min=1)
            return self.algebra.divide(self.sum(term, where), count)

        return self.once(("mean", term.name, where), mean)

    def product(self, one: Values, other: Values) -> Values:
        """The product of two values, which folklore terms sum."""
        return self.algebra.multiply(one, other)
