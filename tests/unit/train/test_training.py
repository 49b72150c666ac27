"""The training loop and its parts."""

import inspect
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tiny
from reign.bags import DoesNotFit
from reign.disk import write_csv
from reign.nn import DS, MPNN, SUN
from reign.train import Training, Watch, fit
from reign.train.batches import affordable_pairs, pairs_of, parts
from reign.train.config import Recipe, Schedule
from reign.train.devices import make_fabric
from reign.train.learner import Learner, NonFiniteLoss
from reign.train.metrics import METRICS, better, loss_sum, metric
from reign.train.optim import LearningRate, Sharpness
from reign.train.results import summarise
from reign.train.target_scaler import Scale

CPU = make_fabric(accelerator="cpu")


def model(seed: int = 0, **options: Any) -> SUN:
    torch.manual_seed(seed)
    return SUN(1, 8, 2, 1, **{"policy": "ego+:2", **options})


def learn(net: nn.Module | None = None, problem: Any = None, **options: Any) -> dict[str, Any]:
    config = Training.model_validate({"epochs": 3, "batch_size": 5, "metric": "mae", **options.pop("config", {})})
    return fit(net or model(), problem or tiny.problem(), config, fabric=CPU, **options)[0]


# -- losses and metrics ------------------------------------------------------------------------------------------------


def test_losses_leave_out_what_is_missing() -> None:
    out, y = torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.tensor([[0.0, float("nan")], [5.0, 5.0]])
    for name, expected in (("l1", 1.0 + 2.0), ("mse", 1.0 + 4.0)):
        assert float(loss_sum(name, out, y)) == expected
    out.requires_grad_()
    loss_sum("mse", out, y).backward()
    assert out.grad is not None
    assert out.grad.tolist() == [[2.0, 0.0], [-4.0, 0.0]]
    logits, yes = torch.tensor([[0.3], [-1.0]]), torch.tensor([[1.0], [float("nan")]])
    assert float(loss_sum("bce", logits, yes)) == pytest.approx(-float(torch.sigmoid(torch.tensor(0.3)).log()))
    even = torch.zeros(3, 4)
    some = loss_sum("cross_entropy", even, torch.tensor([[1.0], [float("nan")], [3.0]]))
    assert float(some) == pytest.approx(2 * math.log(4))


def test_metrics() -> None:
    out, y = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([[0.0], [2.0], [float("nan")]])
    assert metric("mae", out, y) == 0.5
    assert metric("rmse", out, y) == pytest.approx(0.5**0.5)
    assert metric("log10_mse", out, y) == pytest.approx(torch.tensor(0.5).log10().item())
    scores, labels = torch.tensor([[0.1], [0.4], [0.35], [0.8]]), torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    assert metric("roc_auc", scores, labels) == 0.75
    assert metric("average_precision", scores, labels) == pytest.approx(0.8333333)
    two = torch.cat([labels, torch.zeros(4, 1)], dim=1)  # the second target has one class: it does not count
    assert metric("roc_auc", scores.expand(4, 2), two) == 0.75
    assert metric("accuracy", torch.tensor([[2.0], [-1.0]]), torch.tensor([[1.0], [1.0]])) == 0.5
    assert metric("accuracy", torch.eye(3), torch.tensor([[0.0], [1.0], [0.0]])) == pytest.approx(2 / 3)
    for name in METRICS:
        assert math.isnan(metric(name, out, torch.full((3, 1), float("nan"))))
        assert not better(name, float("nan"), 1.0)
        assert better(name, 1.0, None)
    assert better("mae", 0.1, 0.2)
    assert better("roc_auc", 0.2, 0.1)


# -- optimisers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adaptive", [False, True])
def test_sharpness_is_its_formula(adaptive: bool) -> None:
    """Loss (w . a + b)^2 / 2 at known weights: the step epsilon by hand, and the gradient there."""
    net = nn.Linear(2, 1)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, -2.0]]))
        net.bias.fill_(0.5)
    a, rho, eta = torch.tensor([[3.0, 1.0]]), 0.3, 0.1
    (net(a).square() / 2).sum().backward()
    assert net.weight.grad is not None
    assert net.bias.grad is not None
    scale_w = net.weight.detach().abs() + eta if adaptive else torch.ones(1, 2)
    grad_w, grad_b = net.weight.grad.clone(), net.bias.grad.clone()
    norm = torch.sqrt((scale_w * grad_w).square().sum() + grad_b.square().sum())
    moved_w, moved_b = net.weight.detach() + rho * scale_w**2 * grad_w / norm, net.bias.detach() + rho * grad_b / norm
    before = [p.detach().clone() for p in net.parameters()]
    with Sharpness(net, rho, eta, adaptive).nearby():
        torch.testing.assert_close(net.weight.detach(), moved_w)
        torch.testing.assert_close(net.bias.detach(), moved_b)
        (net(a).square() / 2).sum().backward()
    assert all(torch.equal(p, old) for p, old in zip(net.parameters(), before, strict=True))
    torch.testing.assert_close(net.weight.grad, (moved_w @ a.t() + moved_b) * a)


