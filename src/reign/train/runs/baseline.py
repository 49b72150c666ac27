"""Fit a forest next to the models of a run on a table of molecules, so that its results can be seen next to theirs."""

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


class NotNeeded(Exception):
    """The forest is not needed any more."""


@dataclass(frozen=True)
class Forests:
    """The forests of a run: one for each split of the rows.

    Args:
        by_file: the forests, by their files.
        values: for each file, the predictions for the held-out rows; NaN for other graphs.
        seconds: how long they took.
    """

    by_file: dict[Path, Forest]
    values: dict[Path, Tensor]
    seconds: float

    @classmethod
    def fit(
        cls, recipe: Recipe, run: Run, problem: Problem, members: Sequence[Member], callback: Callback, spare: int
    ) -> "Forests":
        """Fit the forests of a run, but those that were fitted before, and write them.

        Args:
            recipe, run, problem: the settings, the folder and the data of the run.
            members: its models.
            callback: receives progress events.
            spare: number of cores to leave to others.
        """
        from reign.data.molecules import cores

        began, workers = time.monotonic(), max(1, cores() - spare)
        first = _first(run, members)
        forests = {file: forest for file in first if (forest := _kept(file, recipe, run, problem)) is not None}
        learned = [m.problem.splits["train"] for file, m in first.items() if file not in forests]
        held = [ids for m in first.values() for split, ids in m.problem.splits.items() if split != "train"]
        ids = torch.cat([*learned, *held, torch.zeros(0, dtype=torch.long)]).unique()
        place = torch.zeros(len(problem.graphs), dtype=torch.long)
        place[ids] = torch.arange(ids.numel())
        texts = [[column[i] for i in ids.tolist()] for column in problem.texts.values()]
        x = describe(problem.graphs.select(ids), texts, recipe.data, callback, workers if spare else None)
        values: dict[Path, Tensor] = {}
        for file, member in first.items():
            train = member.problem.splits["train"]
            if file not in forests:
                rows = x[place[train].numpy()]
                forests[file] = Forest.fit(rows, member.problem, train, recipe.train.class_balance, callback, workers)
                forests[file].save(file)
            values[file] = torch.full((len(problem.graphs), problem.num_outputs), torch.nan, dtype=torch.float64)
            for split, own in member.problem.splits.items():
                if split != "train":
                    values[file][own] = forests[file](x[place[own].numpy()])
        return cls(forests, values, time.monotonic() - began)


def _first(run: Run, members: Sequence[Member]) -> dict[Path, Member]:
    """The file of each forest, and the first model with the same rows."""
    first: dict[Path, Member] = {}
    for member in members:
        first.setdefault(run.forest_of(member.folder), member)
    return first


class Beside(Callback):
    """A thread that fits forests while models are trained. It leaves a core to these, and ends soon after the context does."""

    def __init__(self) -> None:
        self.pool, self.over = ThreadPoolExecutor(1, "reign-forest"), False

    def __enter__(self) -> "Beside":
        return self

    def __exit__(self, *error: object) -> None:
        self.over = True
        self.pool.shutdown(cancel_futures=True)

    def track(self, items: Iterable[Any], label: str) -> Iterator[Any]:
        """The items, until the context ends."""
        for item in items:
            if self.over:
                raise NotNeeded
            yield item

    def start(self, recipe: Recipe, run: Run, problem: Problem, members: Sequence[Member]) -> "Future[Forests]":
        """Fit the forests of a run."""
        return self.pool.submit(Forests.fit, recipe, run, problem, members, self, 1)


def compare_forests(
    forests: Forests,
    recipe: Recipe,
    run: Run,
    problem: Problem,
    members: Sequence[Member],
    metric: str,
    report: str,
    callback: Callback,
) -> tuple[Baseline, Float[Tensor, "models graphs outputs"]]:
    """The results of forests for each split of the rows, and the predictions of the one beside each model, see ``Forests.values``.

    Args:
        forests: the forests.
        recipe, run, problem: the settings, the folder and the data of the run.
        members: its models, which are trained.
        metric, report: the metric, and which weights of the models are reported.
        callback: receives progress events.
    """
    first, values = _first(run, members), forests.values
    beside = torch.stack([values[run.forest_of(member.folder)] for member in members])

    def measured(split: str, predicted: dict[Path, Tensor]) -> dict[str, object]:
        """The metric of predictions for all graphs on a split, for each split of the rows."""
        found = []
        for file, member in first.items():
            own: Ids = member.problem.splits[split]
            found.append(METRICS[metric](as_outputs(predicted[file][own], problem.task), problem.y[own]))
        return Spread.over(found).to_dict()

    splits = [split for split in members[0].problem.splits if split != "train"]
    trees, columns = next(iter(forests.by_file.values())).size
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
    out |= {"trees": trees, "columns": columns, "seconds": round(forests.seconds, 2)}
    callback.note(f"A forest of {trees} trees on {columns:,} columns, to compare with, took {out['seconds']:.0f} s.")
    return Baseline.model_validate(out), beside
