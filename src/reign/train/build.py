"""From settings to objects: the problem, and the model for it."""

from typing import TYPE_CHECKING

import torch

from reign._validate import did_you_mean
from reign.data import Problem, load_problem
from reign.nn import Model, find_model
from reign.train.config import DataConfig, ModelConfig
from reign.train.losses import LOSSES
from reign.train.metrics import METRICS
from reign.train.recipe import Recipe
from reign.train.tasks import choose

if TYPE_CHECKING:
    from reign.data.molecules import Report


def make_problem(config: DataConfig) -> "tuple[Problem, Report | None]":
    """The graphs, targets and splits that the settings name; and a report, if they come from a table of molecules."""
    report = None
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
        )
    else:
        problem = load_problem(config.name, **config.options)
    if config.targets is not None:
        problem = problem.select(config.targets)
    return problem if config.limit is None else problem.limit(config.limit), report


def make_model(config: ModelConfig, problem: Problem, seed: int) -> Model:
    """A model of the right sizes and with the right encoders, its weights drawn by the seed; an option that is null keeps its default."""
    options = dict(config.options)
    if problem.node_encoder is not None:
        options.setdefault("node_encoder", problem.node_encoder)
    attr = problem.graphs.edge_attr
    if problem.edge_encoder is not None:
        options.setdefault("edge_encoder", problem.edge_encoder)
    elif attr is not None and attr.is_floating_point():
        options.setdefault("edge_dim", attr.size(1))
    options = {name: value for name, value in options.items() if value is not None}
    typed = "node_encoder" in options
    in_channels = config.hidden_channels if typed else problem.graphs.x.size(1)
    kind = find_model(config.name)
    known = kind.option_names()
    if unknown := [name for name in options if name not in known]:
        raise ValueError(f"model.{unknown[0]} is not an argument of {kind.__name__}{did_you_mean(unknown[0], known)}")
    torch.manual_seed(seed)
    return kind(in_channels, config.hidden_channels, config.num_layers, problem.num_outputs, **options)


def try_model(recipe: Recipe, problem: Problem) -> None:
    """Raise ``ValueError`` now, before anything is written, if the model cannot take these graphs, or the task this loss."""
    choose(LOSSES, recipe.train.loss, problem.task)
    choose(METRICS, recipe.train.metric, problem.task)
    model = make_model(recipe.model, problem, 0).eval()
    b = problem.graphs.to(dtype=torch.float32).batch(problem.splits["train"][:1])
    with torch.no_grad():
        model(b.x, b.edge_index, b.edge_attr, b.batch, b.size)
