r"""The colour test of any list of terms. Graphs with equal colours cannot be told apart by any network of these terms; graphs with
different colours are told apart by almost every such network.

.. math:: c^k_i \leftarrow H \big( [\text{is it a root with its own terms}],\ \{\!\{ c \text{ that term } t \text{ sums} \}\!\}_t \big)

Each multiset is flat: a term with two nested sums, such as non_roots@Ak, gives one multiset with multiplicities.
Without the term ``own`` a round may lose information, so the test ends when a partition of the pairs occurs again, not when it is no
longer refined.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor
from torch_geometric.data import Data

from reign.bags import Domain, SubgraphBag
from reign.nn import Aggregation, Model
from reign.policies import Policy
from reign.theory._algebra import Hashing, partition
from reign.theory._plan import Plan, bag_of, plan_of_model, plan_of_terms, trace
from reign.theory._rules import Rule
from reign.theory._wl import check_simple


@dataclass(frozen=True)
class Colours:
    """The colours of some graphs in every round of a test.

    Attributes:
        history: the colour of each graph at the start and after each round.
    """

    history: Int[Tensor, "rounds graphs"]

    @property
    def rounds(self) -> int:
        """Number of rounds that were run."""
        return self.history.size(0) - 1

    @property
    def classes(self) -> list[int]:
        """A number for each graph. Two graphs have the same number if no round tells them apart."""
        found: dict[tuple[int, ...], int] = {}
        return [found.setdefault(tuple(column), len(found)) for column in self.history[1:].t().tolist()]

    def separated(self, one: int, other: int) -> int | None:
        """The first round, counted from 1, that tells two graphs apart, which is the number of layers a network needs. None if none does."""
        differ = (self.history[1:, one] != self.history[1:, other]).nonzero()
        return int(differ[0]) + 1 if differ.numel() else None


def colours(
    graphs: Sequence[Data],
    terms: Sequence[str] = ("own", "local"),
    root_terms: Sequence[str] | None = None,
    *,
    policy: str | Policy = "nm",
    domain: Domain = "all",
    pooling: str = "flat",
    aggregation: dict[str, Aggregation] | None = None,
    rounds: int | None = None,
) -> Colours:
    """Run the colour test of a list of terms on some graphs.

    >>> from reign.theory import family
    >>> (pair,) = family("triangles")
    >>> colours([pair.one, pair.other], ["own", "local"], policy="nm").separated(0, 1)
    2

    Args:
        graphs: undirected simple graphs; ``x`` gives the initial colours of nodes.
        terms: names of terms (``reign.list_terms()``).
        root_terms: names of terms for roots, if roots have their own terms.
        policy: the selection policy.
        domain: whether sums range over "all" nodes or "members" of subgraphs.
        pooling: "flat" (all pairs as one multiset), "nested" (a multiset of the subgraphs' multisets) or "roots".
        aggregation: terms that take a mean in place of a sum, for example {"needle": "mean"}. They distinguish proportions only.
        rounds: number of rounds; if not given, until the partition of pairs occurs again.
    """
    if rounds is not None and rounds < 1:
        raise ValueError(f"rounds is {rounds}, expected at least 1.")
    plan = plan_of_terms(terms, root_terms, policy, domain, pooling, aggregation or {})
    return run(replace(plan, rules=plan.rules * (rounds or 1)), graphs, endless=rounds is None)


def model_colours(graphs: Sequence[Data], model: Model, *, endless: bool = True) -> Colours:
    """Run the colour test of a model, with the model's pooling, on some graphs.

    Args:
        graphs: undirected simple graphs; ``x`` gives the initial colours of nodes.
        model: the model; its weights do not matter.
        endless: repeat its first layer until the colours are stable; otherwise run its layers once.
    """
    return run(plan_of_model(model), graphs, endless=endless)


def run(plan: Plan, graphs: Sequence[Data], *, endless: bool = True) -> Colours:
    """The colour test of a plan."""
    for data in graphs:
        check_simple(data)
    return Colours(torch.stack(list(pooled_rounds(plan, bag_of(plan, graphs), endless=endless))))


def pooled_rounds(
    plan: Plan, bag: SubgraphBag, *, endless: bool = True, progress: Callable[[Sequence[Rule]], Iterable[Rule]] = iter
) -> Iterator[Int[Tensor, "graphs"]]:
    """The colours of graphs at the start and after each round of a plan; with ``endless`` until a partition of pairs occurs again."""
    if endless and (plan.residual or plan.jk != "last"):
        raise ValueError(
            "a colour test until stability repeats one layer, so it does not cover residual connections or jumping knowledge; use "
            "endless=False, or a name with a number of layers, such as 'sun:nm/6'."
        )
    seen: set[int] = set()
    for values, pooled, ends in trace(plan, bag, Hashing(), endless=endless, progress=progress):
        yield pooled[:, 0]
        if endless and ends:
            found = partition(values)
            if found in seen:
                return
            seen.add(found)
