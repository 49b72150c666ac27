"""Randomness that depends on the seed and the number of the epoch alone."""

import torch
from torch import nn


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed for an epoch, far from those of all other epochs and seeds."""
    return (seed * 1_000_003 + epoch * 7_919 + 17) % 2**31


def seed_model(model: nn.Module, seed: int) -> None:
    """Let dropout and sampled subgraphs depend on a seed from here on."""
    torch.manual_seed(seed)
    policy = getattr(model, "policy", None)
    while policy is not None:
        if isinstance(generator := getattr(policy, "generator", None), torch.Generator):
            generator.manual_seed(seed)
        policy = getattr(policy, "policy", None)
