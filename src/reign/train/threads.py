"""The threads of training and prediction on a CPU."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from reign.kernels import threads_for_blocks_only


def threads_of(model: nn.Module, device: torch.device, precision: str, eager: bool = False) -> AbstractContextManager[None]:
    """A context in which threads work only on blocks of rows, if all layers are computed in blocks; otherwise it has no effect.

    Args:
        model: the model; only a ``Model`` has layers in blocks.
        device: where it runs. There are blocks on a CPU only.
        precision: "bf16-mixed" has no blocks.
        eager: whether it runs in plain operations.
    """
    plain = eager or device.type != "cpu" or precision == "bf16-mixed"
    return threads_for_blocks_only() if not plain and getattr(model, "in_blocks", False) else nullcontext()
