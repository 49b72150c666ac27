"""From settings to objects: the problem, and the model for it."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError

from reign._validate import did_you_mean
from reign.bags import free_memory
from reign.data import Problem, load_problem
from reign.disk import first_line
from reign.nn import Model, find_model, num_parameters
from reign.train.engine.callbacks import Callback
from reign.train.engine.history import need_tensorboard
from reign.train.inputs import descriptors_of
from reign.train.settings.config import DataConfig, ModelConfig, Recipe
from reign.train.settings.losses import LOSSES, choose, label_weights
from reign.train.settings.metrics import METRICS

DECIDED = {
    "in_channels": "it follows from the data",
    "out_channels": "it follows from the data",
    "task_level": "recipes predict for graphs",
    "layer": "it is a function",
    "pooling": "it is a function",
}
PLAIN = ConfigDict(arbitrary_types_allowed=True, strict=True)
_WEIGHTS: dict[str, int] = {}  # the numbers of weights of models that were looked at before
COPIES = 4  # numbers kept for each weight: the weight, its gradient, and the two moments of Adam

if TYPE_CHECKING:
    from reign.data.molecules import Report


def make_problem(
    config: DataConfig,
    loaded: dict[str, Problem] | None = None,
    callback: Callback | None = None,
    known_targets: Sequence[str] = (),
) -> "tuple[Problem, Report | None]":
    """The graphs, targets and splits described by the settings, and a report if they come from a table of molecules.

    Args:
        config: the settings.
        loaded: data sets that were loaded before, to which this one is added. Problems that differ in targets then share their graphs.
        callback: receives progress events.
        known_targets: the targets of a run that was started before, in place of the default ones of a table.
    """
    report, loaded, callback = None, {} if loaded is None else loaded, callback or Callback()
    if config.name == "csv":
        from reign.data.molecules import load_table

        assert config.path is not None
        problem, report = load_table(
            config.path,
            config.smiles_columns,
            config.target_columns,
            config.task,
            config.split,
            config.split_sizes,
            config.splits_column,
            config.split_seed,
            weight_column=config.weight_column,
            descriptors=descriptors_of(config),
            progress=callback.track,
            known_targets=known_targets if config.targets is None else (),
            stereo=config.stereo,
        )
    else:
        key = json.dumps([config.name, config.options, config.one_edge_type], sort_keys=True, default=str)
        if key not in loaded:
            (found,) = (load_problem(name, **config.options) for name in callback.track([config.name], f"loading {config.name}"))
            loaded[key] = found.with_one_edge_type() if config.one_edge_type else found
        problem = loaded[key]
    if config.targets is not None:
        problem = problem.select(config.targets)
    return problem if config.limit is None else problem.limit(config.limit), report


def make_model(config: ModelConfig, problem: Problem, seed: int, loss: str | None = None) -> Model:
    """A model with the sizes and encoders that the problem and the loss need, and weights initialised with the seed.

    An option that is null keeps its default; ``edge_encoder: null`` means that edge features are not used.
    """
    options = dict(config.options)
    if problem.node_encoder is not None:
        options.setdefault("node_encoder", problem.node_encoder)
    attr = problem.graphs.edge_attr
    if problem.edge_encoder is not None:
        options.setdefault("edge_encoder", problem.edge_encoder)
    elif attr is not None and attr.is_floating_point():
        options.setdefault("edge_dim", attr.size(1))
    kind = find_model(config.name)
    kept = {"edge_encoder"} & set(inspect.signature(kind).parameters)
    options = {name: value for name, value in options.items() if value is not None or name in kept}
    typed = "node_encoder" in options
    in_channels = config.hidden_channels if typed else problem.graphs.x.size(1)
    check_options(kind, options)
    sizes = in_channels, config.hidden_channels
    num_outputs = problem.num_outputs * LOSSES[choose(LOSSES, loss, problem.task)].outputs

    def build(num_layers: int) -> Model:
        try:
            return kind(*sizes, num_layers, num_outputs, **options)
        except ValueError:
            raise
        except Exception as error:  # values that have the right types but do not fit together can raise any error in torch and PyG
            raise ValueError(f"model: {kind.__name__} cannot be made with {options} ({first_line(error)}).") from error

    _check_memory(build, config, repr((kind, sizes, config.num_layers, num_outputs, options)))
    torch.manual_seed(seed)
    return build(config.num_layers)


def scale_descriptors(model: Model, problem: Problem) -> None:
    """Scale the descriptors of a model, if it has any, by those of the training graphs."""
    fit = getattr(model.node_encoder, "fit", None)
    if fit is not None:
        fit(problem.graphs.x[problem.graphs.node_ptr[problem.splits["train"]]])  # all nodes of a graph have the same


def check_options(kind: type[Model], options: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for an option of a recipe that the model does not take, that follows from the data, or that has a wrong type."""
    known = inspect.signature(kind).parameters
    for name, value in options.items():
        if name in DECIDED:
            raise ValueError(f"model.{name} cannot be set in a recipe: {DECIDED[name]}; leave it out.")
        if name not in known:
            raise ValueError(f"model.{name} is not an argument of {kind.__name__}{did_you_mean(name, list(known))}")
        try:
            TypeAdapter(known[name].annotation, config=PLAIN).validate_python(value)
        except ValidationError as error:
            expected = " or ".join(dict.fromkeys(each["msg"].removeprefix("Input should be ") for each in error.errors()))
            raise ValueError(f"model.{name} is {value!r}, expected {expected}.") from None


def _check_memory(build: Callable[[int], Model], config: ModelConfig, key: str) -> None:
    """Raise ``ValueError`` if a model is too large for the memory, before it is made. Models with the same key have the same size."""
    if key not in _WEIGHTS:
        _WEIGHTS[key] = _num_weights(build, config)
    needed = _WEIGHTS[key] * COPIES * 4
    free = free_memory(torch.device("cpu"))
    if needed > free:
        name = find_model(config.name).__name__
        raise ValueError(
            f"{name} with hidden_channels={config.hidden_channels} and num_layers={config.num_layers} needs {needed / 1e9:,.0f} GB for training, "
            f"but only {free / 1e9:,.0f} GB are free; make the model smaller."
        )


def _num_weights(build: Callable[[int], Model], config: ModelConfig) -> int:
    """The number of weights of a model, estimated from meta tensors of one and two layers."""
    with torch.device("meta"):
        if "widths" in config.options:  # one for each layer
            return num_parameters(build(config.num_layers))
        one, two = num_parameters(build(1)), num_parameters(build(2))
        return one + (config.num_layers - 1) * (two - one)


def try_model(recipe: Recipe, problem: Problem) -> None:
    """Raise ``ValueError`` before anything is written if the model does not accept these graphs, or the loss does not suit the task."""
    choose(LOSSES, recipe.train.loss, problem.task)
    for metric in (recipe.train.metric, *recipe.train.metrics):
        choose(METRICS, metric, problem.task)
    label_weights(problem, recipe.train.class_balance)
    if recipe.train.tensorboard:
        need_tensorboard()
    model = make_model(recipe.model, problem, 0, recipe.train.loss).eval()
    b = problem.graphs.to(dtype=torch.float32).batch(problem.splits["train"][:1])
    try:
        with torch.no_grad():
            model(b.x, b.edge_index, b.edge_attr, b.batch, b.size)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(
            f"model: {type(model).__name__} with {recipe.model.options} fails on the first graph of {problem.name} ({first_line(error)})."
        ) from error
