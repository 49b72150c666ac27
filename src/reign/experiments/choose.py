"""Choose the settings of a row from its grid by validation, and say so in a record: every point, its weights and its validation metric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import isnan
from pathlib import Path
from statistics import mean
from typing import Any

from pydantic import ConfigDict

from reign.data import Problem
from reign.disk import read_json, write_json
from reign.experiments.paper import PaperTable
from reign.nn import num_parameters
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import Fabric
from reign.train.runs.build import make_model, make_problem
from reign.train.runs.run import Run
from reign.train.runs.train import train_all
from reign.train.settings.config import Recipe, Settings
from reign.train.settings.metrics import METRICS
from reign.train.settings.yaml import merge, nested

CHOICE = "choice.json"
Point = dict[str, Any]  # of a grid: the value of each setting, or of several at once


def points_of(grid: Mapping[str, list[Any]]) -> list[Point]:
    """All points of a grid.

    >>> points_of({"a": [1, 2], "b": [3]})
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 3}]
    """
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def settings_at(point: Point) -> Mapping[str, Any]:
    """The settings of a point. A value of a grid can be several settings at once.

    >>> settings_at({"train.epochs": 3, "model": {"num_layers": 1, "inner_layers": 6}})
    {'train': {'epochs': 3}, 'model': {'num_layers': 1, 'inner_layers': 6}}
    """
    return merge(*(nested(key, value) for key, value in point.items()))


def settings_in_words(point: Point) -> str:
    """A point in one line.

    >>> settings_in_words({"model.num_layers": 6, "model": {"inner_layers": 1}})
    'num_layers 6, inner_layers 1'
    """
    each = [pair for key, value in point.items() for pair in (value.items() if isinstance(value, dict) else [(key, value)])]
    return ", ".join(f"{key.split('.')[-1]} {value}" for key, value in each)


def weights_of(recipe: Recipe, loaded: dict[str, Problem], callback: Callback | None = None) -> int:
    """The number of weights of the model of a recipe. Data sets are added to those that were loaded before."""
    key = recipe.data.model_dump_json()
    if key not in loaded:
        loaded[key] = make_problem(recipe.data, loaded, callback)[0]
    return num_parameters(make_model(recipe.model, loaded[key], 0, recipe.train.loss))


class Tried(Settings):
    """A point of a grid: its settings, its number of weights, and its validation metric for each seed or fold, unless it was left out.

    The metric of a model that has diverged is NaN.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=True)
    settings: Point
    parameters: int
    validation: list[float]


