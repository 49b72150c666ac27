"""Matrices between the channels of a 3-IGN program: copies, maps between given channels, and concatenations."""

import torch
from torch import Tensor


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
