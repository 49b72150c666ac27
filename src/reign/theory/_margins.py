"""The margin by which a network with random weights tells graphs apart in float64.

A margin is the difference of the outputs for two graphs, divided by 100 times the noise, which is the difference between permuted copies of
one graph. A pair is separated if its margin is above 1; a margin below 1 proves nothing. SiLU is nearly linear at small differences, so
these shrink from layer to layer until they are below the noise. On near-regular graphs, all ReLU units are in one linear region. A sine
of frequency w does not flatten, but it also amplifies the noise; w = 10^(1 / T) for T layers was found by trial on the CFI pairs. In deep
networks, differences can arise from noise that the permuted copies do not show, so a margin just above 1 is not a proof there.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from reign.nn import EncoderSlot, Model, PPGNConv, TermSlot
from reign.testing import permute_graph, random_permutation
from reign.theory._methods import Method
from reign.theory._readers import Pair

Act = Literal["silu", "sine"]
Progress = Callable[[Iterable[Any], str], Iterable[Any]]
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
        ):  # its product has a large mean and a small signal; this shift could be part of the next linear map
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
