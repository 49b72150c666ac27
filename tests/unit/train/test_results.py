"""Results over seeds and folds."""

import math
from typing import Any

import pytest

import tiny
from reign.train.runs.results import Baseline, ModelResult, Spread, Summary, summarise
from reign.train.settings.config import Recipe


@pytest.mark.parametrize(("report", "epoch", "expected"), [("best", 1, [0.7, 0.6]), ("last", 2, [0.6, 0.6])])
def test_folds_report_the_epoch_with_the_best_mean_or_the_last(report: str, epoch: int, expected: list[float]) -> None:
    """Two folds whose own best epochs differ: what counts is the mean, and the folds there."""
    curves = {0: [0.9, 0.7, 0.6], 1: [0.3, 0.6, 0.6]}
    recipe = Recipe.check({"data": {"name": "tu"}, "folds": 2, "train": {"report": report}})
    results = [
        ModelResult.model_validate({"folder": f"fold-{f}", "metric": "accuracy", "report": report, "parameters": 1, "seconds": 1.0})
        for f in range(2)
    ]
    found = summarise(recipe, tiny.problem(), results, list(curves.values()), None).val
    assert (found.epoch, found.values) == (epoch, expected)
    assert found.mean == pytest.approx(sum(expected) / 2)


def test_a_metric_that_is_not_defined_says_nothing() -> None:
    nan, about = Spread.over([math.nan]), {"name": "forest", "trees": 1, "columns": 1, "seconds": 1.0}
    summary = Summary.model_construct(
        metric="roc_auc", val=nan, baselines=[Baseline.model_construct(**about, val=nan)], members=[None]
    )
    assert (
        summary.compare()
        == "roc_auc is not defined on these validation rows, so they do not say whether the forest would be better."
    )


def test_the_spread_of_a_model_that_diverged() -> None:
    assert Spread.over([1.0, 3.0]).std == pytest.approx(math.sqrt(2))
    found = Spread.over([1.0, math.inf])
    assert (found.mean, found.values) == (math.inf, [1.0, math.inf])
    assert found.std is not None
    assert math.isnan(found.std)


@pytest.mark.parametrize(("rows", "folds", "few"), [(99, 0, True), (100, 0, False), (99, 5, False), (None, 0, False)])
def test_few_validation_rows_hardly_decide(rows: int | None, folds: int, few: bool) -> None:
    about = Baseline.model_construct(name="forest", val=Spread.over([2.0]), val_rows=rows)
    said = Summary.model_construct(metric="rmse", val=Spread.over([1.0]), baselines=[about], members=[None], folds=folds).compare()
    assert said is not None
    assert said.startswith(
        f"On the {'' if rows is None else f'{rows} '}validation rows the model is better: rmse 1 of the model, 2 of the"
    )
    assert ("; so few rows hardly decide, and --num-folds 5" in said) == few


@pytest.mark.parametrize(
    ("models", "values", "partners", "said"),
    [
        (1, (2.0, 3.0), [], "the model is best: rmse 1 of the model, 2 of the forest, 3 of the Gaussian process."),
        (2, (2.0, 3.0), [], "the models are best: rmse 1 of the models, on average, 2 of the forest, 3 of the Gaussian process."),
        (1, (2.0, 0.5), ["gp"], "the Gaussian process is best: {}, 0.25 of the model and the Gaussian process together."),
        (1, (1.0, 1.0), ["forest", "gp"], "the model and the forest and the Gaussian process are best: {}, 0.25 of all together."),
        (1, (0.5, 0.5), ["forest", "gp"], "the forest and the Gaussian process are best: {}, 0.25 of all together."),
        (1, (0.5,), ["forest"], "the forest is better: {}, 0.25 of both together."),
        (1, (1.0,), [], "neither is better: {}. A run with --ensemble-with forest predicts with it, too."),
        (1, (2.0, 0.5), [], "the Gaussian process is best: {}. A run with --ensemble-with forest gp predicts with them, too."),
    ],
)
def test_which_is_best(models: int, values: tuple[float, ...], partners: list[Any], said: str) -> None:
    names = [("forest", "the forest"), ("gp", "the Gaussian process")][: len(values)]
    baselines = [
        Baseline.model_construct(name=name, val=Spread.over([value]), val_rows=1000)
        for (name, _), value in zip(names, values, strict=True)
    ]
    together = {"val": Spread.over([0.25])} if partners else {}
    summary = Summary.model_construct(metric="rmse", val=Spread.over([1.0]), baselines=baselines, members=[None] * models)
    summary = summary.model_copy(update={"partners": partners, "together": together})
    numbers = ", ".join(["1 of the model", *(f"{value:g} of {title}" for (_, title), value in zip(names, values, strict=True))])
    assert summary.compare() == "On the 1,000 validation rows " + said.format(f"rmse {numbers}")
    assert list(summary.beside) == [f"val, {title[4:]}" for _, title in names] + ["val, together"] * bool(partners)
