"""One path from a model to its predictions: in training, in ``evaluate`` and in ``predict``."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import tiny
from learning import CPU, model
from reign.train import Callback, Predictor, Recipe, Training, load, train
from reign.train.engine.engine import Engine
from reign.train.engine.execution import make_fabric
from reign.train.engine.inference import Inference
from reign.train.runs import build

pytestmark = pytest.mark.usefixtures("signatures_unchecked")

SETTINGS = {
    "data": {"name": "counting"},
    "model": {"name": "sun", "hidden_channels": 8, "num_layers": 2, "policy": "ego+:2"},
    "train": {"epochs": 2, "batch_size": 5, "metric": "mae", "scale_targets": True},
    "seeds": [0, 1],
}


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, precision: str) -> tuple[dict[str, Any], Predictor]:
    monkeypatch.setattr(build, "load_problem", lambda name, progress: tiny.problem(40))
    recipe = Recipe.check({**SETTINGS, "train": {**SETTINGS["train"], "precision": precision}})  # type: ignore[dict-item]
    return train(recipe, folder, fabric=make_fabric(precision, accelerator="cpu")), load(folder)


@pytest.mark.parametrize("precision", ["32-true", "64-true", "bf16-mixed"])
def test_a_run_is_measured_as_it_was_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    """``evaluate`` gives the figures of the run itself, to the last bit, whatever its number format."""
    summary, predictor = run(tmp_path, monkeypatch, precision)
    for split in ("train", "val", "test"):
        assert predictor.evaluate(split)["models"] == summary[split]["values"]
    assert predictor.evaluate("test")["ensemble"] == pytest.approx(summary["ensemble"]["test"], rel=1e-12)


def test_bf16_makes_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same weights measured in float32 give another figure, so the test above can fail."""
    summary, _ = run(tmp_path, monkeypatch, "bf16-mixed")
    recipe = (tmp_path / "recipe.yaml").read_text()
    (tmp_path / "recipe.yaml").write_text(recipe.replace("bf16-mixed", "32-true"))
    other = load(tmp_path).evaluate("test")["models"]
    assert other != summary["test"]["values"]
    assert other == pytest.approx(summary["test"]["values"], rel=0.005)


def test_everything_predicts_through_inference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = Inference.__call__

    def counted(self: Inference, ids: torch.Tensor, label: str) -> torch.Tensor:
        calls.append(label)
        return original(self, ids, label)

    monkeypatch.setattr(Inference, "__call__", counted)
    _, predictor = run(tmp_path, monkeypatch, "32-true")
    assert set(calls) == {"train", "val", "test"}
    calls.clear()
    predictor.evaluate("val")
    assert calls == ["predict"] * 2
    predictor.predict(tiny.graphs(3))
    assert calls == ["predict"] * 4


def test_outputs_do_not_depend_on_batches_or_on_the_budget() -> None:
    """One graph at a time, in any order, gives what all together give."""
    problem, net = tiny.problem(), model()
    found = []
    for config in ({"batch_size": 24}, {"batch_size": 5}, {"batch_size": 24, "max_pairs": 1}):
        settings = Training.model_validate({"precision": "64-true", **config})
        learner = Engine(net, problem, settings, 0, CPU, Callback())
        order = torch.randperm(24, generator=torch.Generator().manual_seed(1))
        out = learner.inference(order, "all")
        assert out.dtype == torch.float64
        found.append(out[order.argsort()])
    torch.testing.assert_close(found[1], found[0], atol=1e-12, rtol=0)
    torch.testing.assert_close(found[2], found[0], atol=1e-12, rtol=0)


def test_large_batches_have_about_as_many_pairs_as_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, problem = [], tiny.problem(40)
    monkeypatch.setattr(build, "load_problem", lambda name, progress: problem)
    settings = {
        **SETTINGS,
        "model": {"name": "sun", "hidden_channels": 8, "num_layers": 1, "policy": "ego+:1", "domain": "members"},
        "seeds": [0],
    }
    train(Recipe.check(settings), tmp_path, fabric=CPU)  # type: ignore[arg-type]
    trained, graphs = load(tmp_path).models[0], problem.graphs
    original = Inference.__call__
    monkeypatch.setattr(Inference, "__call__", lambda self, ids, label: sizes.append(self.batch_size) or original(self, ids, label))
    for least, most in ((0, 10**9), (200, 10**9), (200, 600)):
        own = replace(trained, least_pairs=least, config=trained.config.model_copy(update={"max_pairs": most}))
        own.outputs(graphs, torch.arange(len(graphs)), Callback())
    chosen = torch.linspace(0, 39, 32).long()
    pairs = (graphs.sizes + graphs.edge_ptr.diff())[chosen].double().mean()
    assert sizes == [5, int(200 / pairs), max(5, int(300 / (graphs.sizes**2).double().mean()))]
    assert sizes[1] > sizes[2]


def test_processes_share_the_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each computes its own rows and zeros elsewhere, so that the sum over processes has all of them."""
    from dataclasses import replace

    monkeypatch.setattr("reign.train.engine.inference.total", lambda value: value)
    whole = Engine(model(), tiny.problem(), Training(batch_size=4), 0, CPU, Callback()).inference
    ids = torch.arange(7)
    one, two = (replace(whole, rank=rank, world=2)(ids, "all") for rank in range(2))
    assert torch.equal(one[1::2], torch.zeros(3, 1, dtype=torch.float64))
    assert torch.equal(two[::2], torch.zeros(4, 1, dtype=torch.float64))
    torch.testing.assert_close(one + two, whole(ids, "all"), atol=1e-6, rtol=0)


def test_no_graphs_give_no_outputs() -> None:
    learner = Engine(model(), tiny.problem(), Training(), 0, CPU, Callback())
    assert learner.inference(torch.empty(0, dtype=torch.long), "none").shape == (0, 1)


def test_a_fabric_of_another_precision_is_refused() -> None:
    bf16 = make_fabric("bf16-mixed", accelerator="cpu")
    with pytest.raises(ValueError, match="train.precision is 32-true, but the precision of the fabric is"):
        Engine(model(), tiny.problem(), Training(), 0, bf16, Callback())
