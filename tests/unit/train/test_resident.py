"""Training with the data set on the device: the same losses and weights as batch by batch. Without a GPU nothing is captured."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import reign
from learning import Curve
from reign.bags import BagStore
from reign.data import Problem
from reign.train import fit
from reign.train.engine import engine
from reign.train.engine.callbacks import Callback
from reign.train.engine.captured import CapturedEngine
from reign.train.engine.execution import make_fabric
from reign.train.settings.config import TrainingConfig
from reign.train.settings.losses import Loss
from reign.train.settings.optim import portable

pytestmark = pytest.mark.usefixtures("signatures_unchecked")

SGD = {"name": "sgd", "lr": 0.01, "momentum": 0.9}


def graph(number: int, rng: torch.Generator) -> Data:
    a = torch.rand(number, number, generator=rng) < 0.5
    edges = (a.triu(1) | a.triu(1).t()).nonzero().t()
    kinds = torch.randint(0, 3, (edges.size(1), 1), generator=rng)
    x = torch.randint(0, 4, (number, 1), generator=rng)
    return Data(x=x, edge_index=edges, edge_attr=kinds, y=torch.tensor([[edges.size(1) / 10]]))


def problem(label: float | None = None) -> Problem:
    rng = torch.Generator().manual_seed(0)
    sizes = torch.randint(1, 7, (25,), generator=rng).tolist()
    graphs = [graph(size, rng) for size in sizes]
    if label is not None:
        graphs[3].y.fill_(label)
    return Problem.of(graphs[:17], graphs[17:21], graphs[21:], node_encoder=4, edge_encoder=3)


def captured(model: reign.nn.Model, data: Problem, **config: Any) -> CapturedEngine:
    settings = TrainingConfig(batch_size=6, **config)
    return CapturedEngine(engine.Engine(model, data, settings, 0, make_fabric(accelerator="cpu"), Callback()))


def train(
    monkeypatch: pytest.MonkeyPatch, resident: bool, name: str = "sun", folder: Path | None = None, **options: Any
) -> tuple[Curve, dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    monkeypatch.setattr(engine, "why_not_captured", lambda _: None if resident else "a test")
    torch.manual_seed(1)
    data = options.pop("data", None) or problem()
    model = reign.build_model(name, 4, 4, 2, 1, **({"node_encoder": 4, "edge_encoder": 3} | options.pop("model", {})))
    config = {"epochs": 2, "batch_size": 6, "optimiser": SGD, "precision": "64-true", "report": "last", **options}
    notes = Curve()
    _, predictions = fit(model, data, TrainingConfig(**config), folder=folder, callback=notes)
    return notes, dict(model.state_dict()), predictions


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sun", {}),
        ("sun", {"optimiser": {**SGD, "sharpness": "asam"}, "model": {"residual": True, "transform": "linear"}}),
        ("dss", {"clip": 0.1, "schedule": {"name": "cosine"}}),
        ("ngnn", {"schedule": {"name": "step", "every": 1}}),
        ("ds", {"average": 1.5, "optimiser": {"name": "adam", "lr": 0.001}}),
        ("gnnakplus", {}),
        ("mpnn", {"optimiser": {"name": "adamw", "lr": 0.001}}),
        ("localfolklore", {}),
        ("ppgnrrwp", {"model": {"walk_length": 4}}),
        ("ppgnrrwp", {"model": {"products": "blocks", "encodings": {"pairs": ["rrwp:4"], "roots": True}}, "clip": 1.0}),
        ("ppgn", {}),
        ("ppgnpublished", {}),
        ("ppgnnodespublished", {}),
        (
            "sun",
            {"model": {"encodings": {"pairs": ["rrwp:3", "common"], "nodes": ["return:2"], "every_layer": True}, "residual": True}},
        ),
    ],
)
def test_the_same_as_batch_by_batch(monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, Any]) -> None:
    one, weights, predictions = train(monkeypatch, True, name, **options)
    other, expected, outputs = train(monkeypatch, False, name, **options)
    assert one.notes == []
    assert one.losses == pytest.approx(other.losses, rel=1e-6)
    for key, value in weights.items():  # the learning rate has seven digits on the device
        assert torch.allclose(value.double(), expected[key].double(), atol=1e-5), key
    for split, values in predictions.items():
        assert torch.allclose(values, outputs[split], atol=1e-5), split


def test_the_norm_of_an_encoder_sees_no_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    data = problem()
    data = replace(data, graphs=replace(data.graphs, x=data.graphs.x.double() + 1), node_encoder=None)
    found = [train(monkeypatch, resident, "mpnn", data=data, model={"node_encoder": "numbers:1"}) for resident in (True, False)]
    assert found[0][0].losses == pytest.approx(found[1][0].losses, rel=1e-6)
    for key, value in found[0][1].items():
        assert torch.allclose(value.double(), found[1][1][key].double(), atol=1e-5), key


def test_bags_are_shared_by_the_same_graphs_with_other_targets() -> None:
    data = problem()
    other = replace(data, graphs=data.graphs.with_targets(data.y + 1))
    plain = replace(data, graphs=replace(data.graphs, edge_attr=data.graphs.edge_attr.clone()))
    model = reign.build_model("sun", 4, 4, 2, 1, node_encoder=4, edge_encoder=3)
    deeper = reign.build_model("sun", 4, 4, 3, 1, node_encoder=4, edge_encoder=3)

    def resident(of: Problem, model: reign.nn.Model) -> CapturedEngine:
        return captured(model, of, loss="l1")

    first = resident(data, model)
    assert resident(other, model).store is first.store
    assert resident(plain, model).store is not first.store
    assert resident(data, deeper).store is not first.store


def test_twice_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (train(monkeypatch, True, model={"dropout": 0.3}) for _ in range(2))
    assert one[0].losses == other[0].losses
    assert all(torch.equal(value, other[1][key]) for key, value in one[1].items())


def test_a_loss_that_is_not_finite_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"the loss is inf in epoch 1, batch \d \(\d graphs of graphs: .*\b3\b"):
        train(monkeypatch, True, data=problem(1e30), precision="32-true")  # its square has no place in 32 bits


@pytest.mark.parametrize("wrong", ["loss", "gradient"])
def test_nothing_changes_after_a_loss_that_is_not_finite(wrong: str) -> None:
    """The step is left out on the device, which the host learns at the end of the epoch."""
    data = problem()
    assert data.graphs.y is not None
    data.graphs.y[3] = float("inf") if wrong == "loss" else 0.0
    torch.manual_seed(1)
    model = reign.build_model("sun", 4, 4, 2, 1, node_encoder=4, edge_encoder=3, norm=None)
    before = [weight.detach().clone() for weight in model.parameters()]
    root = Loss(lambda out, y: (out - out).abs().sqrt() + out * 0 + 1, ("regression",))  # it has a value and no slope
    resident = captured(model, data, optimiser={"name": "sgd", "lr": 0.1})
    if wrong == "gradient":
        resident.of.loss = root
    moved = list[bool]()

    def after_step(number: int) -> None:
        moved.append(any(not torch.equal(weight, old) for weight, old in zip(model.parameters(), before, strict=True)))

    assert resident.train_epoch([torch.tensor([3, 4]), torch.tensor([5, 6])], after_step)[2] == 0
    assert moved == [False, False]


def test_a_batch_larger_than_all_that_were_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its frame is larger by a fixed factor."""
    for name, value in {"DRAWN": 1, "FEW": 99, "SINGLE_ROOM": 0.3}.items():
        monkeypatch.setattr(f"reign.train.engine.captured.{name}", value)
    made = frames_made(monkeypatch)
    one, other = (train(monkeypatch, resident, epochs=4, batch_size=3) for resident in (True, False))
    assert one[0].losses == pytest.approx(other[0].losses, rel=1e-6)
    assert len(made) > 2  # more than one to learn and one to predict


