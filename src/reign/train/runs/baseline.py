"""Fit a forest and a Gaussian process next to the models of a run on a table of molecules, so that their results can be seen next to theirs."""

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
from reign.disk import first_line
from reign.train.engine.callbacks import Callback
from reign.train.predict.ensemble import KINDS, TrainedModel, forecast
from reign.train.predict.forest import FEWEST, MOST, Forest, describe
from reign.train.predict.gaussian import GaussianProcess
from reign.train.runs.jobs import Member
from reign.train.runs.results import Baseline, Spread
from reign.train.runs.run import Run
from reign.train.settings.config import PARTNERS, Partner, Recipe
from reign.train.settings.losses import as_outputs
from reign.train.settings.metrics import METRICS


def wanted(recipe: Recipe, problem: Problem) -> list[Partner]:
    """What is fitted: a forest, and a Gaussian process for numbers, for tables of molecules that have rows to compare them on, and are neither too small
    nor too large to do it quickly; and what the run is to predict with.

    ``ValueError`` if that is not possible, because the table is too large, the data set does not keep its SMILES, or a Gaussian process is to predict classes.
    """
    if problem.task != "regression" and "gp" in recipe.ensemble_with:
        raise ValueError(
            "--ensemble-with gp is for numbers, but the targets are classes; leave it out, or use --ensemble-with forest."
        )
    rows = sum(ids.numel() for ids in problem.splits.values())
    known = problem.texts.keys() >= set(recipe.data.smiles_columns)
    if recipe.ensemble_with and not known:
        raise ValueError(
            f"--ensemble-with {' '.join(recipe.ensemble_with)} needs SMILES, but {problem.name} has only graphs; leave it out."
        )
    if recipe.ensemble_with and rows > MOST:
        raise ValueError(
            f"--ensemble-with {' '.join(recipe.ensemble_with)} is for tables of at most {MOST:,} molecules, but {problem.name} has {rows:,}; leave it out."
        )
    enough = problem.splits["train"].numel() >= FEWEST and (recipe.folds is not None or len(problem.splits) > 1)
    compared = ("forest", "gp") if problem.task == "regression" else ("forest",)
    fits = known and recipe.baseline == "auto" and enough and rows <= MOST
    return [name for name in PARTNERS if name in recipe.ensemble_with or (fits and name in compared)]


def _kept(file: Path, name: Partner, recipe: Recipe, run: Run, problem: Problem) -> Forest | GaussianProcess | None:
    """The forest or Gaussian process in a file; None if there is none. One that is only for comparison, and cannot be used, counts as none."""
    try:
        return KINDS[name].load(file, problem.num_outputs) if file.is_file() else None
    except ValueError as error:
        if name not in recipe.ensemble_with:
            return None
        raise ValueError(
            f"{error} To fit it again, delete the file, and continue with: reign train --resume {run.folder}"
        ) from None


class NotNeeded(Exception):
    """The baselines are not needed any more."""


@dataclass(frozen=True)
class Predicted:
    """The forests, or the Gaussian processes, of a run: one for each split of the rows.

    Args:
        size: of the first one, as trees and columns.
        values: for each file, the predictions for the held-out rows; NaN for other graphs.
        seconds: how long they took.
    """

    size: dict[str, int]
    values: dict[Path, Tensor]
    seconds: float


@dataclass(frozen=True)
class Baselines:
    """The baselines of a run, why others failed, and how long the descriptors of molecules took, which all of them read."""

    fitted: dict[Partner, Predicted]
    failed: dict[Partner, str]
    seconds: float

    @classmethod
    def fit(
        cls, recipe: Recipe, run: Run, problem: Problem, members: Sequence[Member], callback: Callback, spare: int
    ) -> "Baselines":
        """Fit the baselines of a run, but those that were fitted before, and write them.

        Args:
            recipe, run, problem: the settings, the folder and the data of the run.
            members: its models.
            callback: receives progress events.
            spare: number of cores to leave to others.
        """
        from reign.data.molecules import cores

        began, workers = time.monotonic(), max(1, cores() - spare)
        first = {name: _first(run, members, name) for name in wanted(recipe, problem)}
        made = {
            file: each for name, of in first.items() for file in of if (each := _kept(file, name, recipe, run, problem)) is not None
        }
        learned = [m.problem.splits["train"] for of in first.values() for file, m in of.items() if file not in made]
        held = [ids for m in members for split, ids in m.problem.splits.items() if split != "train"]
        ids = torch.cat([*learned, *held, torch.zeros(0, dtype=torch.long)]).unique()
        place = torch.zeros(len(problem.graphs), dtype=torch.long)
        place[ids] = torch.arange(ids.numel())
        texts = [[column[i] for i in ids.tolist()] for column in problem.texts.values()]
        x = describe(problem.graphs.select(ids), texts, recipe.data, callback, workers if spare else None)
        read, fitted, failed = time.monotonic(), dict[Partner, Predicted](), dict[Partner, str]()

        def fit(name: Partner, of: dict[Path, Member]) -> Predicted:
            values, start = dict[Path, Tensor](), time.monotonic()
            for file, member in of.items():
                train = member.problem.splits["train"]
                if file not in made:
                    rows = x[place[train].numpy()]
                    made[file] = KINDS[name].fit(rows, member.problem, train, recipe.train.class_balance, callback, workers)
                    made[file].save(file)
                values[file] = torch.full((len(problem.graphs), problem.num_outputs), torch.nan, dtype=torch.float64)
                for split, own in member.problem.splits.items():
                    if split != "train":
                        values[file][own] = made[file](x[place[own].numpy()])
            return Predicted(made[next(iter(of))].size, values, time.monotonic() - start)

        for name, of in first.items():
            try:
                fitted[name] = fit(name, of)
            except NotNeeded:
                raise
            except Exception as error:  # what is only for comparison never ends a run
                if name in recipe.ensemble_with:
                    raise
                failed[name] = first_line(error)
        return cls(fitted, failed, read - began)


