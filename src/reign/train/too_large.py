"""Rows of a table whose molecules are too large for the memory. They are left out of a run, with a reason, before it starts.

A run stores these rows in its ``problem.json``, so that it can be resumed with the same rows on any machine.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from reign.data import Problem
from reign.disk import read_record
from reign.train.build import make_model
from reign.train.engine.batches import TOO_LARGE, pairs_of, why_too_large
from reign.train.engine.execution import dtype_of
from reign.train.settings.config import Recipe

if TYPE_CHECKING:
    from reign.data.molecules import Report

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


def saved_too_large(file: Path, about: dict[str, Any], problem: Problem) -> dict[str, str]:
    """The rows that were left out when the run was started, as recorded in ``problem.json``."""
    found = about.get("too_large", {})
    good = isinstance(found, dict) and all(isinstance(reason, str) for reason in found.values())
    if not good or not found.keys() <= set(problem.names or []):
        raise ValueError(f"{file} is damaged (too_large is {found!r:.80}, expected rows of {problem.name} with reasons).")
    return found


def problem_of_run(folder: Path, problem: Problem) -> Problem:
    """The problem without the rows that the run left out when it was started, for another process that trains a model of the run."""
    file = folder / "problem.json"
    rows = saved_too_large(file, read_record(file), problem)
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
            "'ego+:3@0.5' (for models without root terms)."
        )
    report.leave_out({int(row): reason for row, reason in rows.items()})
    kept = problem.without(graphs)
    report.splits = {split: int(kept.splits[split].numel()) if split in kept.splits else 0 for split in report.splits}
    return kept
