"""A model on disk: ``model.safetensors`` holds its weights, ``config.json`` its name and arguments, and the format of the file.

A saved model or run holds only the options that its user gave. All others are defaults, so a file whose format is older than a change of a
default has to be read with the default of its time. Formats: 1 (files without a number), up to commit 8599632; and 2, in which models by
name are the formulas of the paper.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

import reign.policies as policies
from reign.disk import first_line, read_record, read_tensors, write_tensors, write_text
from reign.nn._arguments import constructor_of
from reign.nn._catalogue import MODELS
from reign.policies import Policy

if TYPE_CHECKING:
    from reign.nn._model import Model

Options = dict[str, object]
FORMAT = 2

_BLOCKS: Options = {
    "combine": "linear",
    "aggregation": "mean",
    "end_norm": True,
    "end_act": True,
    "graph_pooling": "mean",
    "domain": "members",
}
OLD_DEFAULTS: dict[str, Options] = {  # of format 1: model -> option -> default
    "GNNAK": _BLOCKS,
    "GNNAKctx": _BLOCKS,
    "NGNN": {"readout": "mean", "graph_pooling": "mean"},
    "IDGNN": {"graph_pooling": "mean"},
}
OLD_VALUES = {"GNNAK": {"combine": {"cat": "linear"}}}  # of format 1: model -> option -> value -> its name today


def read_format(found: object, source: object) -> int:
    """The format of a file; ``ValueError`` if it is not one that this version reads."""
    if type(found) is not int or not 1 <= found <= FORMAT:
        raise ValueError(
            f"{source} has the format {found!r:.80}, expected a number up to {FORMAT}; a newer one needs a newer version of reign."
        )
    return found


def todays_options(model: type, options: Mapping[str, object], format: int) -> Options:
    """The options of a model in a file as this version reads them: with defaults that have changed since spelled out.

    >>> from reign.nn import NGNN
    >>> todays_options(NGNN, {"outer_layers": 2}, 1)
    {'outer_layers': 2, 'readout': 'mean', 'graph_pooling': 'mean'}
    >>> todays_options(NGNN, {"outer_layers": 2}, 2)
    {'outer_layers': 2}
    """
    found, declared = dict(options), set[str]()  # a class of a user has the defaults of its parents, but for those that it declares
    for kind in model.__mro__ if format < 2 else ():
        name = kind.__name__ if kind.__module__.startswith("reign.nn.models.") else ""
        for option, new in OLD_VALUES.get(name, {}).items():
            found |= {option: new[value]} if isinstance(value := found.get(option), str) and value in new else {}
        given = {option for option in found if found[option] is not None}
        found |= {option: old for option, old in OLD_DEFAULTS.get(name, {}).items() if option not in given | declared}
        if not OLD_DEFAULTS.get(name) and (constructor := constructor_of(kind)):
            declared |= set(inspect.signature(constructor).parameters)
        declared |= set(vars(kind).get("defaults", {}))
    return found


@dataclass(frozen=True)
class Pretrained:
    """The contents of a folder written by ``save_pretrained``.

    Args:
        model: name of the model.
        arguments: the arguments that its constructor was given.
        weights: its ``state_dict``.
        format: the format of the file.
    """

    model: str
    arguments: dict[str, Any]
    weights: dict[str, Tensor]
    format: int = FORMAT

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
        """Read both files."""
        config, weights = folder / "config.json", folder / "model.safetensors"
        if not config.is_file() or not weights.is_file():
            raise ValueError(f"{folder} holds no config.json and model.safetensors, expected a folder written by save_pretrained.")
        saved = read_record(config, model=str, arguments=dict)
        tensors, _ = read_tensors(weights)
        if bad := [name for name, value in tensors.items() if value.is_floating_point() and not bool(value.isfinite().all())]:
            raise ValueError(f"{weights} holds NaN or infinity in '{bad[0]}', expected finite weights.")
        return cls(saved["model"], saved["arguments"], tensors, read_format(saved.get("format", 1), config))

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


def save_model(model: "Model", folder: str | Path) -> None:
    """Save the weights (safetensors) and the arguments of the model (JSON).

    Args:
        folder: folder to save to; it is created if it does not exist.
    """
    if not model._config:
        raise ValueError(
            "the weights of this model were constructed, so its arguments do not describe it; save model.state_dict() instead."
        )
    Pretrained(_saved_name(type(model)), model._config, model.state_dict()).write(Path(folder))


def load_model(base: type["Model"], folder: str | Path) -> "Model":
    """Load a model that ``save_pretrained`` saved, in evaluation mode.

    Args:
        folder: the folder it was saved in. A custom model class is found if it is registered in ``MODELS``.
    """
    saved = Pretrained.read(Path(folder))
    if saved.model != _saved_name(base) and saved.model not in MODELS:
        raise ValueError(
            f"{folder} holds a {saved.model}, which is not registered; import the module that registers it with "
            f"@reign.nn.MODELS.register, or use {saved.model}.from_pretrained."
        )
    kind = base if saved.model == _saved_name(base) else MODELS[saved.model]
    if not issubclass(kind, base):
        raise ValueError(f"{folder} holds a {saved.model}, expected a {base.__name__}; use {saved.model}.from_pretrained.")
    try:
        saved = replace(saved, arguments=todays_options(kind, saved.arguments, saved.format))
        saved.check_sizes(kind)
        model = kind(**saved.arguments)
        dtypes = {value.dtype for value in saved.weights.values() if value.is_floating_point()}
        model.to(
            reduce(torch.promote_types, dtypes) if dtypes else torch.float32
        )  # weights may be shorter than statistics of norms
        model.load_state_dict(saved.weights)
    except Exception as error:  # arguments that do not match the weights can raise any error
        raise ValueError(f"{folder} is damaged: it does not describe a valid {saved.model} ({first_line(error)}).") from error
    return model.eval()


def _saved_name(kind: type["Model"]) -> str:
    """The name of a class, or its registered name if the class cannot be found by its own name."""
    name = kind.__name__
    return name if name in MODELS and MODELS[name] is kind else MODELS.name_of(kind) or name
