"""Uncertainty: deviations by each method, calibration by hand, and what it is worth."""

import json
import math
from pathlib import Path

import pytest
import torch

from reign.data import GraphPack
from reign.nn import SUN
from reign.testing import random_graphs
from reign.train import Callback, Training
from reign.train.predict.calibration import FEWEST, Calibration, Interval, Steps, fit_temperature
from reign.train.predict.ensemble import PASSES, TrainedModel, forecast, methods_of
from reign.train.predict.evaluate import class_quality, interval_quality
from reign.train.runs.scaler import Scale
from reign.train.settings.losses import LOSSES

NAN = float("nan")


def trained(seed: int, loss: str | None = None, dropout: float = 0.0, scale: tuple[float, float] = (0.0, 1.0)) -> TrainedModel:
    torch.manual_seed(seed)
    model = SUN(1, 4, 1, 2 if loss == "mve" else 1, policy="ego+:1", dropout=dropout).eval()
    mean, deviation = (torch.tensor([value], dtype=torch.float64) for value in scale)
    return TrainedModel(Path(), model, Scale(mean, deviation), Training(loss=loss), 1)


@pytest.fixture(scope="module")
def pack() -> GraphPack:
    return GraphPack.of(random_graphs(5, min_nodes=3, max_nodes=6, num_features=1, seed=0))


def test_the_loss_of_means_and_variances() -> None:
    """A half of log v + (y - m)^2 / v, with the variance v of the last columns."""
    raw = math.log(math.expm1(0.25 - 1e-4))  # whose softplus is 0.25, but for the least variance
    out = torch.tensor([[1.0, 3.0, raw, raw]], dtype=torch.float64)
    y = torch.tensor([[2.0, NAN]], dtype=torch.float64)
    assert float(LOSSES["mve"].sum(out, y)) == pytest.approx(0.5 * (math.log(0.25) + 1 / 0.25))
    up = Scale(torch.tensor([10.0, 20.0]), torch.tensor([2.0, 3.0])).of_loss(2).up(out)
    assert up[0].tolist() == pytest.approx([12.0, 29.0, 0.25 * 4, 0.25 * 9])


def test_methods_that_models_can_be_asked_for() -> None:
    assert methods_of([trained(0)]) == []
    assert methods_of([trained(0, dropout=0.5)]) == ["dropout"]
    assert methods_of([trained(0), trained(1)]) == ["ensemble"]
    assert methods_of([trained(0, "mve"), trained(1, "mve")]) == ["mve", "ensemble"]


def test_models_with_and_without_variances_together(pack: GraphPack) -> None:
    ids, models = torch.arange(len(pack)), [trained(0), trained(1, "mve")]
    assert methods_of(models) == ["ensemble"]
    outs = torch.stack([model.raw_outputs(pack, ids, Callback())[:, :1] for model in models])
    found = forecast(models, pack, ids, "regression", "ensemble", Callback())
    assert found.unsure is not None
    torch.testing.assert_close(found.values, outs.mean(0))
    torch.testing.assert_close(found.unsure, outs.std(0))


def test_deviations(pack: GraphPack) -> None:
    ids = torch.arange(len(pack))
    outs = torch.stack([trained(seed).outputs(pack, ids, Callback()) for seed in (0, 1)])
    found = forecast([trained(0), trained(1)], pack, ids, "regression", "ensemble", Callback())
    assert found.unsure is not None
    torch.testing.assert_close(found.unsure, outs.std(0))
    both = [trained(seed, "mve", scale=(5.0, 2.0)) for seed in (0, 1)]
    raw = torch.stack([model.raw_outputs(pack, ids, Callback()) for model in both])
    mixed = forecast(both, pack, ids, "regression", "mve", Callback())
    assert mixed.unsure is not None
    expected = raw[..., 1:].mean(0) + (raw[0, :, :1] - raw[1, :, :1]).square() / 4
    torch.testing.assert_close(mixed.unsure.square(), expected)
    assert mixed.values.shape == (5, 1)
    one = trained(0, dropout=0.5)
    dropped = forecast([one], pack, ids, "regression", "dropout", Callback())
    assert dropped.unsure is not None
    assert bool((dropped.unsure > 0).all())
    again = forecast([one], pack, ids, "regression", "dropout", Callback())
    assert again.unsure is not None
    assert torch.equal(dropped.unsure, again.unsure)  # by fixed seeds
    torch.testing.assert_close(dropped.values, one.outputs(pack, ids, Callback()))  # nothing is dropped for the prediction itself
    assert not one.model.training
    assert PASSES >= 2