def test_schedules() -> None:
    def rates(schedule: dict[str, Any], losses: list[float], metric: str | None = None) -> list[float]:
        optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        rate = LearningRate(Schedule.model_validate(schedule), optimiser, steps=2 * len(losses), metric=metric)
        out = []
        for loss in losses:
            for _ in range(2):
                optimiser.step()
                rate.after_step()
            out.append(rate.value)
            rate.after_epoch(float(loss))
        return out

    assert rates({"name": "constant"}, [1, 1, 1]) == [1, 1, 1]
    assert rates({"name": "step", "every": 2, "factor": 0.5}, [1] * 5) == [1, 1, 0.5, 0.5, 0.25]
    assert rates({"name": "plateau", "patience": 1, "factor": 0.1}, [1, 1, 1, 0.5]) == pytest.approx([1, 1, 1, 0.1])
    plateau = {"name": "plateau", "patience": 0, "factor": 0.5}
    for metric_name, values in (("accuracy", [0.7] * 3), ("log10_mse", [-3.0] * 3), ("mae", [0.3] * 3), (None, [0.3] * 3)):
        assert rates(plateau, values, metric_name) == [1, 1, 0.5], metric_name
    for metric_name, values in (("accuracy", [0.7, 0.8, 0.9]), ("log10_mse", [-3.0, -4.0, -5.0]), ("mae", [0.3, 0.2, 0.1])):
        assert rates(plateau, values, metric_name) == [1, 1, 1], metric_name
    cosine = rates({"name": "cosine", "warmup": 0.0}, [1] * 10)
    assert all(a > b for a, b in pairwise(cosine))
    assert cosine[-1] == pytest.approx(0.01, abs=0.01)


@pytest.mark.parametrize("name", ["constant", "step", "plateau", "cosine"])
def test_schedules_survive_saving(name: str) -> None:
    def make() -> tuple[torch.optim.Optimizer, LearningRate]:
        optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        return optimiser, LearningRate(Schedule.model_validate({"name": name, "every": 2, "patience": 0}), optimiser, steps=8)

    def go(optimiser: torch.optim.Optimizer, rate: LearningRate) -> float:
        optimiser.step()
        rate.after_step()
        rate.after_epoch(1.0)
        return rate.value

    one = make()
    whole = [go(*one) for _ in range(6)]
    first = make()
    start = [go(*first) for _ in range(3)]
    second = make()
    second[0].load_state_dict(first[0].state_dict())
    second[1].load_state_dict(first[1].state_dict())
    assert start + [go(*second) for _ in range(3)] == whole


# -- the loop ----------------------------------------------------------------------------------------------------------


def test_it_learns() -> None:
    result = learn(config={"epochs": 30, "optimiser": {"lr": 0.01}, "loss": "l1"}, problem=tiny.problem(60))
    assert result["best"]["train"] < 0.3
    assert result["best"]["val"] <= result["last"]["val"]
    assert result["epochs"] == 30
    first = learn(config={"epochs": 1, "loss": "l1"}, problem=tiny.problem(60))
    assert result["best"]["test"] < first["best"]["test"]


@pytest.mark.parametrize(
    "options",
    [
        {"optimiser": {"name": "adamw", "weight_decay": 0.1}},
        {"optimiser": {"name": "sgd", "momentum": 0.9, "lr": 0.01}},
        {"optimiser": {"name": "sgd", "lr": 0.01, "sharpness": "sam", "rho": 0.05}},
        {"optimiser": {"name": "adam", "sharpness": "asam"}},
        {"precision": "64-true"},
        {"precision": "bf16-mixed"},
        {"clip": 0.1},
        {"accumulate": 2},
        {"scale_targets": True},
        {"max_pairs": 60},
        {"schedule": {"name": "plateau", "patience": 0}},
    ],
    ids=str,
)
def test_every_option_changes_the_result(options: dict[str, Any]) -> None:
    fabric = make_fabric(options.get("precision", "32-true"), accelerator="cpu")
    base = {"epochs": 2, "batch_size": 5, "metric": "mae"}
    if "schedule" in options:
        base["epochs"] = 6
    plain = fit(model(), tiny.problem(), Training.model_validate(base), fabric=CPU)[0]
    other = fit(model(), tiny.problem(), Training.model_validate(base | options), fabric=fabric)[0]
    assert other["last"]["test"] != plain["last"]["test"]
    assert abs(other["last"]["test"]) < 10
    if options.get("precision", "32-true") != "32-true":
        assert other["last"]["test"] == pytest.approx(plain["last"]["test"], rel=0.05)


