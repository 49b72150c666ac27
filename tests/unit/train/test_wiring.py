"""From settings to steps: optimisers, sharpness, clipping and schedules, each compared with updates that are written out here."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tiny
from learning import CPU
from reign.data import Problem
from reign.train import Callback, Training
from reign.train.engine.batches import shuffled
from reign.train.engine.engine import Engine
from reign.train.engine.execution import epoch_seed
from reign.train.runs.build import make_model
from reign.train.settings.config import ModelConfig


class Line(nn.Module):
    """A line in the mean degree of a graph, its target: gradients that can be written out."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(2, 1).double()
        with torch.no_grad():
            self.lin.weight.copy_(torch.tensor([[0.7, -0.4]], dtype=torch.float64))
            self.lin.bias.fill_(0.2)

    def features(self, edge_index: Tensor, batch: Tensor, size: int) -> Tensor:
        nodes = torch.bincount(batch, minlength=size).double()
        edges = torch.bincount(batch[edge_index[0]], minlength=size).double()
        return torch.stack([edges / nodes, nodes / 5], dim=1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor, batch_size: int) -> Tensor:
        return self.lin(self.features(edge_index, batch, batch_size))


def learner(net: nn.Module, problem: Problem | None = None, seed: int = 3, **config: Any) -> Engine:
    settings = Training.model_validate({"epochs": 2, "batch_size": 4, "precision": "64-true", **config})
    return Engine(net, problem or tiny.problem(), settings, seed, CPU, Callback())


class Reference:
    """The same line, with gradients by hand: of the mean of (w . f + b - y)^2."""

    def __init__(self) -> None:
        self.w = torch.tensor([0.7, -0.4], dtype=torch.float64)
        self.b = torch.tensor(0.2, dtype=torch.float64)
        self.problem = tiny.problem()
        self.net = Line()

    def gradient(self, ids: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        batch = self.problem.graphs.batch(ids)
        f = self.net.features(batch.edge_index, batch.batch, batch.size)
        error = f @ w + b - batch.y[:, 0]
        return 2 * (error[:, None] * f).mean(0), 2 * error.mean()

    def batches(self, seed: int, epochs: int) -> list[Tensor]:
        train = self.problem.splits["train"]
        return [ids for epoch in range(epochs) for ids in shuffled(train, 4, epoch_seed(seed, epoch))]


def trained(**config: Any) -> tuple[Tensor, float]:
    net = Line()
    made = learner(net, **config)
    for epoch in range(2):
        made.train_epoch(epoch)
    return net.lin.weight.detach()[0], float(net.lin.bias.detach())


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_sgd_by_hand(momentum: float, decay: float, clip: float) -> None:
    """v <- m v + (g + decay w);  w <- w - lr v; gradients of a norm above the bound are made that long."""
    plain = Reference()
    w, b, v, u = plain.w, plain.b, torch.zeros(2, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)
    clipped = False
    for ids in plain.batches(3, 2):
        g, s = plain.gradient(ids, w, b)
        norm = torch.sqrt(g.square().sum() + s.square())
        factor = min(1.0, clip / float(norm + 1e-6)) if clip else 1.0
        clipped = clipped or factor < 1
        v, u = momentum * v + factor * g + decay * w, momentum * u + factor * s + decay * b
        w, b = w - 0.05 * v, b - 0.05 * u
    assert clipped == bool(clip)
    optimiser = {"name": "sgd", "lr": 0.05, "momentum": momentum, "weight_decay": decay}
    found = trained(optimiser=optimiser, clip=clip)
    torch.testing.assert_close(found[0], w, atol=1e-9, rtol=0)
    assert found[1] == pytest.approx(float(b), abs=1e-9)


@pytest.mark.parametrize("sharpness", ["sam", "asam"])
def test_sharpness_by_hand(sharpness: str) -> None:
    """The gradient at w + rho T^2 g / |T g|, with T = 1 for SAM; for ASAM T = |w| + eta for weights, and 1 for the bias."""
    plain, rho, eta = Reference(), 0.3, 0.05
    w, b = plain.w, plain.b
    for ids in plain.batches(3, 2):
        g, s = plain.gradient(ids, w, b)
        scale = w.abs() + eta if sharpness == "asam" else torch.ones(2, dtype=torch.float64)
        norm = torch.sqrt((scale * g).square().sum() + s.square())
        g, s = plain.gradient(ids, w + rho * scale**2 * g / norm, b + rho * s / norm)
        w, b = w - 0.05 * g, b - 0.05 * s
    found = trained(optimiser={"name": "sgd", "lr": 0.05, "sharpness": sharpness, "rho": rho, "eta": eta})
    torch.testing.assert_close(found[0], w, atol=1e-9, rtol=0)
    assert found[1] == pytest.approx(float(b), abs=1e-9)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adam_by_hand(name: str) -> None:
    """Kingma and Ba's update; weight decay goes through the moments for adam, and straight into the weights for adamw."""
    plain, decay, lr = Reference(), 0.2, 0.05
    theta = torch.cat([plain.w, plain.b[None]])
    m, v = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for t, ids in enumerate(plain.batches(3, 2), 1):
        g, s = plain.gradient(ids, theta[:2], theta[2])
        g = torch.cat([g, s[None]])
        if name == "adam":
            g = g + decay * theta
        else:
            theta = theta - lr * decay * theta
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g.square()
        theta = theta - lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
    found = trained(optimiser={"name": name, "lr": lr, "weight_decay": decay})
    torch.testing.assert_close(found[0], theta[:2], atol=1e-9, rtol=0)
    assert found[1] == pytest.approx(float(theta[2]), abs=1e-9)


def test_statistics_of_norms_are_those_at_the_weights_that_stay() -> None:
    """With ASAM a batch is seen twice, at the weights and nearby; norms remember the first."""

    class Normed(Line):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm = nn.Linear(2, 3).double(), nn.BatchNorm1d(3).double()
            self.last = nn.Linear(3, 1).double()

        def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor, batch_size: int) -> Tensor:
            return self.last(self.norm(self.first(self.features(edge_index, batch, batch_size))))

    net = Normed()
    made = learner(net, optimiser={"name": "sgd", "lr": 0.05, "sharpness": "asam", "rho": 2.0})
    ids = torch.arange(4)
    batch = made.problem.graphs.batch(ids)
    values = net.first(net.features(batch.edge_index, batch.batch, batch.size)).detach()
    made.model.train()
    made._learn([ids], "now")
    torch.testing.assert_close(net.norm.running_mean, 0.1 * values.mean(0))
    torch.testing.assert_close(net.norm.running_var, 0.9 + 0.1 * values.var(0))
    assert int(net.norm.num_batches_tracked) == 1


