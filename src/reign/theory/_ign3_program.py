"""IGNs as programs: the paper's computational primitives, and how they are combined.

The cube ``Y[k, i, j]`` is a bag of subgraphs: Y[k, i, i] holds node i of subgraph k, and Y[k, i, j] holds the link from j to i in it. Its five
orbits are written with letters, followed by the paper's names:

    "aaa" (iii) roots    "abb" (ijj) other nodes    "aab" (iij) links into roots    "aba" (iji) links out of roots    "abc" (ijk) other links

A ``Step`` is one linear equivariant layer with biases, and ReLU on selected channels. The other channels are linear, for which a plain
3-IGN needs twice the channels (``Program.plain``). Orbits that a step does not mention are copied. Most steps map a cube to a cube; the
first step of a model maps a graph (order 2) to a cube, and its last steps map vectors of nodes (order 1) to a vector of the graph (order 0).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from reign.theory._ign import LETTERS, IGNLinear, basis, orbits, pool_broadcast

# -- matrices between channels ------------------------------------------------------------------------------------------------


def route(channels: int, *moves: tuple[int, int, int]) -> Tensor:
    """Copy / routing: each move (from, to, width) writes channels ``from...`` into ``to...``; all other outputs are 0."""
    matrix = torch.zeros(channels, channels, dtype=torch.float64)
    for source, target, width in moves:
        matrix[target : target + width, source : source + width] += torch.eye(width, dtype=torch.float64)
    return matrix


def place(channels: int, weight: Tensor, source: int, target: int, inputs: int | None = None) -> Tensor:
    """A linear map of channels ``source...`` into channels ``target...``. There are as many ``inputs`` as outputs if not given."""
    matrix = torch.zeros(channels, channels if inputs is None else inputs, dtype=torch.float64)
    matrix[target : target + weight.size(0), source : source + weight.size(1)] = weight
    return matrix


def glue(*weights: Tensor) -> Tensor:
    """Concatenation: several maps of one input, whose outputs are concatenated."""
    return torch.cat(weights, dim=0)


def sum_glue(*weights: Tensor) -> Tensor:
    """Concurrent transformations and their sum: one map for each part of the input."""
    return torch.cat(weights, dim=1)


def keep(channels: int, *dropped: int) -> Tensor:
    """The identity on all channels except the dropped ones."""
    matrix = torch.eye(channels, dtype=torch.float64)
    matrix[list(dropped)] = 0
    return matrix


# -- steps and programs -------------------------------------------------------------------------------------------------------

LINKS = ("aab", "aba", "abc")

Update = list[tuple[str, Tensor]]  # "source->target" and its matrix (channels out, channels in)


@dataclass
class Step:
    """One layer of a program: for each orbit that it updates, a sum of maps, a bias, and the channels with ReLU.

    ``channels`` is the number of channels of the result. ``act`` is applied in place of ReLU if it is given.
    """

    channels: int
    maps: dict[str, Update] = field(default_factory=dict)
    bias: dict[str, dict[int, float] | Tensor] = field(default_factory=dict)
    relu: dict[str, list[int]] = field(default_factory=dict)
    act: Callable[[Tensor], Tensor] = torch.relu

    def __post_init__(self) -> None:
        for orbit in {*self.bias, *self.relu} - set(self.maps):
            self.maps[orbit] = self._copied(orbit)

    def _copied(self, orbit: str) -> Update:
        return [(f"{orbit}->{orbit}", torch.eye(self.channels, dtype=torch.float64))]

    @property
    def orders(self) -> tuple[int, int]:
        """The orders of the tensors before and after the step."""
        source, target = next(op for update in self.maps.values() for op, _ in update).split("->")
        return len(source), len(target)

    def updates(self) -> dict[str, Update]:
        """The maps into every orbit of the result, copies included. An orbit without maps is 0."""
        before, after = self.orders
        return {o: self.maps.get(o, self._copied(o) if before == after else []) for o in orbits(after)}

    def bias_of(self, orbit: str) -> Tensor:
        """The bias of an orbit as a vector."""
        given = self.bias.get(orbit, {})
        if isinstance(given, Tensor):
            return given
        vector = torch.zeros(self.channels, dtype=torch.float64)
        for channel, value in given.items():
            vector[channel] = value
        return vector

    def __call__(self, Y: Tensor) -> Tensor:
        """Run the step on a tensor of shape (n, ..., n, channels)."""
        n, ones = Y.size(0), Y.new_ones(Y.size(0), 1)
        out = Y.new_zeros([n] * self.orders[1] + [self.channels])
        for orbit, update in self.updates().items():
            if orbit not in self.maps:
                out = out + sum(pool_broadcast(Y, op) for op, _ in update)
                continue
            value = torch.zeros_like(out)
            for op, matrix in update:
                value = value + pool_broadcast(Y, op) @ matrix.t()
            where = pool_broadcast(ones, f"f->{orbit}") / n if orbit else 1
            value = value + where * self.bias_of(orbit)
            if channels := self.relu.get(orbit):
                value[..., channels] = self.act(value[..., channels]) * where
            out = out + value
        return out


class Program:
    """An IGN as a sequence of steps."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self.steps = list(steps)

    def __add__(self, other: "Program | Step") -> "Program":
        return Program([*self.steps, *([other] if isinstance(other, Step) else other.steps)])

    def __len__(self) -> int:
        return len(self.steps)

    def __call__(self, Y: Tensor) -> Tensor:
        """Run all steps, on a graph or a cube."""
        for step in self.steps:
            Y = step(Y)
        return Y

    def plain(self) -> "PlainIGN":
        """The same function as a plain 3-IGN: linear equivariant layers with ReLU on all channels between them.

        A value without ReLU is represented by two channels: x = relu(x) - relu(-x).
        """
        for step in self.steps:
            if step.relu and not (step.act is torch.relu or isinstance(step.act, torch.nn.ReLU)):
                raise ValueError(
                    f"a plain 3-IGN has only ReLU, but a step of this program has {step.act}; use act='relu' in the model and in its pooling."
                )
        return PlainIGN([_doubled(step) for step in self.steps])


