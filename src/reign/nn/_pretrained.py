"""A model on disk: ``model.safetensors`` holds its weights, ``config.json`` its name and arguments."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import reign.policies as policies
from reign.disk import read_record, read_tensors, write_tensors, write_text
from reign.policies import Policy


@dataclass(frozen=True)
class Pretrained:
    """The contents of a folder written by ``save_pretrained``.

    Args:
        model: name of the model.
        arguments: the arguments that its constructor was given.
        weights: its ``state_dict``.
    """

    model: str
    arguments: dict[str, Any]
    weights: dict[str, Tensor]

    def write(self, folder: Path) -> None:
        """Write both files, or nothing if the arguments cannot be written."""
        arguments = {name: _named(value) if isinstance(value, Policy) else value for name, value in self.arguments.items()}
        try:
            text = json.dumps({"model": self.model, "arguments": arguments}, indent=2)
        except TypeError as error:
            raise ValueError(
                f"the arguments of this {self.model} cannot be written as JSON ({error}); save model.state_dict() instead."
            ) from None
        write_tensors(folder / "model.safetensors", self.weights)
        write_text(folder / "config.json", text + "\n")

    @classmethod
    def read(cls, folder: Path) -> "Pretrained":
        """Read both files."""
        config, weights = folder / "config.json", folder / "model.safetensors"
        if not config.is_file() or not weights.is_file():
            raise ValueError(f"{folder} holds no config.json and model.safetensors, expected a folder written by save_pretrained.")
        saved = read_record(config, model=str, arguments=dict)
        found, _ = read_tensors(weights)
        if bad := [name for name, value in found.items() if value.is_floating_point() and not bool(value.isfinite().all())]:
            raise ValueError(f"{weights} holds NaN or infinity in '{bad[0]}', expected finite weights.")
        return cls(saved["model"], saved["arguments"], found)

    def check_sizes(self, kind: Callable[..., nn.Module]) -> None:
        """Raise ``ValueError`` if the weights do not have the sizes that the arguments describe. No memory is allocated for the model."""
        numbers = sum(value.numel() for value in self.weights.values())
        for name, value in self.arguments.items():
            for size in value if isinstance(value, list) else [value]:
                if isinstance(size, int) and size > numbers:  # every channel, layer and type has at least one weight
                    raise ValueError(f"{name} is {size}, but there are only {numbers} weights")
        with torch.device("meta"):
            made = kind(**self.arguments).state_dict()
        for name, value in made.items():
            if name not in self.weights or self.weights[name].shape != value.shape:
                found = tuple(self.weights[name].shape) if name in self.weights else "missing"
                raise ValueError(f"the weight {name} is {found}, expected the shape {tuple(value.shape)}")


def _named(chosen: Policy) -> str:
    """The name of a policy, from which the policy can be made again."""
    name = str(chosen)
    try:
        same = policies.policy(name) == chosen
    except ValueError:
        same = False
    if not same:
        raise ValueError(f"policy {chosen!r} cannot be saved because it has no name; save model.state_dict() instead.")
    return name