def cosine(step: int, warm: int, steps: int) -> float:
    """The rate rises in equal steps to 1, then falls to a hundredth along half a cosine."""
    if step < warm:
        return (step + 1) / warm
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))


@pytest.mark.parametrize(("accumulate", "steps"), [(1, 12), (2, 8), (3, 4)])
def test_the_cosine_spans_all_steps(accumulate: int, steps: int) -> None:
    """Twelve graphs in batches of four: three batches an epoch, four epochs, and so many steps as batches are put together."""
    made = learner(Line(), accumulate=accumulate, epochs=4, optimiser={"lr": 0.5}, schedule={"name": "cosine", "warmup": 0.25})
    rates = []
    original = made.rate.after_step

    def record() -> None:
        rates.append(made.rate.value)
        original()

    made.rate.after_step = record
    for epoch in range(4):
        made.train_epoch(epoch)
    warm = int(0.25 * steps) + 1
    assert rates == pytest.approx([0.5 * cosine(step, warm, steps) for step in range(steps)])
    assert made.rate.value == pytest.approx(0.005)  # a hundredth, after the last step


def test_seeds_of_epochs_and_models() -> None:
    """Every epoch of every seed has a seed of its own, graphs come in another order in each, and the seed decides the first weights."""
    assert len({epoch_seed(seed, epoch) for seed in range(20) for epoch in range(500)}) == 20 * 500
    problem, config = tiny.problem(), ModelConfig(name="ds", hidden_channels=4, num_layers=1)
    seen = []
    for seed, epoch in ((3, 0), (3, 1), (4, 0), (3, 0)):
        made = learner(Line(), seed=seed)
        orders: list[list[int]] = []
        made._learn = lambda group, when, seed, orders=orders: (orders.extend(ids.tolist() for ids in group), (0.0, 1.0))[1]
        made.train_epoch(epoch)
        assert sorted(g for order in orders for g in order) == problem.splits["train"].tolist()
        seen.append(orders)
    assert seen[0] == seen[3]
    assert seen[0] != seen[1] != seen[2] != seen[0]
    first = []
    for seed in (5, 6, 5):
        torch.manual_seed(seed * 100)  # what was drawn before does not matter
        first.append(torch.cat([p.detach().flatten() for p in make_model(config, problem, seed).parameters()]))
    assert torch.equal(first[0], first[2])
    assert not torch.equal(first[0], first[1])


def test_the_bound_on_pairs_is_kept_with_the_state() -> None:
    """After a run is continued, batches are split where they were before it stopped."""
    one = learner(Line(), max_pairs=40)
    one.budget.bound, one.budget.split = 17, True
    other = learner(Line(), max_pairs=40)
    other.load_state_dict(one.state_dict())
    assert (other.budget.bound, other.budget.split) == (17, True)


def test_weights_that_are_kept_do_not_change() -> None:
    made = learner(Line(), optimiser={"name": "sgd", "lr": 0.5})
    before = made.weights()
    copy = {name: value.clone() for name, value in before.items()}
    made.train_epoch(0)
    assert all(torch.equal(value, copy[name]) for name, value in before.items())
    assert not torch.equal(made.weights()["lin.weight"], copy["lin.weight"])
