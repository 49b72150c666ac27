"""Find out which pairs of graphs a model, a colour test, or a WL test tells apart.

A model is run over a finite field with random weights and 1/x as activation. This is exact: every difference found is real, however small
it would be in floating point, and a difference is missed with a probability of about 10^-10. Features and marks are embedded as a random
vector for each distinct row. In addition, the margin in float64 shows how easy a pair is to tell apart in practice.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch_geometric.data import Data

from reign.bags import SubgraphBag
from reign.nn import Model
from reign.theory._colours import pooled_rounds
from reign.theory._field import Field
from reign.theory._margins import Act, Progress, margins
from reign.theory._methods import LAYERS, Method, find_method
from reign.theory._plan import Plan, plan_of_model
from reign.theory._readers import Pair
from reign.theory._rules import Rule
from reign.theory._trace import bag_of, batches, trace
from reign.theory._wl import check_simple, check_size, wl_round

SEEDS = (0, 1, 2)


class Verdict(NamedTuple):
    """Whether a method tells a pair apart.

    Attributes:
        pair: name of the pair.
        method: name of the method.
        separated: whether the method tells the pair apart.
        layer: the smallest number of layers or rounds that tells the pair apart. None if there is none, or if a weaker WL test told the
            pair apart and the rounds were not counted.
        margin: margin of the network in float64, in units of the threshold (above 1: separated); None if it was not measured.
    """

    pair: str
    method: str
    separated: bool
    layer: int | None = None
    margin: float | None = None

    def __str__(self) -> str:
        done = "not separated (exact)" if not self.separated else "separated"
        if self.separated and self.layer is not None:
            done = f"separated at layer {self.layer} (exact)"
        return done if self.margin is None else f"{done}; margin in float64 {self.margin:.2g}"


def separate(
    pairs: Sequence[Pair],
    models: Sequence[str | Model] = (),
    wl: Sequence[int | str | Model] = (),
    *,
    layers: int | None = None,
    exact: bool = True,
    act: Act | None = "silu",
    seeds: Sequence[int] = SEEDS,
    progress: Progress = lambda items, _: items,
    **options: Any,
) -> list[Verdict]:
    """Test which pairs of graphs each method tells apart.

    Args:
        pairs: the pairs of graphs.
        models: models, or names such as "sun:nm" or "idgnn:nm/10": a model, after a colon its policy, after a slash its number of
            layers. The weights of models do not matter.
        wl: orders of WL tests, or models or names for their colour tests, which run until they are stable if the name has no number.
        layers: number of layers of models whose name does not give it; 6 if not given.
        exact: whether to run models over a finite field; otherwise margins in float64 decide, which can miss differences.
        act: activation of the network for margins, "silu" or "sine"; None for no margins.
        seeds: seeds of the weights in float64.
        progress: function that wraps loops, to show a progress bar.
        options: additional arguments of models given by name.
    """
    if not seeds or not pairs:
        raise ValueError(f"{'pairs' if seeds else 'seeds'} is empty, expected at least one.")
    if not exact and act is None:
        raise ValueError("exact is False and act is None, so there is nothing to decide by; use act='silu' or act='sine'.")
    for pair in pairs:
        _check_pair(pair)
    verdicts = []
    networks = [find_method(m, LAYERS if layers is None else layers, **options) for m in models]
    tests = [_test(test, options) for test in wl]
    for test in tests:
        verdicts += test(pairs, progress)
    for network in networks:
        found = _exact(network, pairs, progress) if exact else [Verdict(pair.name, network.name, False) for pair in pairs]
        if act is not None:
            sizes = margins(network, pairs, act, seeds, progress).tolist()
            found = [v._replace(margin=m, separated=v.separated if exact else m > 1) for v, m in zip(found, sizes, strict=True)]
        verdicts += found
    return verdicts


def _wl(k: int, pairs: Sequence[Pair], progress: Progress) -> list[Verdict]:
    """Run k-WL. A stronger test tells all pairs apart that a weaker one does, so 4-WL is run only on pairs that are equal under 3-WL."""
    if k not in (1, 2, 3, 4):
        raise ValueError(f"the order of the WL test is {k}, expected 1 to 4.")
    check_size([g for pair in pairs for g in (pair.one, pair.other)], max(k - 1, 1))
    verdicts = []
    n = max(g.num_nodes for pair in pairs for g in (pair.one, pair.other))
    work = f", up to {n ** max(k - 1, 1):,} tuples per graph" + (f" with {n:,} neighbours each" if k > 2 else "")
    for pair in progress(pairs, f"{k}-WL{work}"):
        weaker = k == 4 and wl_round(pair.one, pair.other, 3) is not None
        round_ = None if weaker else wl_round(pair.one, pair.other, k)
        verdicts.append(Verdict(pair.name, f"{k}-WL", weaker or round_ is not None, round_))
    return verdicts


def _exact(method: Method, pairs: Sequence[Pair], progress: Progress, colour_test: bool = False) -> list[Verdict]:
    """A network over a finite field, or the colour test of a model."""
    plan = plan_of_model(method.make(1, "silu"))
    name = f"{method.name} colours" if colour_test else method.name
    verdicts = []
    for part, graphs in progress(list(batches(pairs, plan)), f"{name}, {_work(plan, pairs)}"):
        place = {id(g): position for position, g in enumerate(graphs)}
        sides = [(place[id(pair.one)], place[id(pair.other)]) for pair in part]
        rounds = (
            _colour_rounds(plan, bag_of(plan, graphs), sides, method.layers is None)
            if colour_test
            else _layers(plan, graphs, sides, lambda rules: progress(rules, f"{name}, layer"))
        )
        verdicts += [Verdict(pair.name, name, t is not None, t) for pair, t in zip(part, rounds, strict=True)]
    return verdicts


def _work(plan: Plan, pairs: Sequence[Pair]) -> str:
    """The size of the largest graph in words: its pairs (subgraph, node), and the messages between them in a layer, of which there can be fewer."""
    graph = max((g for pair in pairs for g in (pair.one, pair.other)), key=lambda g: g.num_nodes)
    subgraphs = graph.num_nodes**plan.policy.num_anchors
    return f"up to {subgraphs * graph.num_nodes:,} pairs (subgraph, node) and {subgraphs * graph.num_edges:,} messages per graph"


def _layers(
    plan: Plan, graphs: Sequence[Data], sides: list[tuple[int, int]], progress: Callable[[Sequence[Rule]], Iterable[Rule]]
) -> list[int | None]:
    """The smallest number of layers that tells the two graphs apart, for the pairs that all layers together tell apart."""
    history = [pooled for _, pooled, _ in trace(plan, bag_of(plan, graphs), Field(), progress=progress)]
    apart = [[bool((pooled[a] != pooled[b]).any()) for pooled in history[1:]] for a, b in sides]
    return [row.index(True) + 1 if row[-1] else None for row in apart]


def _colour_rounds(plan: Plan, bag: SubgraphBag, sides: list[tuple[int, int]], endless: bool) -> list[int | None]:
    """The first round that tells the two graphs apart. It stops as soon as all pairs are told apart."""
    found: list[int | None] = [None] * len(sides)
    for t, pooled in enumerate(pooled_rounds(plan, bag, endless=endless)):
        colour = pooled.tolist()
        found = [t if was is None and t and colour[a] != colour[b] else was for was, (a, b) in zip(found, sides, strict=True)]
        if None not in found:
            break
    return found


def _test(test: int | str | Model, options: dict[str, Any]) -> Callable[[Sequence[Pair], Progress], list[Verdict]]:
    """A WL test of an order, or the colour test of a model. An unknown name raises ``ValueError`` here."""
    if isinstance(test, int) or (isinstance(test, str) and test.isdecimal()):
        return partial(_wl, int(test))
    return partial(_exact, find_method(test, **options), colour_test=True)


def _check_pair(pair: Pair) -> None:
    for graph in (pair.one, pair.other):
        check_simple(graph)
        if graph.x is None or graph.num_nodes == 0 or not bool(graph.x.isfinite().all()):
            raise ValueError(
                f"a graph of '{pair.name}' has no nodes, no features, or features that are not finite; for a graph without features use x of ones."
            )
    if pair.one.num_features != pair.other.num_features:
        widths = f"{pair.one.num_features} and {pair.other.num_features}"
        raise ValueError(f"the graphs of '{pair.name}' have {widths} features, expected the same number in both.")