def test_the_same_seed_gives_the_same_curve_and_another_one_another() -> None:
    class Curve(Watch):
        def __init__(self) -> None:
            self.rows: list[dict[str, Any]] = []

        def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
            self.rows.append(row)

    curves = []
    for seed in (0, 0, 1):
        curve = Curve()
        learn(model(dropout=0.2, policy="ego+:2"), seed=seed, watch=curve)
        curves.append(curve.rows)
    assert curves[0] == curves[1]
    assert curves[0] != curves[2]


@pytest.mark.parametrize("policy", ["ego+:2", "ego+:2@0.5"])
def test_going_on_is_as_if_never_stopped(policy: str, tmp_path: Path) -> None:
    """Stopped after any epoch, with dropout, sampled subgraphs, a schedule and momentum: the same bits at the end."""
    config = {"epochs": 4, "optimiser": {"sharpness": "sam", "rho": 0.05}, "schedule": {"name": "cosine"}}

    def make() -> DS:
        torch.manual_seed(0)
        return DS(1, 8, 2, 1, policy=policy, dropout=0.3)

    whole = make()
    expected = learn(whole, config=config, folder=tmp_path / "whole")

    class Stop(Watch):
        def __init__(self, last: int) -> None:
            self.last = last

        def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
            if row["epoch"] == self.last:
                raise KeyboardInterrupt

    for last in range(3):
        with pytest.raises(KeyboardInterrupt):
            learn(make(), config=config, folder=tmp_path / str(last), watch=Stop(last))
        torch.manual_seed(99)
        again = DS(1, 8, 2, 1, policy=policy, dropout=0.3)  # other weights: all come from the folder
        result = learn(again, config=config, folder=tmp_path / str(last))
        assert {k: v for k, v in result.items() if k != "seconds"} == {k: v for k, v in expected.items() if k != "seconds"}
        for one, other in zip(again.state_dict().values(), whole.state_dict().values(), strict=True):
            assert torch.equal(one, other)


def test_stopping_early() -> None:
    assert learn(config={"epochs": 50, "patience": 2, "optimiser": {"lr": 1e-12}})["epochs"] <= 20
    stopped = learn(
        config={"epochs": 50, "stop_lr": 0.2, "optimiser": {"name": "sgd", "lr": 1.0}, "schedule": {"name": "step", "every": 1}}
    )
    assert stopped["epochs"] == 3  # 1, 0.5, 0.25, then 0.125


def test_a_finished_run_is_not_trained_further(tmp_path: Path) -> None:
    config = {"epochs": 50, "patience": 2, "optimiser": {"lr": 1e-12}}
    first = learn(config=config, folder=tmp_path)
    assert learn(config=config, folder=tmp_path) == first


