"""Random numbers that depend only on the seed and the number of the epoch."""

import torch
from torch import nn


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed for an epoch, distinct from those of all other epochs and seeds."""
    return (seed * 1_000_003 + epoch * 7_919 + 17) % 2**31


def seed_model(model: nn.Module, seed: int) -> None:
    """Seed dropout and sampled subgraphs."""
    torch.manual_seed(seed)
    policy = getattr(model, "policy", None)
    while policy is not None:
        if isinstance(generator := getattr(policy, "generator", None), torch.Generator):
            generator.manual_seed(seed)
        policy = getattr(policy, "policy", None)


def gpu_generator(device: torch.device | None = None) -> torch.Generator:
    """The generator of random numbers of a GPU, by default of the current one."""
    index = None if device is None else device.index
    return torch.cuda.default_generators[torch.cuda.current_device() if index is None else index]