def test_frames_for_smaller_and_larger_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many steps, the smaller batches have smaller frames."""
    made = frames_made(monkeypatch)
    one, other = (train(monkeypatch, resident, epochs=3, batch_size=3) for resident in (True, False))
    assert one[0].losses == pytest.approx(other[0].losses, rel=1e-6)
    assert sum(made[0]) < sum(made[1]) < sum(made[2])  # the first three are made to learn


def test_frames_depend_on_no_epoch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Frames affect rounding, so a longer training and one that continues must have the same ones."""
    found = []
    for epochs, folder in ((1, tmp_path / "a"), (400, None), (2, tmp_path / "a")):  # the last continues with the second epoch
        with monkeypatch.context() as patch:
            made = frames_made(patch)
            if epochs == 400:
                patch.setattr("reign.train.engine.loop.History.done", lambda history, *_: len(history.rows) >= 1)
            train(patch, True, epochs=epochs, batch_size=3, folder=folder)
        found.append(made)
    assert found[0] == found[1] == found[2]


def frames_made(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The sizes of all frames that will be made."""
    made, real = list[list[int]](), BagStore.frame

    def noted(store: BagStore, number: int, totals: torch.Tensor) -> Any:
        made.append(totals.tolist())
        return real(store, number, totals)

    monkeypatch.setattr(BagStore, "frame", noted)
    return made


@pytest.mark.parametrize(("first", "then"), [(True, False), (False, True)])
def test_a_checkpoint_of_either_path_continues_on_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool, then: bool
) -> None:
    adam = {"name": "adam", "lr": 0.001}
    whole = train(monkeypatch, then, optimiser=adam, epochs=3)
    train(monkeypatch, first, optimiser=adam, epochs=1, folder=tmp_path)
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["learner"]["optimiser"]
    assert type(state["param_groups"][0]["lr"]) is float
    parts = train(monkeypatch, then, optimiser=adam, epochs=3, folder=tmp_path)
    assert parts[0].losses == pytest.approx(whole[0].losses[1:], rel=1e-5)


def test_portable_states_are_those_of_plain_optimisers() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    plain = torch.optim.Adam([weight]).state_dict()
    fused = torch.optim.Adam([weight], lr=torch.tensor(0.001), fused=True).state_dict()
    assert portable(fused)["param_groups"][0].keys() == plain["param_groups"][0].keys()
    assert portable(fused)["param_groups"][0]["lr"] == pytest.approx(0.001)


def test_what_cannot_be_kept_is_left_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reign.train.engine.captured.BagStore", _fails)
    one, other = (train(monkeypatch, resident) for resident in (True, False))
    assert one[0].losses == other[0].losses
    assert one[0].notes == ["batches are assembled one by one, not on the device: no such luck."]


def test_after_a_failure_in_an_epoch_it_is_repeated_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights, their average, the optimiser and the schedule are those of the start of the epoch."""
    options = {"epochs": 3, "schedule": {"name": "cosine"}, "average": 1}
    calls, real = list[int](), CapturedEngine._learn

    def fails_at_the_fifth(*args: Any) -> None:
        calls.append(1)
        real(*args)
        if len(calls) == 5:
            raise RuntimeError("no such luck")

    monkeypatch.setattr(CapturedEngine, "_learn", fails_at_the_fifth)
    one, weights, _ = train(monkeypatch, True, **options)
    other, expected, _ = train(monkeypatch, False, **options)
    assert (len(calls), len(one.notes)) == (5, 1)
    assert one.losses == pytest.approx(other.losses, rel=1e-6)
    for key, value in weights.items():
        assert torch.allclose(value.double(), expected[key].double(), atol=1e-5), key


def _fails(*_: Any) -> None:
    raise RuntimeError("no such luck\nand more lines")


@pytest.mark.parametrize(
    ("model", "policy", "along"),
    [("tuplesun", "2-nm", True), ("tuplesun", "nm", False), ("dss", "2-nm", False), ("sun", "nm", False)],
)
def test_terms_along_several_roots_are_not_captured(model: str, policy: str, along: bool) -> None:
    """Their sums are in no frame, so that training runs batch by batch."""
    data = problem()
    found: Any = SimpleNamespace(
        config=TrainingConfig(),
        model=reign.build_model(model, 4, 4, 2, 1, policy=policy),
        fabric=SimpleNamespace(device=torch.device("cuda"), world_size=1),
        problem=data,
        budget=SimpleNamespace(pairs=data.graphs.sizes**3, bound=10**9),
    )
    reason = engine.why_not_captured(found)
    assert (reason is not None and "along the roots of subgraphs" in reason) == along
    assert along or reason is None
    found.fabric.device, found.problem = torch.device("cpu"), data
    reason = engine.why_not_cached(found)
    assert (reason is not None and "several roots" in reason) == along
