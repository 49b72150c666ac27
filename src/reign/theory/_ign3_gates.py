"""The paper's computational primitives as programs: logical AND, clipping, MLP-copy, and an exact gate."""

import torch
from torch import Tensor

from reign.theory._ign3_program import Program, Step
from reign.theory._matrices import keep, place, route


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
    same = f"{orbit}->{orbit}"
    return Program(
        [
            Step(channels, {orbit: [(same, flip)]}, {orbit: {c: 1.0}}, {orbit: [c]}),
            Step(channels, {orbit: [(same, flip)]}, {orbit: {c: 1.0}}),
        ]
    )


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
    plus, minus = scratch, scratch + width
    matrix = (
        keep(channels, *range(scratch, scratch + 2 * width))
        + route(channels, (message, plus, width))
        - route(channels, (message, minus, width))
    )
    matrix[plus : plus + 2 * width, closed] -= bound
    open_ = Step(channels, {orbit: [(f"{orbit}->{orbit}", matrix)]}, {}, {orbit: list(range(scratch, scratch + 2 * width))})
    back = (
        keep(channels, *range(message, message + width))
        + route(channels, (plus, message, width))
        - route(channels, (minus, message, width))
    )
    return Program([open_, Step(channels, {orbit: [(f"{orbit}->{orbit}", back)]})])
