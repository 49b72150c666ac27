"""Find out which pairs of graphs a model, a colour test, or a WL test tells apart.

A model is run over a finite field with random weights and 1/x as activation. This is exact: every difference found is real, however small
it would be in floating point, and a difference is missed with a probability of about 10^-10. Features and marks are embedded as a random
vector for each distinct row. In addition, the margin in float64 shows how easy a pair is to tell apart in practice.

A margin is the difference of the outputs for two graphs, divided by 100 times the noise, which is the difference between permuted copies of
one graph. A pair is separated if its margin is above 1; a margin below 1 proves nothing. SiLU is nearly linear at small differences, so
these shrink from layer to layer until they are below the noise. On near-regular graphs, all ReLU units are in one linear region. A sine
of frequency w does not flatten, but it also amplifies the noise; w = 10^(1 / T) for T layers was found by trial on the CFI pairs. In deep
networks, differences can arise from noise that the permuted copies do not show, so a margin just above 1 is not a proof there.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from reign.bags import SharedGraph, SubgraphBag, free_memory
from reign.data import Progress
from reign.nn import EncoderSlot, Model, PPGNConv, TermSlot, find_model
from reign.testing import permute_graph, random_permutation
from reign.theory._algebra import Field, features
from reign.theory._colours import pooled_rounds
from reign.theory._families import Pair
from reign.theory._plan import Plan, bag_of, batches, plan_of_model, trace
from reign.theory._rules import Rule
from reign.theory._wl import check_simple, check_size, wl_round

# -- models by short names ----------------------------------------------------------------------------------------------------

MESSAGE_BYTES = 100  # memory for each message of a colour test, as measured; layers of many terms need several times as much
LAYERS = 6
HIDDEN, OUT = 16, 4


@dataclass(frozen=True)
class Method:
    """A model to test.

    Args:
        name: its name in tables.
        make: function that makes the model for a number of features and an activation.
        depth: number of layers.
        layers: the number of layers in its name; None if the name does not give it.
    """

    name: str
    make: Callable[[int, Any], Model]
    depth: int
    layers: int | None = None


def parse_method(name: str) -> tuple[str, str | None, int | None]:
    """Split a name into the model, its policy and its number of layers.

    >>> parse_method("sun:ego+:2/4")
    ('sun', 'ego+:2', 4)
    """
    rest, _, layers = name.partition("/")
    model, _, policy = rest.partition(":")
    if layers and not layers.isdecimal():
        raise ValueError(f"'{name}' ends in '/{layers}', expected a number of layers, as in 'sun:nm/4'.")
    return model, policy or None, int(layers) if layers else None


def find_method(method: str | Model, layers: int = LAYERS, **options: Any) -> Method:
    """Make a method from a name or a model. The name is checked at once; the model is made when the number of features is known.

    Args:
        method: a name such as "sun:nm/4", or a model, whose weights do not matter.
        layers: number of layers, if the name does not give it.
        options: additional arguments of a model given by name.
    """
    if isinstance(method, Model):
        return Method(repr(method), lambda _, __: copy.deepcopy(method), method.num_layers)
    kind, policy, own = parse_method(method)
    model = find_model(kind)
    depth = layers if own is None else own
    given = {"norm": None, **model.for_separation(depth), **options}
    if policy is not None:
        given["policy"] = policy

    def make(channels: int, act: Any = "silu") -> Model:
        return model(channels, HIDDEN, out_channels=OUT, act=act, **given)

    make(1)
    return Method(method, make, depth, own)


# -- margins in float64 -------------------------------------------------------------------------------------------------------

Act = Literal["silu", "sine"]
FACTOR = 100.0
FLOOR = 1e-13  # least noise relative to the outputs, given by the precision of float64
BATCH = 64  # number of pairs processed at a time


class Sine(nn.Module):
    """sin(w x), with a frequency w = 10^(1 / T) for networks of T layers."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.frequency = 10 ** (1 / layers)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the function to every entry."""
        return torch.sin(self.frequency * x)


