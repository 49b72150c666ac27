"""Which pairs of graphs does a model, or a WL test, tell apart?

A model has random weights and a smooth activation (with ReLU all units of a random network can lie in one linear region on
near-regular graphs, and it looks weaker than it is), runs in float64 and evaluation mode, with several seeds. A pair is
separated if for any seed its outputs differ by more than 100 times the noise: the difference between permuted copies of the
same graph.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from reign.nn import EncoderSlot, Model, PPGNConv, TermSlot, build_model
from reign.testing import permute_graph, random_permutation
from reign.theory._families import Pair
from reign.theory._wl import bag_wl, check_simple, check_size, wl_classes

SEEDS = (0, 1, 2)
FACTOR = 100.0
FLOOR = 1e-13  # of the size of the outputs: no noise is below what float64 can tell
BATCH = 64  # graphs in one go


class Verdict(NamedTuple):
    """Did a method separate a pair, and by how much: the difference in units of the threshold (above 1: yes; 1 or 0 for WL)."""

    pair: str
    method: str
    separated: bool
    margin: float


Progress = Callable[[Iterable[Any], str], Iterable[Any]]


def separate(
    pairs: Sequence[Pair],
    models: Sequence[str] = (),
    wl: Sequence[int | str] = (),
    *,
    layers: int | None = None,
    seeds: Sequence[int] = SEEDS,
    progress: Progress = lambda items, _: items,
    **options: Any,
) -> list[Verdict]:
    """Try every method on every pair.

    Args:
        pairs: the graphs.
        models: as "sun:nm" or "mpnn": a model, and after a colon its policy; after a slash its number of layers ("idgnn:nm/10").
        wl: orders of WL tests, or "ds:nm" and "dss:nm" for the colourings that match these models.
        layers: of models that do not say themselves; 6 if not given.
        seeds: of the weights.
        progress: wraps loops, to show a progress bar.
        options: further arguments of the models.
    """
    if not seeds or not pairs:
        raise ValueError(f"{'pairs' if seeds else 'seeds'} is empty, expected at least one.")
    for pair in pairs:
        _check_pair(pair)
    verdicts = []
    for test in wl:
        if isinstance(test, str) and not test.isdecimal():
            _wl_classes([pairs[0].one], test)  # a name that is not known is refused now
            continue
        if not 1 <= int(test) <= 4:
            raise ValueError(f"a WL test of order {test} was asked for, expected 1 to 4, or 'ds:POLICY' or 'dss:POLICY'.")
        check_size([graph for pair in pairs for graph in (pair.one, pair.other)], max(int(test) - 1, 1))
    channels = {pair.one.num_features for pair in pairs}
    makers = [(name, _maker(name, 6 if layers is None else layers, options)) for name in models]
    for test in wl:
        label = f"{test}-WL"
        for pair in progress(pairs, label):
            classes = _wl_classes([pair.one, pair.other], test)
            apart = classes[0] != classes[1]
            verdicts.append(Verdict(pair.name, label, apart, float(apart)))
    for name, make in makers:
        margins = torch.zeros(len(pairs), dtype=torch.float64)
        for width in channels:
            mine = [p for p, pair in enumerate(pairs) if pair.one.num_features == width]
            for seed in seeds:
                torch.manual_seed(seed)
                model = make(width)
                mine = [p for p in mine if margins[p] <= 1]  # any seed will do
                parts = [mine[i : i + BATCH] for i in range(0, len(mine), BATCH)]
                for part in progress(parts, f"{name}, seed {seed}"):
                    margins[part] = torch.maximum(margins[part], _margins(model, [pairs[p] for p in part], seed))
        verdicts += [Verdict(pair.name, name, bool(m > 1), float(m)) for pair, m in zip(pairs, margins, strict=True)]
    return verdicts


def _check_pair(pair: Pair) -> None:
    for graph in (pair.one, pair.other):
        check_simple(graph)
        if graph.x is None or graph.num_nodes == 0 or not bool(graph.x.isfinite().all()):
            raise ValueError(
                f"a graph of '{pair.name}' has no nodes, no features or some that are not finite; use x of ones for none."
            )
    if pair.one.num_features != pair.other.num_features:
        widths = f"{pair.one.num_features} and {pair.other.num_features}"
        raise ValueError(f"the graphs of '{pair.name}' have {widths} features, expected the same number.")


def parse_method(name: str) -> tuple[str, str | None, int | None]:
    """A model, its policy, its number of layers: "sun:ego+:2/4" is ("sun", "ego+:2", 4)."""
    rest, _, layers = name.partition("/")
    model, _, policy = rest.partition(":")
    if layers and not layers.isdecimal():
        raise ValueError(f"'{name}' ends in '/{layers}', expected a number of layers, as in 'sun:nm/4'.")
    return model, policy or None, int(layers) if layers else None


def _maker(name: str, layers: int, options: dict[str, Any]) -> Callable[[int], Model]:
    """Checks the name now, and makes the model later, when the number of channels is known."""
    kind, policy, own = parse_method(name)
    depth = layers if own is None else own

    def make(channels: int) -> Model:
        given: dict[str, Any] = {"norm": None, "act": "silu", **options}
        if policy is not None:
            given["policy"] = policy
        plain = kind.lower().replace("-", "").replace("_", "")
        number = depth
        if plain.startswith("gnnak"):  # one block, with as many inner layers
            given.setdefault("inner_layers", depth)
            given.setdefault("domain", "all")
            number = 1
        elif plain in ("idgnn", "ngnn"):
            given.setdefault("domain", "all")
        model = build_model(kind, channels, 16, number, 4, **given).double().eval()
        _scale(model)
        return model

    make(1)
    return make


def _scale(model: Model) -> None:
    """Weights of variance 1 / fan-in, biases that matter, and a gain for every term, so that sums over many rows do not drown the
    others. A gain is set by the first graphs that come, and is a constant factor of the term's weights from then on.
    """
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, parameter.size(1) ** -0.5)
            else:
                parameter.uniform_(-0.5, 0.5)
    gains: dict[torch.nn.Module, Tensor] = {}

    def scaled(module: torch.nn.Module, _: Any, out: Tensor) -> Tensor:
        if module not in gains:
            gains[module] = 1 / out.pow(2).mean().sqrt().clamp(min=1e-6)
        return out * gains[module]

    def centred(module: torch.nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = inputs[0]
        if module not in moments:
            moments[module] = x.mean(0), 1 / x.std(0, correction=0).clamp(min=1e-6)
        mean, gain = moments[module]
        return ((x - mean) * gain, *inputs[1:])

    moments: dict[torch.nn.Module, tuple[Tensor, Tensor]] = {}
    for module in model.modules():
        if isinstance(module, TermSlot | EncoderSlot):
            module.register_forward_hook(scaled)
        if isinstance(module, PPGNConv):  # its product has a large mean and a small signal; constants of the next linear map
            module.skip.register_forward_pre_hook(centred)


def _margins(model: Model, pairs: Sequence[Pair], seed: int) -> Tensor:
    """The difference of each pair over its threshold; a graph that is in several pairs is looked at once."""
    graphs = list({id(g): g for pair in pairs for g in (pair.one, pair.other)}.values())
    place = {id(g): position for position, g in enumerate(graphs)}
    one, other = (torch.tensor([place[id(pair[side])] for pair in pairs]) for side in (1, 2))
    doubled = [_double(g) for g in graphs]
    copies = [permute_graph(g, random_permutation(g.num_nodes, seed)) if g.num_nodes > 1 else g for g in doubled]
    with torch.no_grad():
        out, again = (model(b.x, b.edge_index, batch=b.batch) for b in map(Batch.from_data_list, (doubled, copies)))
    noise, size = (out - again).abs().amax(1), out.abs().amax(1)
    threshold = FACTOR * torch.maximum(noise, FLOOR * size).clamp(min=1e-300)
    return (out[one] - out[other]).abs().amax(1) / torch.maximum(threshold[one], threshold[other])


def _double(data: Data) -> Data:
    return Data(x=data.x.double(), edge_index=data.edge_index)


def _wl_classes(graphs: list[Data], test: int | str) -> list[int]:
    if isinstance(test, str) and not test.isdecimal():
        kind, policy, layers = parse_method(test)
        if kind.lower() not in ("ds", "dss") or layers is not None:
            raise ValueError(f"WL test '{test}' is not known, expected a number, 'ds:POLICY' or 'dss:POLICY'.")
        return bag_wl(graphs, policy or "nm", shared=kind.lower() == "dss")
    return wl_classes(graphs, int(test))
