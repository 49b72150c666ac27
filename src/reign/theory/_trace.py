"""Run a plan on a batch of graphs, round by round."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from torch_geometric.data import Batch, Data

from reign.bags import SubgraphBag
from reign.theory._algebra import Algebra, Values
from reign.theory._hashing import features, rows
from reign.theory._plan import Plan
from reign.theory._readers import Pair
from reign.theory._rules import Rule

ROWS = 100_000  # number of rows of a bag that is processed at a time, but at least one pair of graphs


def bag_of(plan: Plan, graphs: Sequence[Data]) -> SubgraphBag:
    """The bag of some graphs as one batch."""
    return plan.policy.from_data(
        Batch.from_data_list([Data(x=features(g), edge_index=g.edge_index) for g in graphs]), domain=plan.domain
    )


def trace(
    plan: Plan,
    bag: SubgraphBag,
    algebra: Algebra,
    *,
    endless: bool = False,
    progress: Callable[[Sequence[Rule]], Iterable[Rule]] = iter,
) -> Iterator[tuple[Values, Values, bool]]:
    """The values of pairs and of graphs, at the start and after each round, and whether a layer ends there.

    Args:
        plan: the plan to run.
        bag: the bag of the graphs.
        algebra: colours, or numbers modulo a prime.
        endless: repeat the first layer without end, in place of running all layers once.
        progress: function that wraps the loop over all layers.
    """
    h = algebra.embed(rows(plan.lift(bag.graph.x, bag)), "lift")
    yield h, plan.pool(h, bag, plan.domain, algebra), True
    rules: Iterable[Rule] = plan.rules[0].endless() if endless else progress(plan.rules)
    last = algebra.linear(("residual",), h) if plan.residual else None
    seen = [h] if plan.jk == "cat+input" else []
    for t, rule in enumerate(rules):
        for out, ends in rule.steps(h, bag, algebra, ("layer", 0 if endless else t)):
            new = out if last is None else out + last
            yield new, plan.pool(_jump(plan.jk, [*seen, new], algebra), bag, plan.domain, algebra), ends
        h = new
        last = None if last is None else new
        seen = [] if plan.jk == "last" else [*seen, new]


def _jump(jk: str, seen: list[Values], algebra: Algebra) -> Values:
    """Jumping knowledge: the values that are pooled."""
    if jk in ("cat", "cat+input"):
        return algebra.linear(("jk",), *seen)
    return sum(seen[1:], seen[0]) if jk == "sum" else seen[-1]


def batches(pairs: Sequence[Pair], plan: Plan) -> Iterator[tuple[list[Pair], list[Data]]]:
    """Split pairs into batches, and list the graphs of each batch once. A batch has up to ``ROWS`` rows, but at least one pair."""
    part: list[Pair] = []
    graphs: dict[int, Data] = {}
    for pair in pairs:
        more = {id(g): g for g in (pair.one, pair.other)}
        rows = sum(g.num_nodes ** (1 + plan.policy.num_anchors) for g in (graphs | more).values())
        if part and (rows > ROWS or pair.one.num_features != part[0].one.num_features):
            yield part, list(graphs.values())
            part, graphs = [], {}
        part.append(pair)
        graphs |= more
    yield part, list(graphs.values())
