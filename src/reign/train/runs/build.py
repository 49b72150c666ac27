"""From settings to objects: the problem, and the model for it."""

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError
from torch import nn

from reign._validate import did_you_mean
from reign.bags import free_memory
from reign.data import Problem, load_problem
from reign.disk import first_line
from reign.nn import Model, find_model, num_parameters
from reign.train.engine.batches import TOO_LARGE, pairs_of, why_too_large
from reign.train.engine.callbacks import Callback, need_tensorboard
from reign.train.engine.execution import dtype_of
from reign.train.runs.encoders import Encoder, checksum
from reign.train.runs.run import Run
from reign.train.settings.config import DataConfig, ModelConfig, Recipe, TrainingConfig
from reign.train.settings.losses import LOSSES, choose, label_weights
from reign.train.settings.metrics import METRICS
from reign.train.settings.yaml import RawSettings

if TYPE_CHECKING:
    from reign.data.molecules import Report


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
        same = {name: getattr(config, name) for name in inspect.signature(load_table).parameters.keys() & type(config).model_fields}
        known_targets = known_targets if config.targets is None else ()
        problem, report = load_table(**same, descriptors=config.descriptors(), progress=callback.track, known_targets=known_targets)
    else:
        key = json.dumps([config.name, config.options, config.one_edge_type], sort_keys=True, default=str)
        if key not in loaded:
            names = callback.track([config.name], f"loading {config.name}")
            (found,) = (load_problem(name, callback.track, **config.options) for name in names)
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
    label_weights(problem, recipe.train.class_balance, recipe.train.task_weights)
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


# -- Rows of a table whose molecules are too large for the memory. They are left out of a run, with a reason, before it starts
# A run stores these rows with its problem, so that it can be resumed with the same rows on any machine.


SMALL = 100  # graphs with fewer nodes are not checked: even with a subgraph for each pair of nodes they are small enough


def find_too_large(recipe: Recipe, problem: Problem, device: torch.device) -> dict[str, str]:
    """The rows whose graphs are too large for a model of the recipe on this device, with the reasons."""
    assert problem.names is not None
    large = (problem.graphs.sizes > SMALL).nonzero().flatten()
    if not large.numel():
        return {}
    model = make_model(recipe.model, problem, 0, recipe.train.loss).to(dtype_of(recipe.train.precision))
    pairs = pairs_of(model, problem.graphs.select(large)).tolist()
    training = not model.policy.random  # a policy that samples learns from fewer pairs than it predicts with
    whys = [why_too_large(model, each, device, training) for each in pairs]
    return {problem.names[g]: f"{TOO_LARGE}, {why}" for g, why in zip(large.tolist(), whys, strict=True) if why is not None}


def saved_too_large(run: Run, problem: Problem) -> dict[str, str]:
    """The rows that were left out when the run was started."""
    rows = run.problem.too_large
    if not rows.keys() <= set(problem.names or []):
        raise ValueError(
            f"{run.files.problem} is damaged (too_large is {rows!r:.80}, expected rows of {problem.name} with reasons)."
        )
    return rows


def problem_of_run(run: Run, problem: Problem) -> Problem:
    """The problem without the rows that the run left out when it was started, for another process that trains a model of the run."""
    rows = saved_too_large(run, problem)
    return problem.without({g for g, row in enumerate(problem.names or []) if row in rows}) if rows else problem


def leave_out(problem: Problem, report: "Report", rows: dict[str, str]) -> Problem:
    """The problem without some rows, which are added to the rows left out in the report."""
    if not rows:
        return problem
    assert problem.names is not None
    name, reason = next(iter(rows.items()))
    graphs = {g for g, row in enumerate(problem.names) if row in rows}
    if len(graphs) == len(problem.graphs) or graphs.issuperset(problem.splits["train"].tolist()):
        raise ValueError(
            f"{problem.name} has no row to learn from; row {name}: {reason}. Use fewer hidden_channels or num_layers, or a sampled policy such as "
            "'ego+:3@0.5+mean'."
        )
    report.leave_out({int(row): reason for row, reason in rows.items()})
    kept = problem.without(graphs)
    report.splits = {split: int(kept.splits[split].numel()) if split in kept.splits else 0 for split in report.splits}
    return kept


# -- Fine-tuning: a model starts from the weights of a finished run, with a new last layer for new targets -------------