def _first(run: Run, members: Sequence[Member], name: Partner) -> dict[Path, Member]:
    """The file of each baseline of a kind, and the first model with the same rows."""
    first: dict[Path, Member] = {}
    for member in members:
        first.setdefault(run.partner_of(member.folder, name), member)
    return first


class Beside(Callback):
    """A thread that fits baselines while models are trained. It leaves a core to these, and ends soon after the context does."""

    def __init__(self) -> None:
        self.pool, self.over = ThreadPoolExecutor(1, "reign-baselines"), False

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

    def start(self, recipe: Recipe, run: Run, problem: Problem, members: Sequence[Member]) -> "Future[Baselines]":
        """Fit the baselines of a run."""
        return self.pool.submit(Baselines.fit, recipe, run, problem, members, self, 1)


def compare_baselines(
    baselines: Baselines,
    recipe: Recipe,
    run: Run,
    problem: Problem,
    members: Sequence[Member],
    metric: str,
    report: str,
    callback: Callback,
) -> tuple[dict[str, object], Float[Tensor, "partners graphs outputs"] | None]:
    """The results of baselines for each split of the rows, as fields of ``Summary``, and the predictions of those that predict beside each model, see
    ``Predicted.values``; None if there are none.

    Args:
        baselines: the baselines.
        recipe, run, problem: the settings, the folder and the data of the run.
        members: its models, which are trained.
        metric, report: the metric, and which weights of the models are reported.
        callback: receives progress events.
    """
    splits = [split for split in members[0].problem.splits if split != "train"]

    def measured(split: str, predicted: dict[Path, Tensor], first: dict[Path, Member]) -> dict[str, object]:
        """The metric of predictions for all graphs on a split, for each split of the rows."""
        found = []
        for file, member in first.items():
            own: Ids = member.problem.splits[split]
            found.append(METRICS[metric](as_outputs(predicted[file][own], problem.task), problem.y[own]))
        return Spread.over(found).to_dict()

    found, sizes = [], []
    for name, fitted in baselines.fitted.items():
        first = _first(run, members, name)
        alone = {split: measured(split, fitted.values, first) for split in splits}
        out: dict[str, object] = {"name": name, **{split: alone.pop(split) for split in ("val", "test") if split in alone}}
        out |= {"parts": alone} if alone else {}
        if "val" in splits:
            out["val_rows"] = torch.cat([member.problem.splits["val"] for member in first.values()]).unique().numel()
        found.append(out | fitted.size | {"seconds": round(fitted.seconds, 2)})
        sizes.append(f"{PARTNERS[name].replace('the', 'a', 1)} ({', '.join(f'{n:,} {what}' for what, n in fitted.size.items())})")
    for name, why in baselines.failed.items():
        callback.note(f"There is no {PARTNERS[name].removeprefix('the ')} to compare with: {why}")
    if not found:
        return {}, None
    seconds = baselines.seconds + sum(fitted.seconds for fitted in baselines.fitted.values())
    callback.note(f"To compare with, {' and '.join(sizes)} took {seconds:.0f} s, descriptors included.")
    result: dict[str, object] = {"baselines": [Baseline.model_validate(out).to_dict() for out in found]}
    if not recipe.ensemble_with:
        return result, None

    def beside(some: Sequence[Member]) -> Tensor:
        """The predictions of the partners of each of some models."""
        files = [(name, run.partner_of(member.folder, name)) for member in some for name in recipe.ensemble_with]
        return torch.stack([baselines.fitted[name].values[file] for name, file in files])

    first, both = _first(run, members, recipe.ensemble_with[0]), dict[Path, Tensor]()
    for file, member in first.items():
        own_models = [m for m in members if run.partner_of(m.folder, recipe.ensemble_with[0]) == file]
        models = [TrainedModel.load(m.folder, report, recipe.train, problem.num_outputs, "cpu") for m in own_models]
        both[file] = beside(own_models)[0].clone()
        for split in splits:
            own = member.problem.splits[split]
            both[file][own] = forecast(models, problem.graphs, own, problem.task, None, callback, beside=beside(own_models)).values
    together = {split: measured(split, both, first) for split in splits}
    return result | {"partners": recipe.ensemble_with, "together": together}, beside(members)
