"""Results by the number of training graphs, with a panel for each policy, as in Figures 4 and 7 of the paper."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from reign.draw import LIGHT, Picture, Theme
from reign.experiments import find_table, list_tables
from reign.experiments.paper import PaperTable, mean_and_std
from reign.experiments.records import Record, mean_and_spread
from reign.plots._curves import Curve, Panel, draw_curves
from reign.plots._record import differences
from reign.train.runs.run import Run
from reign.train.settings.config import Recipe


@dataclass(frozen=True)
class Point:
    """The result of a row of a table with a number of training graphs: mean, standard deviation and number of models.

    ``other`` has the settings that differ between the table and the run, with both values.
    """

    row: str
    size: int
    mean: float
    deviation: float
    models: int
    other: Mapping[str, tuple[Any, Any]]


def sizes_of(table: PaperTable) -> dict[str, int]:
    """The numbers of training graphs of the columns of a table, if its columns differ in it; otherwise nothing.

    >>> list(sizes_of(find_table("generalisation-4-cycle")).values())[:3], sizes_of(find_table("zinc"))
    ([50, 150, 250], {})
    """
    found = {name: column.settings.get("data", {}).get("num_train") for name, column in table.columns.items()}
    known = {name: size for name, size in found.items() if size is not None}
    return known if len(set(known.values())) > 1 else {}


@cache
def curve_tables() -> dict[str, PaperTable]:
    """The tables of the paper whose columns are numbers of training graphs."""
    return {name: table for name, table in ((name, find_table(name)) for name in list_tables()) if sizes_of(table)}


def points_of_runs(runs: Iterable[Run]) -> dict[str, list[Point]]:
    """The points of finished runs, by table. The recipe of a run says where it belongs: it is the row with the same data set, targets, model
    and policy, and the fewest other differences, and the run has a number of training graphs of its own."""
    found: dict[str, list[Point]] = {}
    for run in runs:
        if (place := _place(run.recipe)) is None:
            continue
        name, row, other = place
        table = curve_tables()[name]
        spread = run.summary.spread_of(next(iter(table.columns.values())).value)
        if spread is not None and run.recipe.data.num_train is not None:
            deviation = (spread.std or 0.0) * table.factor
            point = Point(row, run.recipe.data.num_train, spread.mean * table.factor, deviation, len(spread.values), other)
            found.setdefault(name, []).append(point)
    return found


def points_of_records(records: Iterable[Record], name: str) -> list[Point]:
    """The points of the records of a table."""
    table, found = curve_tables()[name], []
    for record in records:
        size = record.recipe["data"].get("num_train")
        values = record.values(record.report, next(iter(table.columns.values())).value)
        if record.table == name and size is not None and values:
            mean, deviation = mean_and_spread(value * table.factor for value in values)
            found.append(Point(record.row, size, mean, deviation or 0.0, len(values), {}))
    return found


def _place(recipe: Recipe) -> tuple[str, str, dict[str, tuple[Any, Any]]] | None:
    """The table and the row of a recipe, and the settings that differ, if it has a number of training graphs and there is such a row."""
    found = []
    for (name, row), theirs in _rows().items() if recipe.data.num_train is not None else ():
        if _key(theirs) == _key(recipe):
            values = [each.model_dump(mode="json", exclude={"seeds"}) for each in (theirs, recipe)]
            other = differences(values[0], values[1])
            other.pop("data.num_train", None)
            found.append((name, row, other))
    return min(found, key=lambda place: len(place[2]), default=None)


@cache
def _rows() -> dict[tuple[str, str], Recipe]:
    """The recipes of the first column."""
    tables = curve_tables()
    return {(name, row): table.recipe(row, next(iter(table.columns))) for name, table in tables.items() for row in table.rows}


def _key(recipe: Recipe) -> list[object]:
    return [recipe.data.name, recipe.data.targets, recipe.model.name, recipe.model.model_dump().get("policy")]


def draw_generalisation(
    table: PaperTable, points: Sequence[Point] = (), every: bool = True, look: Theme = LIGHT
) -> tuple[Picture | None, list[str]]:
    """Draw the curves of a table, ours solid and the paper's dashed, with a panel for each policy. Rows without a policy are in all panels.

    Args:
        table: the table.
        points: our results.
        every: whether to draw the paper's curves of rows without results of ours, too.
        look: the colours.

    Returns:
        The picture, or None if there is nothing to draw; and the policies without any numbers, which have no panel.
    """
    policies = {row: _policy(table, row) for row in table.rows}
    colour = {label: number for number, label in enumerate(dict.fromkeys(_label(about.title) for about in table.rows.values()))}
    curves = {row: _curves(table, row, points, every, colour[_label(about.title)]) for row, about in table.rows.items()}
    groups = {policy: [row for row in table.rows if policies[row] == policy] for policy in policies.values() if policy is not None}
    empty = [policy for policy, rows in groups.items() if not any(curves[row] for row in rows)]
    titles: dict[str | None, str] = {policy: f"{table.title}: {policy}" for policy in groups if policy not in empty}
    panels = []
    for policy, title in (titles or {None: table.title}).items():
        own = tuple(curve for row in table.rows if policies[row] in (policy, None) for curve in curves[row])
        panels += [Panel(title, "training graphs", table.unit, own, log=True)] if own else []
    return (draw_curves("generalisation", panels, look) if panels else None), empty


def _policy(table: PaperTable, row: str) -> str | None:
    found = table.settings_of(row, next(iter(table.columns)))["model"].get("policy")
    return None if found is None else str(found)


def _label(title: str) -> str:
    """The name of a model without its policy, which the panel has."""
    return title.split(" (")[0]


def _curves(table: PaperTable, row: str, points: Sequence[Point], every: bool, colour: int) -> list[Curve]:
    best: dict[int, Point] = {}  # of several runs with as many graphs, the one that is most like the table's
    for point in points:
        if point.row == row and (point.size not in best or _worth(point) > _worth(best[point.size])):
            best[point.size] = point
    sizes, label = sizes_of(table), _label(table.rows[row].title)
    theirs = {sizes[column]: mean_and_std(value) for column, value in table.rows[row].paper.items() if column in sizes}
    paper = [(size, mean, deviation or 0.0) for size, (mean, deviation) in sorted(theirs.items())]
    curves = [_band(f"{label}, ours", [(size, best[size].mean, best[size].deviation) for size in sorted(best)], False, colour)]
    if paper and (best or every):
        curves.append(_band(f"{label}, paper", paper, True, colour))
    return curves if best else curves[1:]


def _worth(point: Point) -> tuple[int, int]:
    return -len(point.other), point.models


def _band(label: str, points: Sequence[tuple[int, float, float]], paper: bool, colour: int) -> Curve:
    x, y, spread = ([point[part] for point in points] for part in range(3))
    low, high = ([m + sign * s for m, s in zip(y, spread, strict=True)] for sign in (-1, 1))
    return Curve(label, x, y, low, high, paper, colour)