def test_without_validation_the_last_epoch_counts() -> None:
    problem = tiny.problem()
    problem.splits.pop("val")
    result = learn(problem=problem)
    assert result["best_epoch"] == 2
    assert set(result["best"]) == {"train", "test"}
    problem.splits.pop("train")
    with pytest.raises(ValueError, match="has no training graphs"):
        learn(problem=problem)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"loss": "bce"}, "train.loss is 'bce', and the task is regression; expected mse or l1"),
        ({"metric": "accuracy"}, "train.metric is 'accuracy', and the task is regression; expected rmse or mae or log10_mse"),
        ({"precision": "bf16-mixed"}, "the fabric has another one"),
    ],
)
def test_settings_that_do_not_suit(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learn(config=config)


def test_the_model_must_give_as_many_values_as_there_are_targets() -> None:
    torch.manual_seed(0)
    with pytest.raises(ValueError, match="make it with out_channels=1"):
        learn(SUN(1, 8, 2, 3, policy="ego+:2"))


def test_targets_far_from_zero() -> None:
    """They are scaled in float64: differences that float32 cannot hold are still learned from."""
    near, far = tiny.problem(), tiny.problem()
    far.y.add_(1e9)
    results = [learn(problem=problem, config={"scale_targets": True})["last"] for problem in (near, far)]
    assert results[1] == pytest.approx(results[0], rel=1e-3)
    far.y.mul_(1e35)  # beyond float32
    assert all(math.isfinite(value) for value in learn(problem=far, config={"scale_targets": True})["last"].values())


def test_a_metric_that_means_nothing_counts_as_none() -> None:
    """With no label in the validation graphs the last epoch is reported."""
    problem = tiny.problem()
    problem.y[problem.splits["val"]] = float("nan")
    assert learn(problem=problem)["best_epoch"] == 2


def test_scaling_of_targets() -> None:
    problem = tiny.problem()
    problem.y[0] = float("nan")
    scale = Scale.of(problem, True)
    y = problem.y[problem.splits["train"]][1:]
    torch.testing.assert_close(scale.mean, y.mean(0))
    torch.testing.assert_close(scale.deviation, y.std(0))
    torch.testing.assert_close(scale.up(scale.down(y)), y)
    problem.y.fill_(3.0)
    assert Scale.of(problem, True).deviation.tolist() == [1.0]


def test_accumulated_batches_are_one_step_along_their_mean() -> None:
    """Without norms, two batches of equal size give the step of the one batch they make."""
    graphs = tiny.problem()
    graphs.splits["train"] = torch.arange(12)
    ends = []
    for config in ({"batch_size": 12}, {"batch_size": 6, "accumulate": 2}, {"batch_size": 12, "max_pairs": 80}):
        net = model(norm=None).double()
        learn(net, graphs, config={"epochs": 3, "precision": "64-true", **config})
        ends.append(torch.cat([p.detach().flatten() for p in net.parameters()]))
    torch.testing.assert_close(ends[1], ends[0], atol=1e-10, rtol=0)
    torch.testing.assert_close(ends[2], ends[0], atol=1e-10, rtol=0)


def test_folds_report_the_epoch_with_the_best_mean(tmp_path: Path) -> None:
    """Two folds whose own best epochs differ: what counts is the mean, and the folds there."""
    curves = {0: [0.9, 0.7, 0.6], 1: [0.3, 0.6, 0.6]}
    for fold, values in curves.items():
        write_csv(tmp_path / "seed-0" / f"fold-{fold}" / "metrics.csv", ["epoch", "val_accuracy"], list(enumerate(values)))
    recipe = Recipe.check({"data": {"name": "tu"}, "folds": 2})
    result = {"metric": "accuracy", "report": "best", "parameters": 1, "seconds": 1.0}
    found = summarise(recipe, tiny.problem(), tmp_path, [result, result])["val"]
    assert (found["epoch"], found["values"]) == (1, [0.7, 0.6])
    assert found["mean"] == pytest.approx(0.65)


# -- too little memory -------------------------------------------------------------------------------------------------


class Small(nn.Module):
    """A model on a machine that can hold so many pairs at a time."""

    def __init__(self, net: SUN, room: int, error: type[Exception]) -> None:
        super().__init__()
        self.net, self.policy, self.room, self.error = net, net.policy, room, error
        self.largest, self.failed = 0, 0

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor, batch_size: int) -> Tensor:
        pairs = int(torch.bincount(batch, minlength=batch_size).square().sum())
        out: Tensor = self.net(x, edge_index, edge_attr, batch, batch_size)
        if pairs > self.room:  # after the forward pass, when running statistics have changed
            self.failed += 1
            raise self.error("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes")
        self.largest = max(self.largest, pairs)
        return out


