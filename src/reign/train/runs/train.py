"""Train all models of one or several recipes, many models at once, and write each run to its folder."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from reign.data import Problem
from reign.disk import first_line, write_json
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import Fabric, make_fabric
from reign.train.engine.loop import check_training
from reign.train.predict.calibration import FEWEST, Calibration, Interval, Steps, fit_temperature
from reign.train.predict.ensemble import TrainedModel, forecast, methods_of
from reign.train.predict.nearest import Domain, keep_training
from reign.train.runs.baseline import Baselines, Beside, compare_baselines, wanted
from reign.train.runs.build import (
    check_stereo,
    find_too_large,
    leave_out,
    make_model,
    make_problem,
    origin_of,
    saved_too_large,
    start_from,
    try_model,
)
from reign.train.runs.jobs import Member, members_of, run_jobs
from reign.train.runs.results import Predictions, Summary, read_result, spread_of, summarise, write_left_out, write_predictions
from reign.train.runs.run import Environment, Memory, ModelFiles, Run, SavedModel, SavedProblem, only_one
from reign.train.settings.config import Recipe

# -- Train on several splits of a table --------------------------------------------------------------------------------


def replicates(recipe: Recipe, folder: Path, number: int) -> list[tuple[Recipe, Path]]:
    """Recipes with the split seeds s, s + 1, ..., and their folders, ``folder/replicate-0`` and so on."""
    fixed = {None: None, "split": "--split-type kennard_stone"}.get(name := recipe.data.fixed_split, f"--{name}".replace("_", "-"))
    if recipe.data.name != "csv" or fixed:
        raise ValueError(
            f"--num-replicates draws several splits, but the splits are given; leave {fixed or 'it'} out, or use --seeds."
        )
    plans = []
    for r in range(number):
        data = recipe.data.model_copy(update={"split_seed": recipe.data.split_seed + r})
        plans.append((recipe.model_copy(update={"data": data}), folder / f"replicate-{r}"))
    return plans


# -- Calibrate the models of a run on its validation rows, for every method of uncertainty that its models support -----


def calibrate(
    models: Sequence[TrainedModel], problem: Problem, callback: Callback | None = None, beside: Tensor | None = None
) -> Calibration:
    """Calibrate the trained models of a run, and what predicts beside them, on the validation rows of its table."""
    ids, callback = problem.splits["val"], callback or Callback()
    y, found = problem.y[ids], Calibration()
    if problem.task == "regression":
        for method in methods_of(models, beside is not None):
            made = forecast(models, problem.graphs, ids, problem.task, method, callback, beside=beside)
            assert made.unsure is not None
            fitted = {t: Interval.fit(y[:, c], made.values[:, c], made.unsure[:, c]) for c, t in enumerate(problem.targets)}
            found.intervals[method] = {target: each for target, each in fitted.items() if each is not None}
    else:
        values = forecast(models, problem.graphs, ids, problem.task, None, callback, beside=beside).values
        for t, target in enumerate(problem.targets):
            there = ~y[:, t].isnan()
            if int(there.sum()) < FEWEST or y[there, t].unique().numel() < 2:
                continue
            if problem.task == "multiclass":
                found.temperature[target] = fit_temperature(y[there, t], values[there].clamp(min=1e-12).log())
            else:
                found.temperature[target] = fit_temperature(y[there, t], torch.logit(values[there, t, None], eps=1e-12))
                found.isotonic[target] = Steps.fit(y[there, t], values[there, t])
    return found


# -- Train all models of one or several recipes, many models at once, and write each run to its folder -----------------


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
    """Train all models of a recipe, and return the summary of the results as it is in the folder of the run.

    Args:
        recipe: the settings of the run.
        folder: the folder of the run. It must be new or empty, unless ``resume`` is set.
        resume: continue the run in the folder and skip models that are done. Seeds may be added.
        fabric: devices and processes; one process on the best device if not given.
        callback: receives all events.
        jobs: number of models to train at once; if not given, as many as fit on a GPU, and one on a CPU.
    """
    return train_all([(recipe, Path(folder))], resume=resume, fabric=fabric, callback=callback, jobs=jobs)[0].to_dict()


def train_all(
    plans: Sequence[tuple[Recipe, Path]],
    *,
    resume: bool = False,
    fabric: Fabric | None = None,
    callback: Callback | None = None,
    jobs: int | None = None,
) -> list[Summary]:
    """Train the models of several recipes, each in its own folder, and summarise the results; see ``train``.

    A model that fails does not stop the others. When all are done, the first error is raised, with the number of other failures.
    """
    callback = callback or Callback()
    fabric = fabric or make_fabric(plans[0][0].train.precision)
    with ExitStack() as held:
        runs: list[_Started] = []
        loaded: dict[str, Problem] = {}
        for recipe, folder in plans:
            _on_first(fabric, partial(held.enter_context, only_one(folder)))
            runs.append(_Started.begin(recipe, Run(folder), resume, fabric, callback, loaded))
        beside = held.enter_context(Beside())
        for run in runs:
            if fabric.is_global_zero and run.problem is not None and wanted(run.recipe, run.problem):
                run.baselines = beside.start(run.recipe, run.run, run.problem, run.members)
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


def _raise_first(failed: list[Member], work: list[Member]) -> None:
    if not failed:
        return
    error = failed[0].error
    assert error is not None
    if isinstance(error, ValueError) and len(work) > 1:
        others = f"; {len(failed) - 1} more failed" if len(failed) > 1 else ""
        raise type(error)(
            f"{failed[0].folder}: {error} ({len(work) - len(failed)} of {len(work)} models are done{others})"
        ) from error
    raise error


@dataclass
class _Started:
    """A run that has started, with its data and models, or its results if it is already finished."""

    recipe: Recipe
    run: Run
    problem: Problem | None
    members: list[Member]
    done: Summary | None = None
    baselines: Future[Baselines] | None = None

    @classmethod
    def begin(
        cls, recipe: Recipe, run: Run, resume: bool, fabric: Fabric, callback: Callback, loaded: dict[str, Problem]
    ) -> "_Started":
        """Prepare the folder. Data sets are added to those that were loaded before."""
        recipe, done = _on_first(fabric, lambda: run.create(recipe, resume))
        if done is not None:
            return cls(recipe, run, None, [], done)
        problem, report = make_problem(recipe.data, loaded, callback, _on_first(fabric, run.known_targets))
        whole, too_large = problem, dict[str, str]()
        if report is not None:
            known = run.files.problem.is_file()  # a resumed run leaves out the rows that were found when it was started
            find = partial(saved_too_large, run) if known else partial(find_too_large, recipe, device=fabric.device)
            too_large = _on_first(fabric, partial(find, problem))
            problem = leave_out(problem, report, too_large)
        about = SavedProblem.of(whole, too_large)
        if run.files.problem.is_file() and run.problem.to_dict() != about.to_dict():
            raise ValueError(
                f"the data of {problem.name} have changed since the run in {run.folder} was started; choose a new folder with -o."
            )
        stretched = _stretched(recipe, run, callback)
        members = members_of(recipe, problem, run)
        places = [ModelFiles(member.folder) for member in members]
        starting = any(not each.checkpoint.is_file() and (stretched or not each.result.is_file()) for each in places)
        origin = _origin(recipe, run) if starting and recipe.train.checkpoint is not None else {}
        check_training(recipe.train, members[0].problem, fabric.world_size)
        wanted(recipe, problem)
        try_model(recipe, members[0].problem)
        if starting and (recipe.train.checkpoint is not None or recipe.train.frozen_epochs):
            first = members[0]
            model = make_model(recipe.model, first.problem, first.seed, recipe.train.loss)
            same = start_from(model, recipe.train, first.problem, first.seed)
            what = "all weights" if same else "all weights but those of the last layer, which is new for these targets"
            callback.note(f"Training starts from {recipe.train.checkpoint}: {what}.")
        fabric.barrier()
        if fabric.is_global_zero:
            files = run.files
            for old in (files.summary, files.calibration):  # they may be of fewer seeds
                old.unlink(missing_ok=True)
            for member in members if stretched else ():
                ModelFiles(member.folder).result.unlink(missing_ok=True)
            recipe.save(files.recipe)
            if not files.environment.is_file():
                Environment.present(fabric, origin).write(files.environment)
            about.write(files.problem)
            if report is not None:
                callback.table(report)
                write_left_out(files.left_out, report)
                write_json(files.table, report.record())
                if report.left_out:
                    callback.note(f"all rows that were left out are in {files.left_out}")
        return cls(recipe, Run(run.folder), problem, members)

    def jobs(self) -> list[Member]:
        """The models that are not done yet."""
        return [member for member in self.members if not ModelFiles(member.folder).result.is_file()]

    def finish(self, fabric: Fabric, callback: Callback) -> Summary:
        """Write the summary of the run, unless it is finished already, and return it."""
        if self.done is not None:
            return self.done
        assert self.problem is not None
        files, problem, folds = self.run.files, self.problem, self.recipe.folds
        results = [
            read_result(
                ModelFiles(m.folder).result,
                m.problem.splits,
                seed=m.seed,
                fold=m.fold,
                folder=m.label,
            )
            for m in self.members
        ]
        metric, predicted = results[0].metric, None
        curves = [SavedModel(m.folder, self.run).curve(f"val_{metric}") for m in self.members] if folds is not None else []
        if folds is None and "test" in problem.splits:
            predicted = torch.stack([_predicted(ModelFiles(m.folder).predictions, problem) for m in self.members])
        compared, beside = dict[str, object](), None
        if self.baselines is not None:
            try:
                (baselines,) = (found.result() for found in callback.track([self.baselines], "waiting for the baselines"))
                about = self.recipe, self.run, problem, self.members, metric, results[0].report
                compared, beside = compare_baselines(baselines, *about, callback)
            except Exception as error:  # what is only for comparison never ends a run
                if self.recipe.ensemble_with:
                    raise
                callback.note(f"There is no baseline to compare with: {first_line(error)}")
        summary = summarise(self.recipe, problem, results, curves, predicted, compared)
        if fabric.is_global_zero:
            if predicted is not None:
                predicted = predicted if beside is None else torch.cat([predicted, beside[:, problem.splits["test"]]])
                write_predictions(files.predictions, problem, problem.splits["test"], predicted.mean(0), spread_of(predicted))
            Memory.peak(fabric.device).write(files.memory)
            if self.recipe.data.reads_smiles:
                trained_on = torch.cat([m.problem.splits["train"] for m in self.members]).unique()
                Domain.of_training(problem, trained_on).save(files.domain)
            if self.recipe.data.name == "csv" and folds is None:
                keep_training(files.training, problem)
                self._calibrate(summary.report, fabric, callback, beside)
            summary.write(files.summary)  # the last file: with it, the run is finished
        return summary

    def _calibrate(self, report: str, fabric: Fabric, callback: Callback, beside: Tensor | None) -> None:
        """Calibrate the models on the validation rows of a table, if there are any. A run that cannot be calibrated stays as it is."""
        assert self.problem is not None
        if "val" not in self.problem.splits:
            return
        load, size = TrainedModel.load, self.problem.num_outputs
        try:
            models = [load(m.folder, report, self.recipe.train, size, fabric.device) for m in self.members]
            calibrate(models, self.problem, callback, beside).save(self.run.files.calibration)
        except ValueError as error:
            callback.note(f"The run could not be calibrated: {error}")


def _predicted(file: Path, problem: Problem) -> Tensor:
    """The predictions of a model for the test graphs."""
    try:
        found = Predictions.read(file, "test", problem.targets, problem.classes).values
        if len(found) != (rows := problem.splits["test"].numel()):
            raise ValueError(f"{file} is damaged (it has {len(found)} rows, expected {rows}).")
    except ValueError as error:
        raise ValueError(f"{str(error).rstrip('.')}; delete the result.json next to it to train this model again.") from None
    return torch.from_numpy(found)


def _origin(recipe: Recipe, run: Run) -> dict[str, str]:
    """The weights that a run starts from, see ``origin_of``. All its models must start from the same."""
    assert recipe.train.checkpoint is not None
    check_stereo(recipe)
    found = origin_of(recipe.train.checkpoint)
    if run.environment.start.get("sha256", found["sha256"]) != found["sha256"]:
        raise ValueError(
            f"the weights in {recipe.train.checkpoint} have changed since the run in {run.folder} was started, and some of its models have yet to start "
            "from them; put the former weights back, or choose a new folder with -o."
        )
    return found


def _stretched(recipe: Recipe, run: Run, callback: Callback) -> bool:
    """Whether a run that is continued gets more epochs than it had. If so, a note is printed."""
    if not run.started:
        return False
    before = run.recipe.train.epochs
    if recipe.train.epochs > before:
        how = (
            ""
            if recipe.train.schedule.name == "constant"
            else f"; from here on, the learning rate follows the schedule of {recipe.train.epochs} epochs"
        )
        callback.note(f"The run had {before} epochs and continues to {recipe.train.epochs}{how}.")
    return recipe.train.epochs > before


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
