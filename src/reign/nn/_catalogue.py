"""All models by name; and a model on disk: ``model.safetensors`` holds its weights, ``config.json`` its name and arguments, and the format of the file."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

import reign.policies as policies
from reign.disk import first_line, read_record, read_tensors, write_tensors, write_text
from reign.nn._formats import FORMAT, read_format, todays_options
from reign.policies import Policy
from reign.registry import Registry

if TYPE_CHECKING:
    from reign.nn._model import Model


MODELS: Registry[type["Model"]] = Registry("model", hint="; a model of your own must be registered first")


def list_models() -> list[str]:
    """List the names that ``build_model`` takes: the general model first, then those of the paper and the baselines.

    >>> list_models()[:4]
    ['subgraphgnn', 'sun', 'reign2', 'ds']
    """
    return MODELS.names()


def find_model(name: str) -> "type[Model]":
    """Find a model class by name. Case and punctuation do not matter.

    >>> find_model("GNN-AK+").__name__
    'GNNAKPlus'
    """
    return MODELS[name]


def build_model(name: str, *args: Any, **kwargs: Any) -> "Model":
    """Make a model by name.

    Args:
        name: name of the model; case and punctuation do not matter.
        args, kwargs: arguments of its constructor.

    >>> build_model("dss", 16, 64, 4, 1, policy="nm")
    DSS(16 -> 64 x 4 -> 1, policy='nm', terms=['own+local', 'needle+needle_msg'])
    """
    return find_model(name)(*args, **kwargs)


@dataclass(frozen=True)
class ModelSummary:
    """A model in one line.

    Args:
        name: its name.
        policy: name of its default policy.
        about: the first paragraph of its docstring.
    """

    name: str
    policy: str
    about: str


def model_summaries() -> list[ModelSummary]:
    """A one-line summary of every model in ``list_models``.

    >>> model_summaries()[3]
    ModelSummary(name='ds', policy='ego+:3', about='DS-GNN: message passing in every subgraph, then a set network over the subgraphs.')
    """
    summaries = []
    for name, kind in MODELS.items():
        about = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
        summaries.append(ModelSummary(name, str(build_model(name, 8, 8, 2, 1).policy), about))
    return summaries


# -- on disk -------------------------------------------------------------------------------------------------------------------


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
            text = json.dumps({"format": FORMAT, "model": self.model, "arguments": arguments}, indent=2)
        except TypeError as error:
            raise ValueError(
                f"the arguments of this {self.model} cannot be written as JSON ({error}); save model.state_dict() instead."
            ) from None
        write_tensors(folder / "model.safetensors", self.weights)
        write_text(folder / "config.json", text + "\n")

    @classmethod
    def read(cls, folder: Path) -> "Pretrained":
        """Read both files. Options that a file of an earlier format does not have get the defaults of that time."""
        config, weights = folder / "config.json", folder / "model.safetensors"
        if not config.is_file() or not weights.is_file():
            raise ValueError(f"{folder} holds no config.json and model.safetensors, expected a folder written by save_pretrained.")
        saved = read_record(config, model=str, arguments=dict)
        tensors, _ = read_tensors(weights)
        if bad := [name for name, value in tensors.items() if value.is_floating_point() and not bool(value.isfinite().all())]:
            raise ValueError(f"{weights} holds NaN or infinity in '{bad[0]}', expected finite weights.")
        format = read_format(saved.get("format", 1), config)
        return cls(saved["model"], todays_options(saved["model"], saved["arguments"], format), tensors)

    def check_sizes(self, kind: Callable[..., nn.Module]) -> None:
        """Raise ``ValueError`` if the weights do not have the sizes that the arguments describe. No memory is allocated for the model."""
        numbers = sum(value.numel() for value in self.weights.values())
        for name, value in self.arguments.items():
            for size in value if isinstance(value, list) else [value]:
                if isinstance(size, int) and size > numbers:  # every channel, layer and type has at least one weight
                    raise ValueError(f"{name} is {size}, but there are only {numbers} weights")
        with torch.device("meta"):
            expected = kind(**self.arguments).state_dict()
        for name, value in expected.items():
            if name not in self.weights or self.weights[name].shape != value.shape:
                shape = tuple(self.weights[name].shape) if name in self.weights else "missing"
                raise ValueError(f"the weight {name} is {shape}, expected the shape {tuple(value.shape)}")


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