def test_conformal_intervals_by_hand() -> None:
    """Errors 1, ..., 99 with deviations that say nothing: 90 % is the 90th of 99."""
    y = torch.arange(1.0, 100.0, dtype=torch.float64)
    interval = Interval.fit(y, torch.zeros(99, dtype=torch.float64), torch.ones(99, dtype=torch.float64))
    assert interval is not None
    one = torch.ones(1, dtype=torch.float64)
    assert interval.factor(0.1) * float(interval.deviation(one)) == pytest.approx(90.0)
    assert interval.factor(0.01) * float(interval.deviation(one)) == pytest.approx(99.0)
    assert float(interval.deviation(one)) == pytest.approx(float(y.square().mean().sqrt()))
    with pytest.raises(
        ValueError, match=r"intervals for 0.995 of the rows need at least 199 validation labels, but the run has 99"
    ):
        interval.factor(0.005)
    assert Interval.fit(y[: FEWEST - 1], y[: FEWEST - 1] * 0, y[: FEWEST - 1]) is None


def test_deviations_that_say_something_are_used() -> None:
    generator = torch.Generator().manual_seed(0)
    true = torch.rand(4000, generator=generator, dtype=torch.float64) + 0.1
    errors = true * torch.randn(4000, generator=generator, dtype=torch.float64)
    fit = Interval.fit(errors[:2000], torch.zeros(2000, dtype=torch.float64), true[:2000] / 7)
    assert fit is not None
    assert len(fit.scores) == 1000
    assert fit.slope == pytest.approx(49, rel=0.1)
    good = interval_quality(fit, errors[2000:], torch.zeros(2000, dtype=torch.float64), true[2000:] / 7, 0.1)
    assert good is not None
    assert good["coverage"] == pytest.approx(0.9, abs=0.025)
    assert good["calibration_error"] < 0.02
    flat = Interval.fit(errors[:2000], torch.zeros(2000, dtype=torch.float64), torch.ones(2000, dtype=torch.float64))
    assert flat is not None
    worse = interval_quality(
        flat, errors[2000:], torch.zeros(2000, dtype=torch.float64), torch.ones(2000, dtype=torch.float64), 0.1
    )
    assert worse is not None
    assert worse["width"] > good["width"]  # sharper where it is known where errors are large


def test_temperatures_and_steps() -> None:
    """Logits that are three times too large are found out."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(5000, 1, generator=generator, dtype=torch.float64)
    y = (torch.rand(5000, generator=generator) < torch.sigmoid(logits[:, 0])).double()
    assert fit_temperature(y, 3 * logits) == pytest.approx(3, rel=0.1)
    p = torch.sigmoid(3 * logits)
    raw = class_quality(y, p)
    found = Calibration(temperature={"a": 3.0}, isotonic={"a": Steps.fit(y, p[:, 0])})
    assert raw is not None
    for how in ("temperature", "isotonic"):
        mended = class_quality(y, found.probabilities(p, "classification", ["a"], how))
        assert mended is not None
        assert mended["calibration_error"] < 0.02 < 0.05 < raw["calibration_error"]
        assert mended["brier"] < raw["brier"]
    assert torch.equal(found.probabilities(p, "classification", ["a"], "none"), p)
    three = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64)
    hot = Calibration(temperature={"kind": 2.0}).probabilities(three, "multiclass", ["kind"], "temperature")
    assert hot[0].tolist() == pytest.approx((three[0].sqrt() / three[0].sqrt().sum()).tolist())


def test_expected_calibration_error_by_hand() -> None:
    """Two rows at 0.9 of which one is right, two at 0.6 that are both right."""
    p = torch.tensor([[0.9], [0.9], [0.4], [0.4], [0.5]], dtype=torch.float64)
    quality = class_quality(torch.tensor([1.0, 0.0, 0.0, 0.0, NAN]), p)
    assert quality is not None
    assert quality["calibration_error"] == pytest.approx((0.4 + 0.4) / 2)
    assert quality["labels"] == 4
    assert class_quality(torch.tensor([NAN]), p[:1]) is None


def test_calibration_on_disk(tmp_path: Path) -> None:
    y = torch.arange(30.0, dtype=torch.float64)
    made = Interval.fit(y, y * 0, y + 1)
    assert made is not None
    kept = Calibration(
        intervals={"ensemble": {"a": made}}, temperature={"b": 1.5}, isotonic={"b": Steps(x=[0.1, 0.9], y=[0.0, 1.0])}
    )
    kept.save(tmp_path / "c.json")
    assert Calibration.load(tmp_path / "c.json") == kept
    assert Calibration.load(tmp_path / "none.json") == Calibration()
    good = json.loads((tmp_path / "c.json").read_text())
    for wrong in (
        {**good, "temperature": {"b": 0}},
        {**good, "temperature": {"b": "hot"}},
        {**good, "isotonic": {"b": {"x": [0.9, 0.1], "y": [0.0, 1.0]}}},
        {**good, "intervals": {"ensemble": {"a": {**good["intervals"]["ensemble"]["a"], "scores": [1.0]}}}},
        {**good, "intervals": {"ensemble": [1]}},
        [],
    ):
        (tmp_path / "c.json").write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match="is damaged"):
            Calibration.load(tmp_path / "c.json")