def start_from(model: Model, config: TrainingConfig, problem: Problem, seed: int) -> bool:
    """Load the weights of ``train.checkpoint``, a run or an encoder, into a model, if one is given. Return whether the last layer was loaded, too.

    A run can have several models: seed s starts from model s, modulo their number. If the targets or classes differ, the last layer keeps its
    random weights.
    """
    if config.frozen_epochs:
        option = "--freeze-encoder" if config.freeze_encoder else "--freeze-epochs"
        if config.checkpoint is None:
            raise ValueError(f"{option} needs a run with a trained encoder; give it with --checkpoint.")
        if not isinstance(getattr(model, "head", None), nn.Module):
            raise ValueError(f"{option} trains only the head, but {type(model).__name__} has none.")
    if config.checkpoint is None:
        return True
    if (encoder := Encoder.find(config.checkpoint)) is not None:
        source, weights, same = encoder.folder, encoder.weights(), False
    else:
        run = Run.open(config.checkpoint)
        source, weights = run.folder, run.members[seed % len(run.members)].model().state_dict()
        same = [run.problem.task, run.problem.targets, run.problem.classes] == [problem.task, problem.targets, problem.classes]
    own = model.state_dict()
    last = f"head.lin{getattr(model.head, 'depth', 0)}."
    same = same and all(own[name].shape == weights[name].shape for name in own if name.startswith(last) and name in weights)
    if not same:
        weights = {name: own.get(name, value) if name.startswith(last) else value for name, value in weights.items()}
    wrong = [
        name for name in {**own, **weights} if name not in own or name not in weights or own[name].shape != weights[name].shape
    ]
    if wrong:
        raise ValueError(
            f"the weights of {source} do not fit this model ({wrong[0]} differs); leave out --model, --policy, descriptors and settings of the model, so "
            "that its own settings are used."
        )
    model.load_state_dict(weights)
    return same


def check_stereo(recipe: Recipe) -> None:
    """Raise ``ValueError`` if a recipe starts from a run that sees chirality in another way, so that its weights for it mean something else."""
    assert recipe.train.checkpoint is not None
    here, there = recipe.data.stereo, stereo_of(Path(recipe.train.checkpoint)).get("stereo", recipe.data.stereo)
    if recipe.data.name == "csv" and "none" not in (here, there) and here != there:
        raise ValueError(
            f"data.stereo is {here!r}, but the run {recipe.train.checkpoint}, whose weights are to be used, has the feature of chirality {there!r}; use it "
            f"here too, with --set data.stereo={there}, or neither, with --ignore-stereo."
        )


def origin_of(checkpoint: str) -> dict[str, str]:
    """The checksum of the weights of a run or an encoder, and what the card of the encoder, which the run may have started from, says about its data."""
    if (encoder := Encoder.find(checkpoint)) is not None:
        found, about = str(encoder.card["sha256"]), encoder.card
    else:
        run = Run.open(checkpoint)
        files = [member.files.weights(run.summary.report) / "model.safetensors" for member in run.members]
        found, about = hashlib.sha256("".join(map(checksum, files)).encode()).hexdigest(), run.environment.start
    return {"sha256": found, **{key: str(about[key]) for key in ("data", "licence") if about.get(key)}}


def freeze_encoder(model: nn.Module) -> list[nn.Parameter]:
    """Train only the head from now on. Return the other weights that were trained until now."""
    frozen = [weight for name, weight in model.named_parameters() if weight.requires_grad and not name.startswith("head.")]
    for weight in frozen:
        weight.requires_grad_(False)
    return frozen


def hold_encoder(model: nn.Module) -> None:
    """Put everything except the head into evaluation mode, so that norms keep their statistics and there is no dropout."""
    for name, part in model.named_children():
        if name != "head":
            part.eval()


def stereo_of(folder: Path) -> RawSettings:
    """The setting ``data.stereo`` that gives tables the feature of chirality of a finished run or an encoder; empty if the run is not on molecules."""
    if (encoder := Encoder.find(folder)) is not None:
        return {"stereo": encoder.card["stereo"]}
    data = Run.open(folder).recipe.data
    return {"stereo": data.stereo_of_graphs} if data.reads_smiles else {}


def model_of(folder: Path) -> RawSettings:
    """The settings of the model of a finished run or an encoder."""
    if (encoder := Encoder.find(folder)) is not None:
        return encoder.model_settings()
    return Run.open(folder).recipe.model.model_dump(mode="json")
