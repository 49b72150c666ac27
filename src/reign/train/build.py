"""From settings to things: the problem, and the model for it."""

from typing import TYPE_CHECKING

import torch

from reign._validate import did_you_mean
from reign.data import Problem, load_problem
from reign.nn import Model, find_model
from reign.train.config import Data, Recipe
from reign.train.config import Model as ModelSettings
from reign.train.metrics import LOSSES_OF_TASK, METRICS_OF_TASK, choose

if TYPE_CHECKING:
    from reign.data.molecules import Report


def make_problem(config: Data) -> "tuple[Problem, Report | None]":
    """The graphs, targets and splits that settings name, and what was found in a table, if it is one."""
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


def make_model(config: ModelSettings, problem: Problem, seed: int) -> Model:
    """A model of the right sizes and encoders, its weights drawn by the seed; null leaves an argument of it as it is by itself."""
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
        raise ValueError(f"model.{unknown[0]} is no argument of {kind.__name__}{did_you_mean(unknown[0], known)}")
    torch.manual_seed(seed)
    return kind(in_channels, config.hidden_channels, config.num_layers, problem.num_outputs, **options)


def try_model(recipe: Recipe, problem: Problem) -> None:
    """Raise ``ValueError`` now, before anything is written, if the model cannot take these graphs, or the task this loss."""
    choose("loss", recipe.train.loss, LOSSES_OF_TASK, problem.task)
    choose("metric", recipe.train.metric, METRICS_OF_TASK, problem.task)
    model = make_model(recipe.model, problem, 0).eval()
    b = problem.graphs.to(dtype=torch.float32).batch(problem.splits["train"][:1])
    with torch.no_grad():
        model(b.x, b.edge_index, b.edge_attr, b.batch, b.size)
