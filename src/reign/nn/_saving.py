"""Save a model in a folder, and load it by the name of its class."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from reign.disk import first_line
from reign.nn._pretrained import Pretrained
from reign.nn._registry import MODELS

if TYPE_CHECKING:
    from reign.nn._model import Model


def save_model(model: "Model", folder: Path) -> None:
    """Write the weights and the arguments of a model."""
    if not model._config:
        raise ValueError(
            "the weights of this model were constructed, so its arguments do not describe it; save model.state_dict() instead."
        )
    Pretrained(_saved_name(type(model)), model._config, model.state_dict()).write(folder)


def load_model(base: type["Model"], folder: Path) -> "Model":
    """Read a model of this class, or of a registered class derived from it. The model is in evaluation mode."""
    saved = Pretrained.read(folder)
    if saved.model != _saved_name(base) and saved.model not in MODELS:
        raise ValueError(
            f"{folder} holds a {saved.model}, which is not registered; import the module that registers it with "
            f"@reign.nn.MODELS.register, or use {saved.model}.from_pretrained."
        )
    kind = base if saved.model == _saved_name(base) else MODELS[saved.model]
    if not issubclass(kind, base):
        raise ValueError(f"{folder} holds a {saved.model}, expected a {base.__name__}; use {saved.model}.from_pretrained.")
    try:
        saved.check_sizes(kind)
        model = kind(**saved.arguments)
        model.to(next((value.dtype for value in saved.weights.values() if value.is_floating_point()), torch.float32))
        model.load_state_dict(saved.weights)
    except Exception as error:  # arguments that do not match the weights can raise any error
        raise ValueError(f"{folder} is damaged: it does not describe a valid {saved.model} ({first_line(error)}).") from error
    return model.eval()


def _saved_name(kind: type["Model"]) -> str:
    """The name of a class, or its registered name if the class cannot be found by its own name."""
    name = kind.__name__
    return name if name in MODELS and MODELS[name] is kind else MODELS.name_of(kind) or name
