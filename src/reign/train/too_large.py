"""Rows of a table whose molecules are too large for the memory: they are left out of a run, with the reason, before it begins.

A run keeps these rows in its ``problem.json``, so that it continues with the same rows on any machine.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from reign.data import Problem
from reign.disk import read_record
from reign.train.batches import pairs_of
from reign.train.budget import TOO_LARGE, why_too_large
from reign.train.build import make_model
from reign.train.formats import dtype_of
from reign.train.recipe import Recipe

if TYPE_CHECKING:
    from reign.data.molecules import Report

SMALL = 100  # nodes of a graph that is not looked at: even with a subgraph for each pair of nodes it has few pairs


def find_too_large(recipe: Recipe, problem: Problem, device: torch.device) -> dict[str, str]:
    """The rows whose graphs a model of the recipe cannot learn from on this device, and why."""
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
    """The rows that ``problem.json`` says were left out when the run began."""
    found = about.get("too_large", {})
    good = isinstance(found, dict) and all(isinstance(reason, str) for reason in found.values())
    if not good or not found.keys() <= set(problem.names or []):
        raise ValueError(f"{file} is damaged (too_large is {found!r:.80}, expected rows of {problem.name} and the reasons).")
    return found


def problem_of_run(folder: Path, problem: Problem) -> Problem:
    """The problem without the rows that a run left out when it began, for another process that trains a model of the run."""
    file = folder / "problem.json"
    rows = saved_too_large(file, read_record(file), problem)
    return problem.without({g for g, row in enumerate(problem.names or []) if row in rows}) if rows else problem


def leave_out(problem: Problem, report: "Report", rows: dict[str, str]) -> Problem:
    """The problem without some rows, which the report then has among those that were left out."""
    if not rows:
        return problem
    assert problem.names is not None
    name, reason = next(iter(rows.items()))
    graphs = {g for g, row in enumerate(problem.names) if row in rows}
    if len(graphs) == len(problem.graphs) or graphs.issuperset(problem.splits["train"].tolist()):
        raise ValueError(
            f"{problem.name} has no row to learn from; row {name}: {reason}. Use fewer hidden_channels or num_layers, or a sampled policy as "
            "'ego+:3@0.5' (models without terms of roots)."
        )
    report.leave_out({int(row): reason for row, reason in rows.items()})
    kept = problem.without(graphs)
    report.splits = {split: int(kept.splits[split].numel()) if split in kept.splits else 0 for split in report.splits}
    return kept
