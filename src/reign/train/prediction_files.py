"""The tables of predictions in the folder of a run, and the table of rows that could not be read."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import Ids, Problem
from reign.disk import first_line, write_csv

if TYPE_CHECKING:
    from reign.data.molecules import Report


def write_predictions(
    file: Path,
    problem: Problem,
    ids: Ids,
    values: Float[Tensor, "graphs outputs"],
    unsure: Float[Tensor, "graphs outputs"] | None = None,
) -> None:
    """Write targets and predictions (probabilities for classes) of some graphs with all digits, and optionally the spread over models."""
    labels = problem.classes if problem.task == "multiclass" else problem.targets
    header = ["row" if problem.names is not None else "graph", *problem.texts]
    header += [*problem.targets, *(f"{label}_pred" for label in labels)]
    columns: list[Sequence[Any]] = [
        [problem.names[i] for i in ids.tolist()] if problem.names is not None else ids.tolist(),
        *([texts[i] for i in ids.tolist()] for texts in problem.texts.values()),
        *problem.y[ids].t().tolist(),
        *values.t().tolist(),
    ]
    if unsure is not None:
        header += [f"{label}_unc" for label in labels]
        columns += unsure.t().tolist()
    rows = ([_cell(value) for value in row] for row in zip(*columns, strict=True))
    write_csv(file, header, rows)


def write_left_out(file: Path, report: "Report") -> None:
    """Write the rows of a table that could not be read, with the reasons. If all could be read, no file is written."""
    if report.left_out:
        write_csv(file, ["row", "reason"], report.left_out.items())


def _cell(value: Any) -> Any:
    return "" if isinstance(value, float) and math.isnan(value) else repr(value) if isinstance(value, float) else value


def read_predictions(file: Path, graphs: int, outputs: int) -> Float[Tensor, "graphs outputs"]:
    """The predictions that ``write_predictions`` wrote for one model."""
    try:
        with file.open(newline="") as lines:
            rows = list(csv.reader(lines))[1:]
        found = [[float(v or "nan") for v in row[len(row) - outputs :]] for row in rows]
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(
            f"{file} is damaged ({first_line(error)}); delete the result.json next to it to train this model again."
        ) from None
    if len(found) != graphs or any(len(row) != outputs for row in found):
        raise ValueError(
            f"{file} is damaged (expected {graphs} rows of {outputs} predictions); delete the result.json next to it to train this model again."
        )
    return torch.tensor(found, dtype=torch.float64).view(graphs, outputs)