class PlainIGN(torch.nn.Module):
    """A stack of ``IGNLinear`` layers with ReLU after each, on doubled channels."""

    def __init__(self, layers: list[IGNLinear]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, Y: Tensor) -> Tensor:
        """Map what the program maps, such as a cube to a cube."""
        Y = torch.cat([Y.relu(), (-Y).relu()], dim=-1)
        for layer in self.layers:
            Y = layer(Y).relu()
        half = Y.size(-1) // 2
        return Y[..., :half] - Y[..., half:]


def _doubled(step: Step) -> IGNLinear:
    c, maps = step.channels, step.updates()
    ops = tuple(dict.fromkeys(_canonical(op) for update in maps.values() for op, _ in update))
    before = next(matrix.size(1) for update in maps.values() for _, matrix in update)
    layer = IGNLinear(*step.orders, 2 * before, 2 * c, ops).double().requires_grad_(False)
    layer.weight.zero_()
    layer.bias.zero_()
    for t, (orbit, update) in enumerate(maps.items()):
        linear = torch.ones(c, 1, dtype=torch.float64)
        linear[step.relu.get(orbit, [])] = 0  # channels with ReLU have no negative part
        for op, matrix in update:
            half = sum_glue(matrix, -matrix)
            layer.weight[ops.index(_canonical(op))] += glue(half, -linear * half)
        bias = step.bias_of(orbit)
        layer.bias[t] = torch.cat([bias, -linear.squeeze(1) * bias])
    return layer


def _canonical(op: str) -> str:
    """The name of a map in the basis."""
    source, target = op.split("->")
    fresh = iter(c for c in LETTERS if c not in target)
    names = {c: c for c in target}
    for c in source:
        if c not in names:
            names[c] = next(fresh)
    name = "".join(names[c] for c in source) + "->" + target
    assert name in basis(len(source), len(target)), name
    return name


# -- the paper's primitives ---------------------------------------------------------------------------------------------------


def logical_and(channels: int, orbit: str, a: int, b: int, c: int) -> Step:
    """Channel c becomes a AND b = relu(2 a + 2 b - 3), exactly for inputs 0 and 1."""
    matrix = keep(channels, c)
    matrix[c, a] += 2
    matrix[c, b] += 2
    return Step(channels, {orbit: [(f"{orbit}->{orbit}", matrix)]}, {orbit: {c: -3.0}}, {orbit: [c]})


def clip(channels: int, orbit: str, c: int) -> Program:
    """Channel c becomes min(c, 1) = 1 - relu(1 - c)."""
    flip = keep(channels, c)
    flip[c, c] = -1
    maps = {orbit: [(f"{orbit}->{orbit}", flip)]}
    return Program([Step(channels, maps, {orbit: {c: 1.0}}, relu) for relu in ({orbit: [c]}, {})])


def mlp_copy(channels: int, orbit: str, layers: list[tuple[Tensor, Tensor]], source: int, target: int, scratch: int) -> Program:
    """An MLP of the channels ``source...``, written to ``target...``. All other channels are copied; hidden units start at ``scratch``."""
    steps, at = [], source
    for number, (weight, bias) in enumerate(layers):
        last = number == len(layers) - 1
        to = target if last else scratch
        written = list(range(to, to + weight.size(0)))
        matrix = keep(channels, *written) + place(channels, weight, at, to)
        vector = torch.zeros(channels, dtype=torch.float64)
        vector[written] = bias
        steps.append(Step(channels, {orbit: [(f"{orbit}->{orbit}", matrix)]}, {orbit: vector}, {} if last else {orbit: written}))
        at, scratch = to, scratch + weight.size(0)
    return Program(steps)


def gate(channels: int, orbit: str, closed: int, message: int, width: int, scratch: int, bound: float) -> Program:
    """Set messages to 0 where channel ``closed`` is at least 1. Where it is 0, they do not change, to the last bit.

    The formula is relu(m - M c) - relu(-m - M c), with M at least as large as any message. No memorising network is needed.
    """
    plus, minus, both = scratch, scratch + width, list(range(scratch, scratch + 2 * width))
    matrix = keep(channels, *both) + route(channels, (message, plus, width)) - route(channels, (message, minus, width))
    matrix[plus : plus + 2 * width, closed] -= bound
    back = keep(channels, *range(message, message + width))
    back = back + route(channels, (plus, message, width)) - route(channels, (minus, message, width))
    same = f"{orbit}->{orbit}"
    return Program([Step(channels, {orbit: [(same, matrix)]}, {}, {orbit: both}), Step(channels, {orbit: [(same, back)]})])
