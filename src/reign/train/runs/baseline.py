"""Fit a forest next to the models of a run on a table of molecules, so that its results can be seen next to theirs."""

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import Ids, Problem
from reign.train.engine.callbacks import Callback
from reign.train.predict.ensemble import TrainedModel, forecast
from reign.train.predict.forest import FEWEST, MOST, Forest, describe
from reign.train.runs.jobs import Member
from reign.train.runs.results import Baseline, Spread
from reign.train.runs.run import Run
from reign.train.settings.config import Recipe
from reign.train.settings.losses import as_outputs
from reign.train.settings.metrics import METRICS


def wants_forest(recipe: Recipe, problem: Problem) -> bool:
    """Whether a forest is fitted: for tables of molecules that have rows to compare it on, and are neither too small for it nor too large to do it quickly.

    ``ValueError`` if the run is to predict with a forest, but the table is too large for one, or the data set does not keep its SMILES.
    """
    rows = sum(ids.numel() for ids in problem.splits.values())
    known = problem.texts.keys() >= set(recipe.data.smiles_columns)
    if recipe.ensemble_with and not known:
        raise ValueError(f"--ensemble-with {recipe.ensemble_with} needs SMILES, but {problem.name} has only graphs; leave it out.")
    if recipe.ensemble_with and rows > MOST:
        raise ValueError(
            f"--ensemble-with {recipe.ensemble_with} is for tables of at most {MOST:,} molecules, but {problem.name} has {rows:,}; leave it out."
        )
    enough = problem.splits["train"].numel() >= FEWEST and (recipe.folds is not None or len(problem.splits) > 1)
    return recipe.ensemble_with is not None or (known and recipe.baseline == "auto" and enough and rows <= MOST)


def _kept(file: Path, recipe: Recipe, run: Run, problem: Problem) -> Forest | None:
    """The forest in a file; None if there is none. One that is only for comparison, and cannot be used, counts as none."""
    try:
        return Forest.load(file, problem.num_outputs) if file.is_file() else None
    except ValueError as error:
        if recipe.ensemble_with is None:
            return None
        raise ValueError(
            f"{error} To fit it again, delete the file, and continue with: reign train --resume {run.folder}"
        ) from None


def fit_baseline(
    recipe: Recipe, run: Run, problem: Problem, members: Sequence[Member], metric: str, report: str, callback: Callback
) -> tuple[Baseline, Float[Tensor, "models graphs outputs"]]:
    """The results of a forest for each split of the rows, and its predictions for the held-out rows of each model; NaN for others.

    A forest that was fitted before is not fitted again.

    Args:
        recipe, run, problem: the settings, the folder and the data of the run.
        members: its models, which are trained.
        metric, report: the metric, and which weights of the models are reported.
        callback: receives progress events.
    """
    began = time.monotonic()
    files = [run.forest_of(member.folder) for member in members]
    first = {file: members[files.index(file)] for file in files}
    forests = {file: forest for file in first if (forest := _kept(file, recipe, run, problem)) is not None}
    learned = [m.problem.splits["train"] for file, m in first.items() if file not in forests]
    held = [ids for m in first.values() for split, ids in m.problem.splits.items() if split != "train"]
    ids = torch.cat([*learned, *held, torch.zeros(0, dtype=torch.long)]).unique()
    place = torch.zeros(len(problem.graphs), dtype=torch.long)
    place[ids] = torch.arange(ids.numel())
    texts = [[column[i] for i in ids.tolist()] for column in problem.texts.values()]
    x = describe(problem.graphs.select(ids), texts, recipe.data, callback)
    values: dict[Path, Tensor] = {}
    for file, member in first.items():
        train = member.problem.splits["train"]
        if file not in forests:
            forests[file] = Forest.fit(x[place[train].numpy()], member.problem, train, recipe.train.class_balance)
            forests[file].save(file)
        values[file] = torch.full((len(problem.graphs), problem.num_outputs), torch.nan, dtype=torch.float64)
        for split, own in member.problem.splits.items():
            if split != "train":
                values[file][own] = forests[file](x[place[own].numpy()])
    beside = torch.stack([values[file] for file in files])

    def measured(split: str, predicted: dict[Path, Tensor]) -> dict[str, object]:
        """The metric of predictions for all graphs on a split, for each split of the rows."""
        found = []
        for file, member in first.items():
            own: Ids = member.problem.splits[split]
            found.append(METRICS[metric](as_outputs(predicted[file][own], problem.task), problem.y[own]))
        return Spread.over(found).to_dict()

    splits = [split for split in members[0].problem.splits if split != "train"]
    trees, columns = next(iter(forests.values())).size
    alone = {split: measured(split, values) for split in splits}
    out: dict[str, object] = {"name": "forest", **{split: alone.pop(split) for split in ("val", "test") if split in alone}}
    out |= {"parts": alone} if alone else {}
    if "val" in splits:
        out["val_rows"] = torch.cat([member.problem.splits["val"] for member in first.values()]).unique().numel()
    if recipe.ensemble_with:
        both = {file: values[file].clone() for file in first}
        for file, member in first.items():
            partners = [m for m in members if run.forest_of(m.folder) == file]
            models = [TrainedModel.load(m.folder, report, recipe.train, problem.num_outputs, "cpu") for m in partners]
            for split in splits:
                own = member.problem.splits[split]
                repeated = values[file].expand(len(models), -1, -1)
                both[file][own] = forecast(models, problem.graphs, own, problem.task, None, callback, beside=repeated).values
        out["together"] = {split: measured(split, both) for split in splits}
    out |= {"trees": trees, "columns": columns, "seconds": round(time.monotonic() - began, 2)}
    callback.note(f"A forest of {trees} trees on {columns:,} columns, to compare with, took {out['seconds']:.0f} s.")
    return Baseline.model_validate(out), beside
