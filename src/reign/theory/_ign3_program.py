"""3-IGNs as programs: the paper's computational primitives, and how they are combined.

The cube ``Y[k, i, j]`` is a bag of subgraphs: Y[k, i, i] holds node i of subgraph k, and Y[k, i, j] holds the link from j to i in it. Its five
orbits are written with letters, followed by the paper's names:

    "aaa" (iii) roots    "abb" (ijj) other nodes    "aab" (iij) links into roots    "aba" (iji) links out of roots    "abc" (ijk) other links

A ``Step`` is one linear equivariant layer with biases, and ReLU on selected channels. The other channels are linear, for which a plain
3-IGN needs twice the channels (``Program.plain``). Orbits that a step does not mention are copied.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from reign.theory._ign import IGNLinear
from reign.theory._matrices import glue, sum_glue
from reign.theory._orbits import basis, orbits, pool_broadcast

ORBITS = orbits(3)
LINKS = ("aab", "aba", "abc")

Update = list[tuple[str, Tensor]]  # "source->target" and its matrix (channels out, channels in)


@dataclass
class Step:
    """One layer of a 3-IGN program: for each orbit that it updates, a sum of maps, a bias, and the channels with ReLU."""

    channels: int
    maps: dict[str, Update] = field(default_factory=dict)
    bias: dict[str, dict[int, float] | Tensor] = field(default_factory=dict)
    relu: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for orbit in {*self.bias, *self.relu} - set(self.maps):
            self.maps[orbit] = [(f"{orbit}->{orbit}", torch.eye(self.channels, dtype=torch.float64))]

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
        """Run the step on a cube of shape (n, n, n, channels)."""
        out = torch.zeros_like(Y)
        ones = Y.new_ones(Y.size(0), 1)
        for orbit in ORBITS:
            if orbit not in self.maps:
                out = out + pool_broadcast(Y, f"{orbit}->{orbit}")
                continue
            value = torch.zeros_like(Y)
            for op, matrix in self.maps[orbit]:
                value = value + pool_broadcast(Y, op) @ matrix.t()
            value = value + pool_broadcast(ones, f"f->{orbit}") / Y.size(0) * self.bias_of(orbit)
            for channel in self.relu.get(orbit, []):
                value[..., channel] = value[..., channel].relu()
            out = out + value
        return out


class Program:
    """A 3-IGN as a sequence of steps."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self.steps = list(steps)

    def __add__(self, other: "Program | Step") -> "Program":
        return Program([*self.steps, *([other] if isinstance(other, Step) else other.steps)])

    def __len__(self) -> int:
        return len(self.steps)

    def __call__(self, Y: Tensor) -> Tensor:
        """Run all steps on a cube."""
        for step in self.steps:
            Y = step(Y)
        return Y

    def plain(self) -> "PlainIGN":
        """The same function as a plain 3-IGN: linear equivariant layers with ReLU on all channels between them.

        A value without ReLU is represented by two channels: x = relu(x) - relu(-x).
        """
        return PlainIGN([_doubled(step) for step in self.steps])


class PlainIGN(torch.nn.Module):
    """A stack of ``IGNLinear`` layers of order 3 with ReLU after each, on doubled channels."""

    def __init__(self, layers: list[IGNLinear]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, Y: Tensor) -> Tensor:
        """Map a cube to a cube."""
        Y = torch.cat([Y.relu(), (-Y).relu()], dim=-1)
        for layer in self.layers:
            Y = layer(Y).relu()
        half = Y.size(-1) // 2
        return Y[..., :half] - Y[..., half:]


def _doubled(step: Step) -> IGNLinear:
    c = step.channels
    maps = {o: step.maps.get(o, [(f"{o}->{o}", torch.eye(c, dtype=torch.float64))]) for o in ORBITS}
    ops = tuple(dict.fromkeys(_canonical(op) for update in maps.values() for op, _ in update))
    layer = IGNLinear(3, 3, 2 * c, 2 * c, ops).double().requires_grad_(False)
    layer.weight.zero_()
    layer.bias.zero_()
    for t, orbit in enumerate(ORBITS):
        linear = torch.ones(c, 1, dtype=torch.float64)
        linear[step.relu.get(orbit, [])] = 0  # channels with ReLU have no negative part
        for op, matrix in maps[orbit]:
            half = sum_glue(matrix, -matrix)
            layer.weight[ops.index(_canonical(op))] += glue(half, -linear * half)
        bias = step.bias_of(orbit)
        layer.bias[t] = torch.cat([bias, -linear.squeeze(1) * bias])
    return layer


def _canonical(op: str) -> str:
    """The name of a map in the basis."""
    source, target = op.split("->")
    fresh = iter(c for c in "abcdef" if c not in target)
    names = {c: c for c in target}
    for c in source:
        if c not in names:
            names[c] = next(fresh)
    found = "".join(names[c] for c in source) + "->" + target
    assert found in basis(3, 3), found
    return found
