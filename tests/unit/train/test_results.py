"""Results over seeds and folds."""

import math
from pathlib import Path

import pytest

import tiny
from reign.disk import write_csv
from reign.train.results import spread, summarise
from reign.train.settings.config import Recipe


@pytest.mark.parametrize(("report", "epoch", "expected"), [("best", 1, [0.7, 0.6]), ("last", 2, [0.6, 0.6])])
def test_folds_report_the_epoch_with_the_best_mean_or_the_last(
    tmp_path: Path, report: str, epoch: int, expected: list[float]
) -> None:
    """Two folds whose own best epochs differ: what counts is the mean, and the folds there."""
    curves = {0: [0.9, 0.7, 0.6], 1: [0.3, 0.6, 0.6]}
    for fold, values in curves.items():
        write_csv(tmp_path / "seed-0" / f"fold-{fold}" / "metrics.csv", ["epoch", "val_accuracy"], list(enumerate(values)))
    recipe = Recipe.check({"data": {"name": "tu"}, "folds": 2, "train": {"report": report}})
    result = {"metric": "accuracy", "report": report, "parameters": 1, "seconds": 1.0}
    found = summarise(recipe, tiny.problem(), tmp_path, [result, result])["val"]
    assert (found["epoch"], found["values"]) == (epoch, expected)
    assert found["mean"] == pytest.approx(sum(expected) / 2)


def test_the_spread_of_a_model_that_diverged() -> None:
    assert spread([1.0, 3.0])["std"] == pytest.approx(math.sqrt(2))
    found = spread([1.0, math.inf])
    assert (found["mean"], found["values"]) == (math.inf, [1.0, math.inf])
    assert math.isnan(found["std"])
