"""From settings to things: the problem, and the model for it."""

from typing import TYPE_CHECKING

import torch

from reign.catalogue import build_model
from reign.data.catalogue import load_problem
from reign.data.problem import Problem
from reign.nn.model import Model
from reign.train.recipe import Data
from reign.train.recipe import Model as ModelSettings

if TYPE_CHECKING:
    from reign.data.table import Report


def make_problem(config: Data) -> "tuple[Problem, Report | None]":
    """The graphs, targets and splits that settings name, and what was found in a table, if it is one."""
    report = None
    if config.name == "csv":
        from reign.data.table import load_table

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
    torch.manual_seed(seed)
    try:
        return build_model(config.name, in_channels, config.hidden_channels, config.num_layers, problem.num_outputs, **options)
    except TypeError as error:
        raise ValueError(f"model: {error}; the arguments of {config.name} are shown by help(reign.nn).") from None


def try_model(config: ModelSettings, problem: Problem) -> None:
    """Raise ``ValueError`` now, before anything is written, if the model cannot take these graphs."""
    model = make_model(config, problem, 0).eval()
    b = problem.graphs.to(dtype=torch.float32).batch(problem.splits["train"][:1])
    with torch.no_grad():
        model(b.x, b.edge_index, b.edge_attr, b.batch, b.size)