def margins(method: Method, pairs: Sequence[Pair], act: Act, seeds: Sequence[int], progress: Progress) -> Float[Tensor, "pairs"]:
    """The largest margin of each pair over some seeds. A pair that one seed separates is not tried again."""
    best = torch.zeros(len(pairs), dtype=torch.float64)
    for width in dict.fromkeys(pair.one.num_features for pair in pairs):
        mine = [p for p, pair in enumerate(pairs) if pair.one.num_features == width]
        for seed in seeds:
            torch.manual_seed(seed)
            model = random_weights(method.make(width, Sine(method.depth) if act == "sine" else act))
            mine = [p for p in mine if best[p] <= 1]
            parts = [mine[i : i + BATCH] for i in range(0, len(mine), BATCH)]
            for part in progress(parts, f"{method.name}, margins, seed {seed}"):
                best[part] = torch.maximum(best[part], _margins(model, [pairs[p] for p in part], seed))
    return best


def random_weights(model: Model) -> Model:
    """A copy in float64 with weights of variance 1 / fan-in, biases that are not negligible, and a gain for every term, so that sums over
    many rows do not dominate the others. A gain is set by the first batch of graphs, and is then a constant factor of the term's weights.
    """
    model = copy.deepcopy(model).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, parameter.size(1) ** -0.5)
            else:
                parameter.uniform_(-0.5, 0.5)
    gains: dict[nn.Module, Tensor] = {}
    moments: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def scaled(module: nn.Module, _: Any, out: Tensor) -> Tensor:
        if module not in gains:
            gains[module] = 1 / out.pow(2).mean().sqrt().clamp(min=1e-6)
        return out * gains[module]

    def centred(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = inputs[0]
        if module not in moments:
            moments[module] = x.mean(0), 1 / x.std(0, correction=0).clamp(min=1e-6)
        mean, gain = moments[module]
        return ((x - mean) * gain, *inputs[1:])

    for module in model.modules():
        if isinstance(module, TermSlot | EncoderSlot):
            module.register_forward_hook(scaled)
        if isinstance(
            module, PPGNConv
        ):  # its product has a large mean and a small signal; the next linear map could make this shift
            module.skip.register_forward_pre_hook(centred)
    return model


def _margins(model: Model, pairs: Sequence[Pair], seed: int) -> Float[Tensor, "pairs"]:
    """The difference of each pair, divided by its threshold. A graph that is in several pairs is evaluated once."""
    graphs = list({id(g): g for pair in pairs for g in (pair.one, pair.other)}.values())
    place = {id(g): position for position, g in enumerate(graphs)}
    one, other = (torch.tensor([place[id(pair[side])] for pair in pairs]) for side in (1, 2))
    doubled = [Data(x=g.x.double(), edge_index=g.edge_index) for g in graphs]
    copies = [permute_graph(g, random_permutation(g.num_nodes, seed)) if g.num_nodes > 1 else g for g in doubled]
    with torch.no_grad():
        out, again = (model(b.x, b.edge_index, batch=b.batch) for b in map(Batch.from_data_list, (doubled, copies)))
    noise, size = (out - again).abs().amax(1), out.abs().amax(1)
    threshold = FACTOR * torch.maximum(noise, FLOOR * size).clamp(min=1e-300)
    return (out[one] - out[other]).abs().amax(1) / torch.maximum(threshold[one], threshold[other])


# -- verdicts -----------------------------------------------------------------------------------------------------------------

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
    networks = [find_method(m, LAYERS if layers is None else layers, **options) for m in models]
    tests = [_test(test, options) for test in wl]
    for names in ([network.name for network in networks], [name for name, _ in tests]):
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(
                f"{twice[0]} is given {names.count(twice[0])} times, and its pairs would be counted as often; give it once."
            )
    verdicts = [verdict for _, test in tests for verdict in test(pairs, progress)]
    for network in networks:
        mine = _exact(network, pairs, progress) if exact else [Verdict(pair.name, network.name, False) for pair in pairs]
        if act is not None:
            sizes = margins(network, pairs, act, seeds, progress).tolist()
            mine = [v._replace(margin=m, separated=v.separated if exact else m > 1) for v, m in zip(mine, sizes, strict=True)]
        verdicts += mine
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
        weaker = k == 4 and wl_round(pair.one, pair.other, 3, progress) is not None
        round_ = None if weaker else wl_round(pair.one, pair.other, k, progress)
        verdicts.append(Verdict(pair.name, f"{k}-WL", weaker or round_ is not None, round_))
    return verdicts


def _exact(method: Method, pairs: Sequence[Pair], progress: Progress, colour_test: bool = False) -> list[Verdict]:
    """A network over a finite field, or the colour test of a model."""
    plan = plan_of_model(method.make(1, "silu"))
    name = f"{method.name} colours" if colour_test else method.name
    verdicts = []

    def layers(rules: Sequence[Rule]) -> Iterable[Rule]:
        return progress(rules, f"{name}, layer")

    for part, graphs in progress(list(batches(pairs, plan)), f"{name}, {_work(plan, pairs)}"):
        place = {id(g): position for position, g in enumerate(graphs)}
        sides = [(place[id(pair.one)], place[id(pair.other)]) for pair in part]
        bag = bag_of(plan, graphs)
        rounds = (
            _colour_rounds(plan, bag, sides, method.layers is None, layers) if colour_test else _layers(plan, bag, sides, layers)
        )
        verdicts += [Verdict(pair.name, name, t is not None, t) for pair, t in zip(part, rounds, strict=True)]
    return verdicts


def _work(plan: Plan, pairs: Sequence[Pair]) -> str:
    """The size of the largest graph in words: its pairs (subgraph, node), and the messages between them in a layer, of which there can be fewer.

    Raise ``ValueError`` before the work starts if two such graphs do not fit into memory.
    """
    graph = max((g for pair in pairs for g in (pair.one, pair.other)), key=lambda g: g.num_nodes)
    subgraphs = int(plan.policy.num_subgraphs(SharedGraph.build(features(graph), graph.edge_index)))
    messages, free = subgraphs * graph.num_edges, free_memory(torch.device("cpu"))
    if 2 * MESSAGE_BYTES * messages > free:
        raise ValueError(
            f"policy '{plan.policy}' makes {subgraphs:,} subgraphs of a graph of {graph.num_nodes} nodes, with {messages:,} messages in a layer. "
            f"Two such graphs need about {2 * MESSAGE_BYTES * messages / 1e9:,.1f} GB or more, but only {free / 1e9:,.1f} GB are free; use "
            "smaller graphs, or a policy with fewer subgraphs."
        )
    return f"up to {subgraphs * graph.num_nodes:,} pairs (subgraph, node) and {messages:,} messages per graph"


def _layers(
    plan: Plan, bag: SubgraphBag, sides: list[tuple[int, int]], progress: Callable[[Sequence[Rule]], Iterable[Rule]]
) -> list[int | None]:
    """The smallest number of layers that tells the two graphs apart, for the pairs that all layers together tell apart."""
    history = [pooled for _, pooled, _ in trace(plan, bag, Field(), progress=progress)]
    apart = [[bool((pooled[a] != pooled[b]).any()) for pooled in history[1:]] for a, b in sides]
    return [row.index(True) + 1 if row[-1] else None for row in apart]


def _colour_rounds(
    plan: Plan,
    bag: SubgraphBag,
    sides: list[tuple[int, int]],
    endless: bool,
    progress: Callable[[Sequence[Rule]], Iterable[Rule]],
) -> list[int | None]:
    """The first round that tells the two graphs apart. It stops as soon as all pairs are told apart."""
    first: list[int | None] = [None] * len(sides)
    for t, pooled in enumerate(pooled_rounds(plan, bag, endless=endless, progress=progress)):
        colour = pooled.tolist()
        first = [t if was is None and t and colour[a] != colour[b] else was for was, (a, b) in zip(first, sides, strict=True)]
        if None not in first:
            break
    return first


def _test(test: int | str | Model, options: Mapping[str, Any]) -> tuple[str, Callable[[Sequence[Pair], Progress], list[Verdict]]]:
    """A WL test of an order, or the colour test of a model, with its name. An unknown name raises ``ValueError`` here."""
    if isinstance(test, int) or (isinstance(test, str) and test.isdecimal()):
        return f"{int(test)}-WL", partial(_wl, int(test))
    method = find_method(test, **options)
    return f"{method.name} colours", partial(_exact, method, colour_test=True)


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
