"""Train all models of one or several recipes, many models at once, and write each run to its folder."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from reign.data import Problem
from reign.disk import read_json, read_record, write_json
from reign.train.build import make_model, make_problem, try_model
from reign.train.calibrate import calibrate
from reign.train.domain import Domain
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import Fabric, make_fabric
from reign.train.job import Job
from reign.train.jobs import run_jobs
from reign.train.lock import only_one
from reign.train.members import Member, members_of
from reign.train.nearest import keep_training
from reign.train.prediction_files import write_left_out, write_predictions
from reign.train.pretrained import check_stereo, start_from
from reign.train.results import predicted, read_result, spread_of, summarise
from reign.train.run_folder import describe, environment, known_targets, peak_memory, start
from reign.train.settings.config import Recipe
from reign.train.too_large import find_too_large, leave_out, saved_too_large
from reign.train.trained_model import TrainedModel

T = TypeVar("T")


def train(
    recipe: Recipe,
    folder: str | Path,
    *,
    resume: bool = False,
    fabric: Fabric | None = None,
    callback: Callback | None = None,
    jobs: int | None = None,
) -> dict[str, Any]:
    """Train all models of a recipe, and summarise the results.

    Args:
        recipe: the settings of the run.
        folder: the folder of the run. It must be new or empty, unless ``resume`` is set.
        resume: continue the run in the folder and skip models that are done. Seeds may be added.
        fabric: devices and processes; one process on the best device if not given.
        callback: receives all events.
        jobs: number of models to train at once; if not given, as many as fit on a GPU, and one on a CPU.
    """
    return train_all([(recipe, Path(folder))], resume=resume, fabric=fabric, callback=callback, jobs=jobs)[0]


def train_all(
    plans: Sequence[tuple[Recipe, Path]],
    *,
    resume: bool = False,
    fabric: Fabric | None = None,
    callback: Callback | None = None,
    jobs: int | None = None,
) -> list[dict[str, Any]]:
    """Train the models of several recipes, each in its own folder, and summarise the results; see ``train``.

    A model that fails does not stop the others. When all are done, the first error is raised, with the number of other failures.
    """
    callback = callback or Callback()
    fabric = fabric or make_fabric(plans[0][0].train.precision)
    with ExitStack() as held:
        runs: list[_Run] = []
        loaded: dict[str, Problem] = {}
        for recipe, folder in plans:
            held.enter_context(_only_one(fabric, folder))
            runs.append(_Run.begin(recipe, folder, resume, fabric, callback, loaded))
        work = [job for run in runs for job in run.jobs()]
        try:
            run_jobs(work, fabric, callback, jobs)
            fabric.barrier()
            _raise_first([job for job in work if job.error is not None], work)
        except BaseException:
            for run in runs:
                if not run.jobs():  # this one is done, whatever happened to the others
                    with suppress(Exception):
                        run.finish(fabric, callback)
            raise
        return [run.finish(fabric, callback) for run in runs]


def _raise_first(failed: list[Job], work: list[Job]) -> None:
    if not failed:
        return
    error = failed[0].error
    assert error is not None
    if isinstance(error, ValueError) and len(work) > 1:
        others = f"; {len(failed) - 1} more failed" if len(failed) > 1 else ""
        raise type(error)(
            f"{failed[0].member.folder}: {error} ({len(work) - len(failed)} of {len(work)} models are done{others})"
        ) from error
    raise error


@dataclass
class _Run:
    """A run that has started: its folder, data and models, or its results if it is already finished."""

    recipe: Recipe
    folder: Path
    problem: Problem | None
    members: list[Member]
    done: dict[str, Any] | None = None

    @classmethod
    def begin(
        cls, recipe: Recipe, folder: Path, resume: bool, fabric: Fabric, callback: Callback, loaded: dict[str, Problem]
    ) -> "_Run":
        """Prepare the folder. Data sets are added to those that were loaded before."""
        recipe, done = _on_first(fabric, lambda: start(recipe, folder, resume))
        if done is not None:
            return cls(recipe, folder, None, [], done)
        problem, report = make_problem(recipe.data, loaded, callback, _on_first(fabric, lambda: known_targets(folder)))
        about = describe(problem)
        if report is not None:
            too_large = _on_first(fabric, lambda: _too_large(recipe, problem, folder, fabric))
            problem = leave_out(problem, report, too_large)
            about |= {"too_large": too_large} if too_large else {}
        if (folder / "problem.json").is_file() and read_json(folder / "problem.json") != about:
            raise ValueError(
                f"the data of {problem.name} have changed since the run in {folder} was started; choose a new folder with -o."
            )
        if recipe.train.checkpoint is not None:
            check_stereo(recipe)
        members = list(members_of(recipe, problem, folder))
        try_model(recipe, members[0].problem)
        if recipe.train.checkpoint is not None or recipe.train.freeze_encoder:
            first = members[0]
            model = make_model(recipe.model, first.problem, first.seed, recipe.train.loss)
            same = start_from(model, recipe.train, first.problem, first.seed)
            what = "all weights" if same else "all weights but those of the last layer, which is new for these targets"
            callback.note(f"Training starts from {recipe.train.checkpoint}: {what}.")
        stretched = _stretched(recipe, folder, callback)
        fabric.barrier()
        if fabric.is_global_zero:
            for name in ("summary.json", "calibration.json"):  # they may be of fewer seeds
                (folder / name).unlink(missing_ok=True)
            for result in folder.rglob("result.json") if stretched else ():
                result.unlink()
            recipe.save(folder / "recipe.yaml")
            if not (folder / "environment.json").is_file():
                write_json(folder / "environment.json", environment(fabric))
            write_json(folder / "problem.json", about)
            if report is not None:
                callback.table(report)
                write_left_out(folder / "rows_left_out.csv", report)
                write_json(folder / "table.json", report.record())
        return cls(recipe, folder, problem, members)

    def jobs(self) -> list[Job]:
        """The models that are not done yet."""
        return [
            Job(self.recipe, member, self.folder, m, len(self.members))
            for m, member in enumerate(self.members)
            if not (member.folder / "result.json").is_file()
        ]

    def finish(self, fabric: Fabric, callback: Callback) -> dict[str, Any]:
        """Write the summary of the run, unless it is finished already, and return it."""
        if self.done is not None:
            return self.done
        assert self.problem is not None
        results = [
            {
                "seed": m.seed,
                "fold": m.fold,
                "folder": str(m.folder.relative_to(self.folder)),
                **read_result(m.folder, m.problem.splits),
            }
            for m in self.members
        ]
        summary = summarise(self.recipe, self.problem, self.folder, results)
        if fabric.is_global_zero:
            if "ensemble" in summary:
                values = predicted(self.problem, self.folder, results)
                file = self.folder / "predictions.csv"
                write_predictions(file, self.problem, self.problem.splits["test"], values.mean(0), spread_of(values))
            write_json(self.folder / "memory.json", peak_memory(fabric.device))
            if self.recipe.data.reads_smiles:
                trained_on = torch.cat([m.problem.splits["train"] for m in self.members]).unique()
                Domain.of_training(self.problem, trained_on).save(self.folder)
            if self.recipe.data.name == "csv" and self.recipe.folds is None:
                keep_training(self.folder, self.problem)
                self._calibrate(summary["report"], fabric, callback)
            write_json(self.folder / "summary.json", summary)  # the last file: with it, the run is finished
        return summary

    def _calibrate(self, report: str, fabric: Fabric, callback: Callback) -> None:
        """Calibrate the models on the validation rows of a table, if there are any. A run that cannot be calibrated stays as it is."""
        assert self.problem is not None
        if "val" not in self.problem.splits:
            return
        load, size = TrainedModel.load, self.problem.num_outputs
        try:
            models = [load(m.folder, report, self.recipe.train, size, fabric.device) for m in self.members]
            calibrate(models, self.problem, callback).save(self.folder / "calibration.json")
        except ValueError as error:
            callback.note(f"The run could not be calibrated: {error}")


def _stretched(recipe: Recipe, folder: Path, callback: Callback) -> bool:
    """Whether a run that is continued gets more epochs than it had. If so, a note is printed."""
    if not (folder / "recipe.yaml").is_file():
        return False
    before = Recipe.load(folder / "recipe.yaml").train.epochs
    if recipe.train.epochs > before:
        how = (
            ""
            if recipe.train.schedule.name == "constant"
            else f"; from here on, the learning rate follows the schedule of {recipe.train.epochs} epochs"
        )
        callback.note(f"The run had {before} epochs and continues to {recipe.train.epochs}{how}.")
    return recipe.train.epochs > before


def _too_large(recipe: Recipe, problem: Problem, folder: Path, fabric: Fabric) -> dict[str, str]:
    """The rows of a table that are too large for the memory. A resumed run uses the rows found when it was started."""
    file = folder / "problem.json"
    if file.is_file():
        return saved_too_large(file, read_record(file), problem)
    return find_too_large(recipe, problem, fabric.device)


@contextmanager
def _only_one(fabric: Fabric, folder: Path) -> Iterator[None]:
    """Lock the folder of a run, in the first process on behalf of all."""
    with ExitStack() as held:
        _on_first(fabric, lambda: held.enter_context(only_one(folder)))
        yield


def _on_first(fabric: Fabric, work: Callable[[], T]) -> T:
    """Do some work in the first process only, and send its result to the others."""
    found: Any = None
    if fabric.is_global_zero:
        try:
            found = work()
        except ValueError as error:
            found = error
    if fabric.world_size > 1:
        found = fabric.broadcast(found)
    if isinstance(found, ValueError):
        raise found
    return found
