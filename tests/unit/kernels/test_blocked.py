"""Layers in blocks of rows give what plain operations give: results, gradients and running statistics, in float64."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

import reign
from reign.kernels import blocked, fast_path, stages_for, threads_for_blocks_only
from reign.kernels.blocked import _blocks
from reign.kernels.blocked._norm import Moments, Norm
from reign.nn import Model, _plan
from reign.nn._state import State
from reign.train.engine.execution import _precision_on_cpu


@pytest.fixture(autouse=True)
def _blocks_for_small_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "LIMITS", replace(blocked.LIMITS, numbers=0))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few rows, the last of them ragged."""
    monkeypatch.setattr(_blocks, "SMALLEST", 5)
    monkeypatch.setattr(_blocks, "NUMBERS", 40)


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Which kernels the layers used, one entry a layer."""
    used: list[str] = []
    run = _plan._Update.run

    def spy(self: _plan._Update, *arguments: Any) -> Any:
        used.append(self.kernels.__name__)
        return run(self, *arguments)

    monkeypatch.setattr(_plan._Update, "run", spy)
    return iter([used])


def graphs(sizes: tuple[int, ...] = (1, 5, 3, 6, 2)) -> Batch:
    """Random graphs, isolated nodes and graphs of one node among them, with edge features of three columns."""
    rng, found = torch.Generator().manual_seed(0), []
    for n in sizes:
        a = (torch.rand(n, n, generator=rng) < 0.5).triu(1)
        edges = (a | a.t()).nonzero().t()
        kinds = torch.randint(0, 3, (edges.size(1), 3), generator=rng)
        x = torch.randn(n, 3, generator=rng, dtype=torch.float64)
        found.append(Data(x=x, edge_index=edges, edge_attr=kinds, real=kinds.double() + 0.3))
    return Batch.from_data_list(found)


def results(model: Model, batch: Batch, fast: bool, edge_attr: Tensor | None = None, domain: str = "all") -> list[Tensor | None]:
    """Predictions, all gradients, and running statistics."""
    x = batch.x.clone().requires_grad_()
    bag = model.policy(x, batch.edge_index, edge_attr, batch.batch, batch_size=batch.num_graphs, domain=domain)
    with fast_path(fast):
        out = model.predict(x, bag)
        if out.requires_grad:
            out.square().sum().backward()
    return [
        out.detach(),
        x.grad,
        *(p.grad for p in model.parameters()),
        *(b.clone() for b in model.buffers() if b.is_floating_point()),
    ]


def assert_same(name: str, train: bool = True, change: Any = lambda model: None, **options: Any) -> None:
    batch, edge_attr = graphs(options.pop("sizes", (1, 5, 3, 6, 2))), None
    domain = options.pop("bag_domain", options.get("domain", "all"))
    if "edge_encoder" in options or "edge_dim" in options:
        edge_attr = batch.real if "edge_dim" in options else batch.edge_attr[:, : len(options["edge_encoder"])]
    found = []
    for fast in (True, False):
        torch.manual_seed(0)
        model = reign.build_model(name, 3, 4, 2, 2, **options).double().train(train)
        change(model)
        found.append(results(model, batch, fast, edge_attr, domain))
    for ours, plain in zip(*found, strict=True):
        if plain is None or ours is None:
            assert plain is None or float(plain.abs().max()) < 1e-10
            assert ours is None or float(ours.abs().max()) < 1e-10
        else:
            assert torch.allclose(ours, plain, rtol=1e-10, atol=1e-10), float((ours - plain).abs().max())


SUMMED: dict[str, Any] = {"terms": ["own+local", "own+swap_local", "own+node_root"], "norm_at": "sum"}
EXTENDED: dict[str, Any] = {
    "terms": ["own+local", "readout@Vk", "needle@Ai", "swap_local@Ai", "roots@A"],
    "root_terms": ["own", "readout@Vk", "needle@Ai", "swap_local@Ai", "non_roots@Ak"],
}
OPTIONS: dict[str, dict[str, Any]] = {
    "sun": {},
    "sun, evaluated": {"train": False},
    "sun, members of a bag of all pairs": {"name": "sun", "domain": "members", "bag_domain": "all", "policy": "ego+:1"},
    "sun, stored members": {"name": "sun", "domain": "members", "policy": "ego+:1"},
    "sun, types of edges": {"edge_encoder": [3]},
    "sun, columns of types": {"edge_encoder": [3, 3, 3]},
    "sun, edges with numbers": {"edge_dim": 3},
    "sun, no norm": {"norm": None},
    "sun, linear maps": {"transform": "linear", "norm": None},
    "sun, transpose": {"transpose": True},
    "sun, one row": {"sizes": (1,)},
    "sun, columns of types without edges": {"edge_encoder": [3, 3, 3], "sizes": (1, 1)},
    "ds, no biases": {"name": "subgraphgnn", "terms": ["own+local"], "bias": False},
    "sun, norms of roots over pairs": {"root_norms": "pairs"},
    "sun, wider than kernels": {"expansion": 40},
    "sun, residual": {"residual": True},
    "sun, residual, evaluated": {"residual": True, "train": False},
    "sun, residual, members of a bag of all pairs": {
        "residual": True,
        "domain": "members",
        "bag_domain": "all",
        "policy": "ego+:1",
    },
    "ds, residual": {"name": "subgraphgnn", "terms": ["own+local"], "residual": True},
    "sswl": {},
    "sswl, norm after the sum": {"name": "subgraphgnn", **SUMMED},
    "sswl, norm after the sum, evaluated": {"name": "subgraphgnn", "train": False, **SUMMED},
    "sswl, norm after the sum, residual": {"name": "subgraphgnn", "residual": True, **SUMMED},
    "sswl, norm after the sum, members of a bag of all pairs": {
        "name": "subgraphgnn",
        "domain": "members",
        "bag_domain": "all",
        "policy": "ego+:1",
        **SUMMED,
    },
    "roots along subgraphs": {"name": "subgraphgnn", "terms": ["own+local"], "root_terms": ["own+swap_local"], "policy": "nm"},
    "dss, mean of messages": {
        "name": "subgraphgnn",
        "terms": ["own+local", "needle+needle_msg"],
        "aggregation": {"needle_msg": "mean"},
    },
    "nodes of a subgraph and edges of subgraph i": {"name": "subgraphgnn", "policy": "ego:1", **EXTENDED},
    "the same, stored members": {"name": "subgraphgnn", "policy": "ego:1", "domain": "members", **EXTENDED},
    "edges in all terms": {"name": "subgraphgnn", "policy": "ego:1", "edge_dim": 3, "edge_terms": True, **EXTENDED},
    "types of edges in all terms": {"name": "subgraphgnn", "policy": "nm", "edge_encoder": [3], "edge_terms": True, **EXTENDED},
    "gnnakplus": {},
    "ds, deleted edges": {"policy": "ed", "norm": None},
}


@pytest.mark.usefixtures("signatures_unchecked")
@pytest.mark.parametrize("case", OPTIONS)
def test_equals_plain_operations(case: str, small_blocks: None, stages: Iterator[list[str]]) -> None:
    assert_same(**{"name": case.split(",")[0], **OPTIONS[case]})
    assert next(stages) == ["reign.kernels.blocked"] * 2


@pytest.mark.parametrize("rows", [0, 3, 256, 300])
def test_products_are_cut_for_onednn_only(rows: int) -> None:
    """The rows that are left are filled up with zeros; nothing of these is in the results, and other libraries get all rows at once."""
    x, g, out = (torch.randn(rows, n, generator=torch.Generator().manual_seed(n)) for n in (5, 4, 4))
    weight, bias = torch.randn(5, 4), torch.randn(4)
    assert _blocks._cut(300) == 300
    with _precision_on_cpu("medium"):
        assert _blocks._cut(300) == 256
        for given, expected in (({}, x @ weight), ({"bias": bias}, x @ weight + bias), ({"bias": out}, x @ weight + out)):
            torch.testing.assert_close(_blocks.multiply(x, weight, torch.full_like(out, torch.nan), **given), expected)
        torch.testing.assert_close(_blocks.multiply(x, weight, out.clone(), more=True), x @ weight + out)
        torch.testing.assert_close(_blocks.products_of_rows(g, x, torch.full((4, 5), torch.nan)), g.t() @ x, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", [{"act": "elu"}, {"norm": "layer_norm"}, {"conv": "gcn"}], ids=str)
def test_what_is_not_covered_runs_plainly(options: dict[str, Any], stages: Iterator[list[str]]) -> None:
    assert_same("sun", **options)
    assert next(stages) == []


def test_nodes_that_are_not_all_roots_run_plainly(small_blocks: None, stages: Iterator[list[str]]) -> None:
    """The norms of an encoder on nodes take their statistics over all nodes, and with sampled subgraphs only some of them are roots."""
    policy = reign.policy("ego:1@0.5").train(False)
    assert_same("subgraphgnn", terms=["own+local"], root_terms=["needle+needle_msg"], policy=policy)
    assert next(stages) == []


def test_edge_features_of_every_kind(small_blocks: None) -> None:
    """Types as floats, features that are broadcast, and other features or more types in the next layer."""
    batch = graphs()
    kinds, bag = batch.edge_attr[:, :1], reign.policy("nm").from_data(batch)
    h = torch.randn(bag.num_pairs, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    several: list[tuple[Any, Tensor]] = [(3, kinds), (3, kinds.double()), (3, 2 - kinds), (40, kinds)]
    for given in (several, [(lambda channels: nn.Identity(), kinds.double())]):
        torch.manual_seed(0)
        layers = [reign.nn.SubgraphConv(4, 4, ["own+local"], edge_encoder=e, norm_at="sum").double() for e, _ in given]
        results = []
        for fast in (True, False):
            with fast_path(fast), torch.no_grad():
                state = State(h, bag)
                for layer, (_, attr) in zip(layers, given, strict=True):
                    state = layer.update(state, attr)
                results.append(state.h)
        torch.testing.assert_close(*results)


def test_roots_without_rows_are_refused(small_blocks: None) -> None:
    batch = graphs()
    bag = reign.policy("nd").from_data(batch, domain="members")
    layer = reign.nn.SubgraphConv(3, 3, ["own+local"], ["needle"], domain="members").double()
    with pytest.raises(ValueError, match="leaves roots without a row"):
        layer(torch.zeros(bag.num_pairs, 3, dtype=torch.float64), bag)


@pytest.mark.parametrize(("name", "options"), [("sun", {}), ("subgraphgnn", SUMMED), ("subgraphgnn", {"terms": ["own", "total"]})])
def test_norms_count_batches(name: str, options: dict[str, Any]) -> None:
    model = reign.build_model(name, 3, 4, 2, 2, **options).double()
    for _ in range(2):
        results(model, graphs(), True)
    assert {int(b) for b in model.layers.buffers() if not b.is_floating_point()} == {2}


def test_a_norm_inside_an_edge_encoder_counts_each_batch_once() -> None:
    def encoder(channels: int) -> nn.Module:
        return nn.Sequential(nn.Linear(3, channels), reign.nn.BatchNorm(channels))

    model, batch = reign.build_model("sun", 3, 4, 2, 2, edge_encoder=encoder).double(), graphs()
    for fast in (True, False):
        results(model, batch, fast, batch.real)
    assert {int(b) for b in model.layers.buffers() if not b.is_floating_point()} == {2}


def test_frozen_weights(small_blocks: None) -> None:
    def freeze(model: Model) -> None:
        for p, weight in enumerate(model.parameters()):
            weight.requires_grad_(p % 3 != 0)

    assert_same("sun", change=freeze)
    assert_same("sun", change=freeze, residual=True)


@pytest.mark.parametrize("options", [{}, {"domain": "members", "bag_domain": "all", "policy": "ego+:1"}], ids=["all", "members"])
def test_residual_without_activation(options: dict[str, Any], small_blocks: None, stages: Iterator[list[str]]) -> None:
    def linear(model: Model) -> None:
        for layer in model.layers:
            layer.act = nn.Identity()

    assert_same("sun", change=linear, residual=True, **options)
    assert next(stages) == ["reign.kernels.blocked"] * 2


def test_no_gradients(small_blocks: None) -> None:
    with torch.no_grad():
        assert_same("sun")


def test_threads_change_nothing(small_blocks: None) -> None:
    """However many threads there are, a layer gives the same bit by bit."""
    found, batch = [], graphs()
    bag = reign.policy("ego+:2").from_data(batch)
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            torch.manual_seed(0)
            layer = reign.nn.SUNConv(5, 4).double()
            h = bag.x.clone().requires_grad_()
            out = layer(h, bag)
            out.square().sum().backward()
            assert torch.get_num_threads() == threads
            found.append([out, h.grad, *(p.grad for p in layer.parameters()), *layer.buffers()])
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True) if a is not None and b is not None)


def test_an_error_in_a_thread_is_raised() -> None:
    helped = threading.Event()

    def work(b: int) -> None:
        if threading.current_thread() is threading.main_thread():
            assert helped.wait(60)
        else:
            helped.set()
            raise ValueError(f"block {b}")

    try:
        torch.set_num_threads(2)
        with pytest.raises(ValueError, match="block"):
            _blocks.each(5, work)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_threads_for_blocks_only() -> None:
    """Within the context single operations have one thread, blocks have all of them."""
    names: set[str] = set()
    both = threading.Barrier(2)

    def work(b: int) -> None:
        names.add(threading.current_thread().name)
        both.wait(60)

    try:
        torch.set_num_threads(2)
        with threads_for_blocks_only():
            assert torch.get_num_threads() == 1
            _blocks.each(2, work)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert len(names) == 2


def test_which_models_run_in_blocks() -> None:
    assert reign.build_model("sun", 3, 4, 2, 2).in_blocks
    assert not reign.build_model("sun", 3, 4, 2, 2, act="elu").in_blocks
    assert not reign.build_model("ppgn", 3, 4, 2, 2).in_blocks


def test_second_derivatives(small_blocks: None) -> None:
    """The gradient of the squared gradient, through types of edges, norms, roots and sums; norms count the batch once."""
    batch, found = graphs(), []
    for fast in (True, False):
        torch.manual_seed(0)
        model = reign.build_model("sun", 3, 4, 2, 2, edge_encoder=[3], residual=True).double()
        weights = list(model.layers.parameters())
        with fast_path(fast):
            out = model(batch.x, batch.edge_index, batch.edge_attr[:, :1], batch.batch)
            first = torch.autograd.grad(out.square().sum(), weights, create_graph=True)
            second = torch.autograd.grad(sum(g.square().sum() for g in first), weights, allow_unused=True)
        found.append([*first, *second, *(value.double() for value in model.buffers())])
    for ours, plain in zip(*found, strict=True):
        ours, plain = (torch.zeros(1).double() if g is None else g for g in (ours, plain))
        assert torch.allclose(ours, plain, rtol=1e-8, atol=1e-10)


def test_a_bag_seen_in_inference_mode_has_second_derivatives(small_blocks: None) -> None:
    batch, found = graphs(), []
    for mode in (torch.inference_mode, torch.enable_grad):
        torch.manual_seed(0)
        model = reign.build_model("sun", 3, 4, 2, 2, domain="members", policy="ego+:1").double()
        bag = model.policy(batch.x, batch.edge_index, batch=batch.batch, domain="all")
        weights = list(model.layers.parameters())
        with mode():
            model.predict(batch.x, bag)
        first = torch.autograd.grad(model.predict(batch.x, bag).square().sum(), weights, create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in first), weights, allow_unused=True))
    for seen, other in zip(*found, strict=True):
        assert (seen is None) == (other is None)
        assert seen is None or torch.equal(seen, other)


def test_hooks_are_called(stages: Iterator[list[str]]) -> None:
    model, batch, seen = reign.build_model("sun", 3, 4, 2, 2).double(), graphs(), list[Tensor]()
    assert isinstance(model.layers[0], nn.Module)
    norm = next(m for m in model.layers[0].modules() if isinstance(m, nn.BatchNorm1d))
    norm.register_forward_hook(lambda module, given, out: seen.append(out))
    results(model, batch, True)
    assert len(seen) == 1
    assert next(stages) == ["reign.kernels.blocked"]  # the other layer


def test_norms_whose_momentum_changes(small_blocks: None) -> None:
    """As ``torch.optim.swa_utils.update_bn`` does it: a mean over all batches, after the model has run with another momentum."""
    model, batch = reign.build_model("sun", 3, 4, 2, 2).double().train(), graphs()
    results(model, batch, True)
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d)]
    means = []
    for enabled in (True, False):
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None
        with fast_path(enabled), torch.no_grad():
            model(batch.x, batch.edge_index, batch=batch.batch)
        means.append([norm.running_mean.clone() for norm in norms])
    for one, other in zip(*means, strict=True):
        torch.testing.assert_close(one, other)


def test_hooks_of_the_residual_connection_are_called(small_blocks: None) -> None:
    seen: list[Tensor] = []
    assert_same(
        "sun", change=lambda model: model.residual.register_forward_hook(lambda *values: seen.append(values[-1])), residual=True
    )
    assert len(seen) == 2  # in blocks and plainly


def test_where_blocks_are_used() -> None:
    x = torch.zeros(2, 3)
    assert stages_for(x) is blocked
    assert stages_for(x.double()) is blocked
    assert stages_for(x.bfloat16()) is None
    with fast_path(False):
        assert stages_for(x) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert stages_for(x) is None
    with torch.autograd.forward_ad.dual_level():
        assert stages_for(x) is None
    seen: list[object] = []
    torch.func.vmap(lambda v: (seen.append(stages_for(v)), v)[1])(x)
    assert seen == [None]


def test_small_batches_run_plainly(monkeypatch: pytest.MonkeyPatch, stages: Iterator[list[str]]) -> None:
    batch = graphs((2, 3))  # 13 pairs
    used = next(stages)
    for bound in (13 * 4 + 1, 13 * 4):
        monkeypatch.setattr(blocked, "LIMITS", replace(blocked.LIMITS, numbers=bound))
        reign.build_model("sun", 3, 4, 2, 2).double()(batch.x, batch.edge_index, batch=batch.batch)
        assert len(used) == (0 if bound > 13 * 4 else 2)


def test_a_model_of_bf16_runs(stages: Iterator[list[str]]) -> None:
    batch = graphs()
    out = reign.build_model("sun", 3, 4, 2, 2).bfloat16()(batch.x.bfloat16(), batch.edge_index, batch=batch.batch)
    assert out.dtype == torch.bfloat16
    assert next(stages) == []


def test_statistics_are_accurate() -> None:
    """In float32 the variance of values far from zero is right to a few digits more than that of a plain sum of squares."""
    y = torch.randn(5000, 3, generator=torch.Generator().manual_seed(0)) + 1000.0
    moments = Moments(3, y)
    for b, block in enumerate(y.split(2000)):
        moments.add(b, block, None)
    norm = Norm(torch.ones(3), torch.zeros(3), torch.zeros(3), torch.ones(3), 0.5, 0.0)
    affine = moments.finish(norm, True)
    exact = y.double()
    assert torch.allclose(affine.inverse.double(), exact.var(0, correction=0).rsqrt(), rtol=1e-5)
    assert torch.allclose(norm.running_mean.double(), 0.5 * exact.mean(0), rtol=1e-6)
    assert torch.allclose(norm.running_var.double(), 0.5 + 0.5 * exact.var(0), rtol=1e-5)
    assert affine.number == 5000
