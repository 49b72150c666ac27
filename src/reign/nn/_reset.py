"""Modules whose weights can be drawn again, as in PyG: ``module.reset_parameters()``."""

import torch
from torch import nn


class Resettable(nn.Module):
    """A module that can draw its weights again. Its parts draw theirs; weights that belong to no part are set in ``reset_own``."""

    def reset_parameters(self) -> None:
        """Draw all weights again and forget the statistics of norms, so that the module is as good as new."""
        for part in self.children():
            reset(part)
        with torch.no_grad():
            self.reset_own()

    def reset_own(self) -> None:
        """Set the weights that belong to no part of the module. By default there are none."""
        if own := next((name for name, _ in self.named_parameters(recurse=False)), None):
            raise ValueError(
                f"{type(self).__name__} has the weight '{own}' but no reset_own, so it cannot be reset; define reset_own."
            )


def reset(module: nn.Module) -> None:
    """Call ``reset_parameters`` of a module, or of its parts if it has no such method."""
    if callable(own := getattr(module, "reset_parameters", None)):
        own()
        return
    if name := next((name for name, _ in module.named_parameters(recurse=False)), None):
        raise ValueError(
            f"{type(module).__name__} has the weight '{name}' but no reset_parameters, so its weights cannot be drawn again; define it."
        )
    for part in module.children():
        reset(part)