class Choice(Settings):
    """What was chosen from a grid: the point with the best mean validation metric. Test data played no part.

    Points with more weights than ``max_weights`` were left out.
    """

    metric: str
    max_weights: int | None = None
    points: list[Tried]

    @property
    def best(self) -> Tried:
        """The chosen point."""
        sign = -1 if METRICS[self.metric].more_is_better else 1
        means = [(sign * mean(point.validation), n) for n, point in enumerate(self.points) if point.validation]
        return self.points[min(means, key=lambda pair: (isnan(pair[0]), *pair))[1]]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the chosen point."""
        return settings_at(self.best.settings)

    @classmethod
    def read(cls, file: Path) -> "Choice | None":
        """Read what ``choose`` wrote; None if the file does not exist."""
        return cls.check(read_json(file), f"{file} is not a valid choice; delete it to search again") if file.is_file() else None


def small_enough(points: Sequence[Point], weights: Sequence[int], most: int | None, name: str, callback: Callback) -> list[int]:
    """The numbers of the points with at most so many weights. The others are named once; ``ValueError`` if there are no points left."""
    over = [n for n, number in enumerate(weights) if most is not None and number > most]
    if over:
        named = "; ".join(f"{settings_in_words(points[n])} ({weights[n]:,})" for n in over)
        said = f"{name}: {len(over)} of {len(points)} points have more than {most:,} weights: {named}"
        if len(over) == len(points):
            raise ValueError(
                f"{said}. Give smaller values in the grid, or a larger bound: max_weights of the table, or --max-weights of reign tune."
            )
        callback.note(f"{said}. They are left out.")
    return [n for n in range(len(points)) if n not in over]


@dataclass(frozen=True)
class Grid:
    """A grid to search: its name, the folder of its runs, its points with their recipes, and the largest number of weights."""

    name: str
    folder: Path
    points: list[Point]
    recipes: list[Recipe]
    max_weights: int | None = None

    def place(self, n: int) -> Path:
        """The folder of the run of a point."""
        return self.folder / f"point-{n}"

    def known(self) -> Choice | None:
        """The choice from an earlier search; ``ValueError`` if it was made from another grid or with other settings."""
        choice = Choice.read(self.folder / CHOICE)
        runs = [(Run(self.place(n)), recipe) for n, recipe in enumerate(self.recipes)]
        other = any(run.started and run.continued({"seeds": recipe.seeds}) != recipe for run, recipe in runs)
        if choice is not None and (other or [point.settings for point in choice.points] != self.points):
            raise ValueError(
                f"{self.folder} holds the search of another grid, or with other settings; choose a new folder with -o."
            )
        return choice


def choose(
    grids: Sequence[Grid], fabric: Fabric | None = None, callback: Callback | None = None, jobs: int | None = None
) -> list[Choice]:
    """Train all points of some grids, many at once, and write what validation chooses to ``choice.json`` in the folder of each grid.

    Finished models are not trained again, and grids with this file are not searched again.
    """
    callback = callback or Callback()
    known = [grid.known() for grid in grids]
    loaded: dict[str, Problem] = {}
    plans: list[tuple[Recipe, Path]] = []
    sizes: dict[Path, tuple[list[int], list[int]]] = {}
    for grid, choice in zip(grids, known, strict=True):
        if choice is None:
            weights = [weights_of(recipe, loaded, callback) for recipe in grid.recipes]
            small = small_enough(grid.points, weights, grid.max_weights, grid.name, callback)
            sizes[grid.folder] = weights, small
            plans += [(grid.recipes[n], grid.place(n)) for n in small]
    found = train_all(plans, resume=True, fabric=fabric, callback=callback, jobs=jobs) if plans else []
    summaries = {folder: summary for (_, folder), summary in zip(plans, found, strict=True)}
    out = []
    for grid, choice in zip(grids, known, strict=True):
        if choice is None:
            weights, small = sizes[grid.folder]
            done = {n: summaries[grid.place(n)] for n in small}
            if any("val" not in summary.splits for summary in done.values()):
                raise ValueError(f"{grid.name} has no validation graphs, which are needed to compare settings.")
            points = [
                Tried(settings=point, parameters=weights[n], validation=done[n].val.values if n in done else [])
                for n, point in enumerate(grid.points)
            ]
            choice = Choice(metric=done[small[0]].metric, max_weights=grid.max_weights, points=points)
            if fabric is None or fabric.is_global_zero:
                write_json(grid.folder / CHOICE, choice.model_dump(mode="json"))
        callback.note(
            f"{grid.name}: validation chooses {settings_in_words(choice.best.settings)} ({mean(choice.best.validation):.4g})."
        )
        out.append(choice)
    if fabric is not None:
        fabric.barrier()  # other processes read the files that the first one has written
    return out


# -- the cells of a table ------------------------------------------------------------------------------------------------------


def chosen(table: PaperTable, folder: Path, row: str, column: str) -> Choice | None:
    """What an earlier search chose for a cell of the table with this folder of runs. A row that uses runs of another table has what was chosen for them."""
    place = _search_folder(table, folder, row, column)
    if (other := table.rows[row].runs) is not None:
        name, cell = other.split("/", 1)
        place = folder.parent / name / "search" / cell
    return Choice.read(place / CHOICE)


def grid_of(
    table: PaperTable, folder: Path, row: str, column: str, *changes: Mapping[str, Any], quick: bool = False
) -> Grid | None:
    """The search for a cell; None if there is nothing to choose, or the row uses runs of another table."""
    points, place = points_of(table.grid_of(row)), _search_folder(table, folder, row, column)
    if len(points) < 2 or table.rows[row].runs is not None:
        return None
    recipes = [table.recipe(row, column, *changes, table.search or {}, settings_at(point), quick=quick) for point in points]
    return Grid(f"{row}/{place.name}", place, points, recipes, table.max_weights)


def _search_folder(table: PaperTable, folder: Path, row: str, column: str) -> Path:
    """The folder of the search for a cell, or for all cells of a row if the table has data for it."""
    return folder / "search" / row / (column if table.search is None else "all")
