"""The models of a run: one for each seed, and in cross-validation one for each seed and fold."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reign.data import Problem
from reign.disk import write_json
from reign.train.build import make_model, scale_descriptors
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import Fabric
from reign.train.engine.loop import fit
from reign.train.prediction_files import write_predictions
from reign.train.pretrained import start_from
from reign.train.settings.config import Recipe
from reign.train.settings.losses import as_values
from reign.train.target_scaler import Scale


@dataclass(frozen=True)
class Member:
    """One model of a run.

    Args:
        seed: the seed of the model.
        fold: index of its validation fold; None without cross-validation.
        folder: the folder of the model.
        problem: the graphs, targets and splits that it learns from.
    """

    seed: int
    fold: int | None
    folder: Path
    problem: Problem


def members_of(recipe: Recipe, problem: Problem, folder: Path) -> Iterator[Member]:
    """All models of a run, with the graphs that each learns from."""
    for seed in recipe.seeds:
        own = problem if recipe.data.num_train is None else problem.fewer(recipe.data.num_train, seed)
        if recipe.folds is None:
            yield Member(seed, None, folder / f"seed-{seed}", own)
            continue
        for f, fold in enumerate(own.folds(recipe.folds, seed)):
            yield Member(seed, f, folder / f"seed-{seed}" / f"fold-{f}", fold)


def train_member(recipe: Recipe, member: Member, fabric: Fabric, callback: Callback) -> None:
    """Train one model of a run."""
    model = make_model(recipe.model, member.problem, member.seed, recipe.train.loss)
    scale_descriptors(model, member.problem)
    start_from(model, recipe.train, member.problem, member.seed)
    if fabric.is_global_zero:
        write_json(member.folder / "splits.json", _named_splits(member.problem))
        Scale.of(member.problem, recipe.train.scale_targets).save(member.folder / "scale.json")
    fabric.barrier()
    result, predictions = fit(
        model, member.problem, recipe.train, seed=member.seed, folder=member.folder, fabric=fabric, callback=callback
    )
    if wrong := [split for split, out in predictions.items() if not bool(out.isfinite().all())]:
        raise ValueError(
            f"the model in {member.folder} predicts NaN or infinity for {wrong[0]} graphs; use a lower train.optimiser.lr, train.clip=1, "
            "or train.scale_targets=true, in a new folder."
        )
    if fabric.is_global_zero:
        shown = "test" if "test" in predictions else "val"
        if shown in predictions:
            ids = member.problem.splits[shown]
            write_predictions(
                member.folder / "predictions.csv", member.problem, ids, as_values(predictions[shown], member.problem.task)
            )
        write_json(member.folder / "result.json", result)
    fabric.barrier()


def _named_splits(problem: Problem) -> dict[str, list[Any]]:
    names = problem.names
    return {split: ids.tolist() if names is None else [names[i] for i in ids.tolist()] for split, ids in problem.splits.items()}