class Notes(Watch):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.parametrize("error", [RuntimeError, torch.OutOfMemoryError, MemoryError, DoesNotFit])
def test_batches_are_split_where_memory_is_too_small(error: type[Exception]) -> None:
    """The same weights as with the bound given from the start: nothing of the failed attempt is left."""
    notes = Notes()
    net = Small(model(), 100, error)
    learn(net, config={"batch_size": 12}, watch=notes)
    assert net.failed >= 1
    assert net.largest <= 100
    assert "memory is too small for this batch; from now on batches are split at" in notes.notes[0]
    bound = int(notes.notes[-1].split("split at ")[1].split(" pairs")[0].replace(",", ""))
    other = model()
    learn(other, config={"batch_size": 12, "max_pairs": bound})
    for one, two in zip(net.net.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(one, two)


def test_one_graph_that_does_not_fit_is_named() -> None:
    with pytest.raises(ValueError, match=r"memory is too small for graph \d+ of tiny alone, which has \d+ pairs"):
        learn(Small(model(), 10, RuntimeError))


def test_a_guess_that_splits_batches_is_told() -> None:
    notes = Notes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reign.train.batches.free_memory", lambda device: 2 * 8 * 2 * 8 * 4 * 100)  # for 100 pairs of this model
        result = learn(config={"batch_size": 12}, watch=notes)
    assert result["max_pairs"] == 100
    assert len(notes.notes) == 1
    assert "free memory is for about 100 pairs" in notes.notes[0]


def test_other_errors_are_not_taken_for_memory() -> None:
    class Broken(Small):
        def forward(self, *args: Any) -> Tensor:
            raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        learn(Broken(model(), 10, RuntimeError))


def test_parts_and_pairs() -> None:
    problem = tiny.problem()
    pairs = pairs_of(model(), problem.graphs)
    assert torch.equal(pairs, problem.graphs.sizes**2)
    assert torch.equal(pairs_of(MPNN(1, 4, 1, 1), problem.graphs), problem.graphs.sizes)
    assert torch.equal(pairs_of(DS(1, 4, 1, 1, policy="2-nm"), problem.graphs), problem.graphs.sizes**3)
    assert torch.equal(pairs_of(DS(1, 4, 1, 1, policy="nm@2"), problem.graphs), problem.graphs.sizes**2)
    ids = torch.arange(10)
    for bound in (1, 50, 100, 10_000):
        found = parts(ids, pairs, bound)
        assert torch.equal(torch.cat(found), ids)
        assert all(part.numel() == 1 or int(pairs[part].sum()) <= bound for part in found)
    assert affordable_pairs(model(), torch.device("cpu")) > 10_000


# -- a loss that is no number ------------------------------------------------------------------------------------------


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_state(tmp_path: Path) -> None:
    problem = tiny.problem()

    made: list[Learner] = []
    original = Learner.__init__

    def remember(self: Learner, *args: Any) -> None:
        inspect.unwrap(original)(self, *args)
        made.append(self)

    net = model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "__init__", remember)

        class Poison(Watch):
            """After the first epoch one target becomes infinite."""

            def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
                made[0].graphs.y[3] = float("inf")  # type: ignore[index]

        with pytest.raises(NonFiniteLoss) as error:
            learn(net, problem, folder=tmp_path, watch=Poison())
    message = str(error.value)
    assert "the loss is inf in epoch 2, batch" in message
    assert "graphs of tiny: " in message
    assert "3" in message.split("tiny: ")[1].split(")")[0].split(", ")
    assert "smaller learning rate" in message
    kept = SUN.from_pretrained(tmp_path / "last_good")
    assert all(value.isfinite().all() for value in kept.state_dict().values())
    for one, other in zip(kept.state_dict().values(), net.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert (tmp_path / "checkpoint.pt").is_file()
    result = learn(model(1), tiny.problem(), folder=tmp_path)  # with the target mended, it goes on
    assert result["epochs"] == 3


def test_a_gradient_that_is_no_number_stops_too(tmp_path: Path) -> None:
    """The root of zero has a value and no slope: weights would be lost with the step, and seen only with the next batch."""

    class Root(SUN):
        def forward(self, *args: Any, **kwargs: Any) -> Tensor:
            out: Tensor = super().forward(*args, **kwargs)
            return out + (out - out).abs().sqrt()

    torch.manual_seed(0)
    net = Root(1, 8, 2, 1, policy="ego+:2")
    before = [p.detach().clone() for p in net.parameters()]
    with pytest.raises(NonFiniteLoss, match="the gradient is nan in epoch 1, batch 1"):
        learn(net)
    assert all(torch.equal(p, old) for p, old in zip(net.parameters(), before, strict=True))


def test_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match="train.tensorboard needs tensorboard"):
        learn(config={"tensorboard": True}, folder=tmp_path)


def test_tensorboard_gets_the_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    written = []

    class Writer:
        def __init__(self, folder: str, purge_step: int) -> None:
            written.append((folder, purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((name, step))

        def flush(self) -> None: ...

        def close(self) -> None:
            written.append(("closed", 0))

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    learn(config={"tensorboard": True}, folder=tmp_path)
    assert written[0] == (str(tmp_path), 0)
    assert {("train_loss", 2), ("val_mae", 0), ("lr", 1), ("closed", 0)} <= set(written)
