"""Every fused kernel against plain formulas in float64, forward and gradient, on ragged batches.

The default suite runs this file in Triton's interpreter, in a process of its own (``test_fused.py``); ``pytest -m gpu`` runs it on a GPU.
"""

import os
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

import reign
from reign.bags import SubgraphBag, block_triples, kernel_edges, kernel_near, kernel_pairs, kernel_triples
from reign.kernels import (
    CountedRows,
    Gathered,
    NodeInput,
    Norms,
    PairSlot,
    PassedMessages,
    Segments,
    Stack,
    fast_path,
    fused,
    gather_columns,
)
from reign.kernels.fused import (
    NodeStage,
    PairStage,
    _launch,
    _linear,
    _stages,
    _sums,
)
from reign.nn._state import State
from reign.nn.models._ppgn import signed_root
from reign.testing import random_graphs

DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
Weights = dict[str, Tensor]


def graphs(sizes: tuple[int, ...], directed: bool, seed: int) -> Batch:
    """Random graphs, isolated nodes and graphs of one node among them, with four types of edges."""
    rng = torch.Generator().manual_seed(seed)
    found = []
    for n in sizes:
        a = torch.rand(n, n, generator=rng) < 0.35
        if not directed:
            a = a.triu(1) | a.triu(1).t()
        edges = a.nonzero().t()
        kinds = torch.randint(0, 4, (edges.size(1), 1), generator=rng)
        found.append(Data(x=torch.randn(n, 1, generator=rng), edge_index=edges, edge_attr=kinds))
    return Batch.from_data_list(found).to(DEVICE)


def draw(channels: tuple[int, int, int], mlp: bool, inner: bool, outer: bool, seed: int) -> Weights:
    rng = torch.Generator().manual_seed(seed)
    first, hidden, last = channels
    hidden = hidden if mlp else last

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng)

    w = {"w1": normal(hidden, first) / first**0.5, "b1": 0.1 * normal(hidden)}
    if mlp:
        w |= {"w2": normal(last, hidden) / hidden**0.5, "b2": 0.1 * normal(last)}
    if mlp and inner:
        w |= {"g1": 1 + 0.1 * normal(hidden), "t1": 0.1 * normal(hidden)}
    if outer:
        w |= {"g2": 1 + 0.1 * normal(last), "t2": 0.1 * normal(last)}
    return {name: value.to(DEVICE).requires_grad_() for name, value in w.items()}


def norms(ws: list[Weights], scale: str, shift: str) -> Norms | None:
    sizes = [w[scale].numel() for w in ws if scale in w]
    if not sizes:
        return None
    mean = [torch.zeros(sizes[0], device=DEVICE) if scale in w else None for w in ws]
    var = [torch.ones(sizes[0], device=DEVICE) if scale in w else None for w in ws]
    return Norms([w.get(scale) for w in ws], [w.get(shift) for w in ws], mean, var)


def stack(ws: list[Weights]) -> Stack:
    mlp = "w2" in ws[0]
    second = ([w["w2"] for w in ws], [w["b2"] for w in ws]) if mlp else ([], [])
    return Stack([w["w1"] for w in ws], [w["b1"] for w in ws], norms(ws, "g1", "t1"), *second, norms(ws, "g2", "t2"))


def plain_norm(x: Tensor, scale: Tensor, shift: Tensor, rows: Tensor) -> Tensor:
    y = x[rows]
    out = (y - y.mean(0)) * torch.rsqrt(y.var(0, correction=0) + 1e-5) * scale + shift
    return torch.zeros_like(x).index_copy(0, rows.nonzero().squeeze(1), out)


def plain_slot(x: Tensor, w: Weights, inner: Tensor, outer: Tensor) -> Tensor:
    y = x @ w["w1"].t() + w["b1"]
    if "w2" in w:
        if "g1" in w:
            y = plain_norm(y, w["g1"], w["t1"], inner)
        y = y.relu() @ w["w2"].t() + w["b2"]
    return plain_norm(y, w["g2"], w["t2"], outer) if "g2" in w else y


def plain_messages(h: Tensor, bag: SubgraphBag, neighbours: Any, table: Tensor | None, eps: Tensor, kind: Tensor | None) -> Tensor:
    messages = bag.wiring.make_messages(neighbours)
    message, edge = h[messages.from_rows.index], messages.from_edges.index
    if table is not None:
        message = (message + table[edge if kind is None else kind[edge]]).relu()
    return (1 + eps) * h + torch.zeros_like(h).index_add(0, messages.into_targets.index_t, message)


def doubles(leaves: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().double().requires_grad_() for name, value in leaves.items()}


def assert_close(outs: list[Tensor], expected: list[Tensor], leaves: dict[str, Tensor], twins: dict[str, Tensor]) -> None:
    """Outputs, and gradients of all leaves, to float32; biases before a norm have no gradient but for rounding."""
    for out, value in zip(outs, expected, strict=True):
        assert float((out.detach().double() - value.detach()).abs().max()) <= 2e-5 * float(value.detach().abs().max()) + 1e-12
    largest = max(float(twin.grad.abs().max()) for twin in twins.values() if twin.grad is not None)
    for name, leaf in leaves.items():
        grad, twin = leaf.grad, twins[name].grad
        assert grad is not None, name
        assert twin is not None, name
        assert float((grad.double() - twin).abs().max()) <= 5e-5 * max(float(twin.abs().max()), 0.05 * largest), name


OWN, LOCAL = ("own", True, True, False), ("Ak", True, True, True)
CASES = [  # channels, policy, domain, roots apart, edges, directed, slots, activation
    ((34, 8, 8), "ego+:2", "all", True, "types", False, (OWN, LOCAL), True),
    ((62, 64, 64), "ego:1", "members", False, "edges", True, (OWN, LOCAL), True),
    ((10, 12, 24), "ego:1", "all", False, None, True, (LOCAL, ("swap", True, True, True)), True),
    ((66, 8, 8), "nm", "all", True, "types", False, (("own", False, False, False), ("Ak", True, False, True)), True),
    ((5, 7, 3), "nm", "all", False, None, False, (("own", True, False, False),), False),
]
if DEVICE == "cuda":
    CASES += [
        ((66, 64, 64), "ego+:3", "all", True, "types", False, (OWN, LOCAL), True),
        ((100, 100, 100), "ego+:3", "all", True, "edges", True, (OWN, LOCAL), True),
        ((110, 110, 110), "ego+:2", "members", False, None, False, (OWN, LOCAL), True),
    ]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_pair_stage(case: int) -> None:
    channels, policy, domain, roots, typed, directed, slots, act = CASES[case]
    first, _, last = channels
    torch.manual_seed(
        case
    )  # wide layers get small graphs: a value so near to 0 that ReLU rounds it to the other side would spoil gradients
    batch = graphs(
        (1, 2, 5, 7, 3) if DEVICE == "cpu" else (1, 9, 23, 30, 2) if first > 66 else (1, 9, 23, 30, 2) * 8, directed, case
    )
    bag = reign.policy(policy).from_data(batch, domain=domain)
    masked = domain == "all" and not roots and policy.startswith("ego")  # domain members on a bag of all pairs
    inner = bag.member if masked else torch.ones_like(bag.member)
    outer = inner.clone()
    if roots:
        outer[bag.root_row] = False
    kind = batch.edge_attr.view(-1)
    leaves: dict[str, Tensor] = {}
    weights, made = [], []
    for t, (source, mlp, with_inner, with_outer) in enumerate(slots):
        w = draw(channels, mlp, with_inner, with_outer, 10 * case + t)
        if source == "own":
            made.append(PairSlot(stack([w])))
        else:
            w["eps"] = torch.full((1,), 0.3, device=DEVICE).requires_grad_()
            if typed is not None:
                w["table"] = torch.randn(4 if typed == "types" else kind.numel(), first, device=DEVICE).requires_grad_()
            edges = kernel_edges(bag, source)
            if typed == "types":
                edges = type(edges)(**{**vars(edges), "kind": kind.to(torch.int32)})
            made.append(PairSlot(stack([w]), PassedMessages(edges, w.get("table"), w["eps"])))
        weights.append(w)
        leaves |= {f"{name}{t}": value for name, value in w.items()}
    shapes = {"h": (bag.num_pairs, first), "S": (bag.num_subgraphs, last), "N": (bag.num_nodes, last)}
    shapes |= {"R": (bag.num_subgraphs, last)} if roots else {}
    leaves |= {name: torch.randn(*shape, device=DEVICE).requires_grad_() for name, shape in shapes.items()}
    picks = kernel_near(bag)[0]
    wanted = frozenset({"readout", "needle", "root", "near"})
    stage = PairStage(kernel_pairs(bag, roots, masked), made, 1, 2, act, masked, True, picks, wanted)
    outs = list(stage(leaves["h"], leaves["S"], leaves["N"], leaves.get("R")))
    back = [torch.randn_like(out) for out in outs]
    torch.autograd.backward(outs, back)

    twins = doubles(leaves)
    total = twins["S"][bag.sub] + twins["N"][bag.node]
    for t, (source, *_) in enumerate(slots):
        w = {name: twins[f"{name}{t}"] for name in weights[t]}
        x = twins["h"]
        if source != "own":
            x = plain_messages(x, bag, source, w.get("table"), w["eps"], kind if typed == "types" else None)
        total = total + plain_slot(x, w, inner, outer)
    if roots:
        total = total.index_copy(0, bag.root_row, twins["R"])
    total = total.relu() if act else total
    total = total * bag.member[:, None] if masked else total
    zeros = torch.zeros(bag.num_subgraphs, last, dtype=torch.float64, device=DEVICE)
    sums = [zeros.index_add(0, bag.sub, total), zeros.index_add(0, bag.node, total)]
    expected = [total, *sums, total[bag.root_row], total[picks.rows.long()]]
    torch.autograd.backward(expected, [g.double() for g in back])
    assert_close(outs, expected, leaves, twins)


@pytest.mark.parametrize("channels", [(6, 5, 7), (66, 64, 64)] + ([(128, 128, 128)] if DEVICE == "cuda" else []))
def test_node_stage(channels: tuple[int, int, int]) -> None:
    rows, groups = 37, (0, 1, 1, 2, 0)
    flags = (torch.arange(rows, device=DEVICE) % 5 != 3).to(torch.int32)  # the others are padding
    real = flags != 0
    ws = [draw(channels, True, True, t >= 2, t) for t in range(5)]
    made = stack(ws)
    leaves = {f"{name}{t}": value for t, w in enumerate(ws) for name, value in w.items()}
    leaves["x"] = torch.randn(5, rows, channels[0], device=DEVICE).requires_grad_()
    out = torch.stack(NodeStage(made, groups, CountedRows(rows, flags, 1, 1), True)([NodeInput(x) for x in leaves["x"]]))
    back = torch.randn_like(out) * real[:, None]
    out.backward(back)
    twins = doubles(leaves)
    slots = [plain_slot(twins["x"][t], {name: twins[f"{name}{t}"] for name in ws[t]}, real, real) for t in range(5)]
    expected = torch.stack([torch.stack([slots[t] for t in range(5) if groups[t] == q]).sum(0) for q in range(3)])
    expected.backward(back.double())
    assert_close([out[:, real]], [expected[:, real]], leaves, twins)
    hidden = [
        leaves["x"].detach()[t].double() @ ws[t]["w1"].detach().double().t() + ws[t]["b1"].detach().double() for t in range(5)
    ]
    assert made.inner is not None
    for t in range(5):  # running statistics move by a tenth
        mean, var = made.inner.mean[t], made.inner.var[t]
        assert mean is not None
        assert var is not None
        assert torch.allclose(mean.double(), 0.1 * hidden[t][real].mean(0), atol=1e-5)
        assert torch.allclose(var.double(), 0.9 + 0.1 * hidden[t][real].var(0), atol=1e-5)


def test_gradients_in_any_places_are_read() -> None:
    """At equal distances as they are, and otherwise from a copy. Distances have 64 bits, also in a kernel that was compiled for near ones."""
    a = torch.randn(4, 3, 2, device=DEVICE)
    for given in ((a[0], a[2]), (a[2], a[0]), (a[1], a[1]), (a[0], a[1], a[3]), (a[:, 0], a[:, 1]), (a[3],)):
        first, distance = _stages._as_one(given)
        assert torch.equal(first.as_strided((len(given), *first.shape), (distance, *first.stride())), torch.stack(given))
    assert all(getattr(kernel, "fn").__annotations__["gs"] == "i64" for kernel in (_linear._linear_map_back, _linear._norm_sums))  # noqa: B009


def test_a_slot_without_a_norm_leaves_the_statistics_of_others_alone() -> None:
    ws = [draw((4, 4, 4), True, True, t == 0, t) for t in range(8)]
    made = stack(ws)
    x = torch.randn(8, 300, 4, device=DEVICE)
    NodeStage(made, (0,) * 8, CountedRows(300, x, 0, 0), True)([NodeInput(one) for one in x])
    w = {name: value.detach() for name, value in ws[0].items()}
    hidden = plain_norm(x[0] @ w["w1"].t() + w["b1"], w["g1"], w["t1"], torch.ones(300, dtype=torch.bool, device=DEVICE)).relu()
    assert made.outer is not None
    assert made.outer.mean[0] is not None
    assert torch.allclose(made.outer.mean[0], 0.1 * (hidden @ w["w2"].t() + w["b2"]).mean(0), atol=1e-5)


MODELS: dict[str, dict[str, Any]] = {
    "sswl": {},
    "idgnn": {},
    "gnnakctx": {},
    "dss with a residual connection": {"residual": True},
    "ngnn": {},
    "sswlpublished": {},
    "gnnakpluspublished": {"hop_channels": 3},
}
MODELS["subgraphgnn"] = {"terms": ["own+node_root", "own_root+root_msg", "own+local", "needle"], "on_pairs": True, "bias": "first"}
MODELS["subgraphgnn with the nodes of a subgraph and the edges of subgraph i"] = {
    "terms": ["own+local", "readout@Vk", "needle@Ai", "swap_local@Ai"],
    "policy": "ego:1",
    "norm": None,  # the graphs here have few edges, and a norm of nothing but zeros would give ReLU an input of exactly 0
}
MODELS["sun with norms over pairs"] = {"root_norms": "pairs"}
MODELS |= {"sun": {}, "gnnakplus": {}, "reign2": {}, "ds": {}, "mpnn": {}} if DEVICE == "cuda" else {}


def step(model: reign.nn.Model, batch: Batch, fast: bool) -> list[Tensor]:
    """Outputs, gradients and running statistics after a step."""
    with fast_path(fast):
        out = model(batch.x, batch.edge_index, batch=batch.batch)
        out.square().sum().backward()
    return [out.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None), *map(torch.clone, model.buffers())]


@pytest.mark.parametrize(("name", "train"), list(product(MODELS, (True, False) if DEVICE == "cuda" else (True,))))
def test_models(name: str, train: bool) -> None:
    """Outputs, gradients and running statistics are those of the plain version; the same twice, bit for bit."""
    number, most, width = (3, 4, 4) if DEVICE == "cpu" else (12, 9, 16)
    batch = Batch.from_data_list(random_graphs(number, min_nodes=1, max_nodes=most, edge_prob=0.4)).to(DEVICE)
    results = []
    for fast in (True, False):
        torch.manual_seed(0)
        model = reign.build_model(name.split()[0], 3, width, 2, 2, **MODELS[name]).to(DEVICE)
        start = {key: value.clone() for key, value in model.state_dict().items()}
        results.append(step(model.train(train), batch, fast))
        if fast:
            known = len(_launch._POINTERS), len(_launch._NUMBERS)
            model.load_state_dict(start)
            model.zero_grad()
            again = step(model, batch, fast)
            assert (len(_launch._POINTERS), len(_launch._NUMBERS)) == known, (
                "a second step puts numbers on the device, which no CUDA graph can"
            )
    largest = max(float(value.abs().max()) for value in results[1] if value.is_floating_point())
    for value, expected, same in zip(*results, again, strict=True):
        assert float((value.double() - expected.double()).abs().max()) <= 2e-5 * largest
        assert torch.equal(value, same)


@pytest.mark.parametrize(
    "name", ["sun", "dss with a residual connection", "sswlpublished"] + (["sswl", "gnnakctx"] if DEVICE == "cuda" else [])
)
def test_models_in_bfloat16(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in bfloat16 are as near to float32 as plain operations within autocast; sums and statistics are float32. The same twice, bit for bit."""
    seen, real = set[torch.dtype](), fused.PairStage.__call__

    def stage(self: PairStage, h: Tensor, *rest: Any) -> Any:
        seen.add(h.dtype)
        return real(self, h, *rest)

    monkeypatch.setattr(fused.PairStage, "__call__", stage)
    batch = Batch.from_data_list(random_graphs(2 if DEVICE == "cpu" else 4, min_nodes=3, max_nodes=6, edge_prob=0.4)).to(DEVICE)
    results = []
    for fast, mixed in ((True, True), (False, False), (True, True), (False, True)):
        torch.manual_seed(0)
        model = reign.build_model(name.split()[0], 3, 16, 2, 2, **MODELS.get(name, {})).to(DEVICE)
        with fast_path(fast), torch.autocast(DEVICE, torch.bfloat16, enabled=mixed, cache_enabled=False):
            out = model(batch.x, batch.edge_index, batch=batch.batch)
        with fast_path(fast):
            out.float().square().sum().backward()
        grads = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        results.append([out.detach().float(), grads, torch.cat([b.float().flatten() for b in model.buffers()])])
    assert seen == {torch.bfloat16}
    for value, expected, again, plain in zip(*results, strict=True):
        assert torch.equal(value, again)
        distances = [float((each - expected).norm() / expected.norm()) for each in (value, plain)]
        assert 1e-5 < distances[0] < 0.02 + 2 * distances[1], (name, distances)


def test_weights_in_bfloat16_are_left_to_plain_operations() -> None:
    """Kernels read weights by their addresses, as float32."""
    batch = Batch.from_data_list(random_graphs(3, min_nodes=3, max_nodes=5, edge_prob=0.4)).to(DEVICE)
    torch.manual_seed(0)
    model, outs = reign.build_model("sun", 3, 8, 2, 2).to(DEVICE).bfloat16(), []
    for fast in (True, False):
        with fast_path(fast), torch.autocast(DEVICE, torch.bfloat16):
            outs.append(model(batch.x, batch.edge_index, batch=batch.batch))
    torch.testing.assert_close(*outs, atol=0.1, rtol=0.1)


@pytest.mark.parametrize(("policy", "channels"), [("ego+:2", 5), ("null", 66)])
def test_lift(policy: str, channels: int) -> None:
    bag = reign.policy(policy).from_data(graphs((1, 4, 3), False, 0))
    x = torch.randn(8, channels, device=DEVICE).requires_grad_()
    results = []
    for fast in (True, False):
        with fast_path(fast):
            out = bag.lift(x)
        back = torch.arange(out.numel(), device=DEVICE).view_as(out).float()
        results.append((out, *torch.autograd.grad(out, x, back)))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.allclose(results[0][1], results[1][1])


def test_sums_are_fused_too() -> None:
    x = torch.randn(9, 5, device=DEVICE).requires_grad_()
    sums = reign.kernels.Sum.build(*torch.tensor([[0, 3, 3, 8], [1, 0, 1, 4]], device=DEVICE), 9, 6)
    out = sums(x)
    out.sum().backward()
    expected = torch.zeros(6, 5, device=DEVICE).index_add(0, torch.tensor([1, 0, 1, 4], device=DEVICE), x.detach()[[0, 3, 3, 8]])
    assert torch.allclose(out.detach(), expected)
    assert x.grad is not None
    assert x.grad[:, 0].tolist() == [1, 0, 0, 2, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("indexed", [True, False])
def test_sums_of_many_short_segments(indexed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = torch.tensor([2, 0, 1, 3, 0, 1] * 7)
    ptr, target = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)]), torch.arange(42).repeat_interleave(lengths)
    x = torch.randn(49, 66, device=DEVICE)
    index = torch.randperm(49) if indexed else torch.arange(49)
    segments = Segments(ptr.to(DEVICE), index.to(DEVICE) if indexed else None)
    expected = torch.zeros(42, 63, device=DEVICE).index_add(0, target.to(DEVICE), x[index.to(DEVICE), 3:])
    asked = list[bool]()
    for many in (0, 42):
        monkeypatch.setattr(_sums, "MANY", many)
        monkeypatch.setattr(
            _sums,
            "launch",
            lambda kernel, *a, **o: (asked.append(kernel is _sums._short_segment_sum), _launch.launch(kernel, *a, **o)),
        )
        assert torch.allclose(_sums.segment_sum(x, segments, first=3), expected, atol=1e-6)
    assert asked == [True, False]


def test_gathering_columns() -> None:
    """The kernel writes what the plain version writes: positions, indices, bounds, and padding."""
    sizes = torch.tensor([[2, 3], [0, 1], [4, 2], [0, 0]], device=DEVICE)  # three graphs in two spaces, and no graph
    starts = torch.tensor([[0, 0], [2, 3], [2, 4], [0, 0]], device=DEVICE)
    index = torch.tensor([2, 0, 1, 1, 0, -1], dtype=torch.int32, device=DEVICE)  # from the first space into the second
    bounds = torch.tensor([0, 1, 2, 0, 2, 3], dtype=torch.int32, device=DEVICE)  # of the second in the first
    ids = torch.tensor([2, 3, 0, 1], device=DEVICE)
    value = torch.tensor([0.5, 0.0, 2.25, 0.0, 0.0, 7.0], device=DEVICE)
    results = []
    for version in (fused.gather, gather_columns):
        outs = [
            torch.full((size,), -7, dtype=dtype, device=DEVICE)
            for size, dtype in (
                (8, torch.long),
                (8, torch.int32),
                (9, torch.long),
                (8, torch.float64),
                (8, torch.float32),
                (8, torch.int16),
            )
        ]
        outs += [torch.zeros(8, dtype=torch.bool, device=DEVICE) for _ in range(2)]
        offsets = torch.zeros(5, 2, dtype=torch.long, device=DEVICE)
        columns = [
            Gathered("position", None, outs[0], 0),
            Gathered("index", index, outs[1], 0, 1, False, 99),
            Gathered("index", bounds, outs[2], 1, 0, True),
            *(Gathered("value", value.to(out.dtype), out, 0) for out in outs[3:7]),
            Gathered("real", None, outs[7], 0),
        ]
        with fast_path(False):  # gather_columns would choose the kernel itself on a GPU
            version(columns, offsets, 4)(ids, sizes, starts)
        results.append([out.tolist() for out in (*outs, offsets)])
    assert results[0] == results[1]
    assert results[0][0] == [2, 3, 4, 5, 0, 1, 0, 0]
    assert results[0][1] == [1, 1, 0, -1, 4, 2, 99, 99]
    assert results[0][3] == results[0][4] == [2.25, 0.0, 0.0, 7.0, 0.5, 0.0, 0.5, 0.5]  # padding gets the first value
    assert results[0][5] == [2, 0, 0, 7, 0, 0, 0, 0]
    assert results[0][6] == [True, False, False, True, True, False, True, True]
    assert results[0][7] == [True] * 6 + [False] * 2


@pytest.mark.parametrize(
    ("number", "channels", "relu", "training"), [(70, 80, True, True), (9, 5, False, True), (70, 160, True, False)]
)
def test_norms_over_rows_that_count(number: int, channels: int, relu: bool, training: bool) -> None:
    rng = torch.Generator().manual_seed(number)
    x, g = (torch.randn(number, channels, generator=rng).to(DEVICE) for _ in range(2))
    x += 3.0
    mask = (torch.rand(number, generator=rng) < 0.7).to(DEVICE)
    norm, plain = reign.nn.BatchNorm(channels).to(DEVICE), reign.nn.BatchNorm(channels).double().to(DEVICE)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2), norm.bias.normal_(), norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2)
    plain.load_state_dict(norm.state_dict())
    results = []
    for each, dtype in ((norm, torch.float32), (plain, torch.float64)):
        given = x.to(dtype, copy=True).requires_grad_()
        out = each.train(training).masked(given, mask, relu=relu)
        (out * g.to(dtype)).sum().backward()
        results.append([out, given.grad, each.weight.grad, each.bias.grad, *each.buffers()])
    assert (results[0][0][~mask] == 0).all()
    assert (results[0][1][~mask] == 0).all()
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours.double(), expected.double(), atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize(("sizes", "channels"), [((1, 5, 6, 3), 20), ((4, 2), 3)])
def test_products_of_matrices(sizes: tuple[int, ...], channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last graph is padding: its rows are zeros, and have no gradient."""
    monkeypatch.setattr("reign.kernels.fused._products.COLUMNS", 4)
    monkeypatch.setattr("reign.kernels.fused._products.ROWS", 2)
    bag = reign.policy("null").from_data(graphs(sizes, True, 0))
    rng = torch.Generator().manual_seed(1)
    a, b, g = (torch.randn(bag.num_pairs, channels, generator=rng).to(DEVICE) for _ in range(3))
    a.requires_grad_(), b.requires_grad_()
    real = bag.graph.batch < len(sizes) - 1
    squares = fused.Squares(bag.row_ptr, bag.graph.ptr, bag.graph.batch, real)
    out = fused.square_product(a, b, squares)
    parts = []
    for n, x, y in zip(sizes, a.double().split([n * n for n in sizes]), b.double().split([n * n for n in sizes]), strict=True):
        parts.append(torch.einsum("kjd,jid->kid", x.view(n, n, -1), y.view(n, n, -1)).flatten(0, 1))
    expected = torch.cat([*parts[:-1], torch.zeros_like(parts[-1])])
    torch.testing.assert_close(out.double(), expected, atol=1e-4, rtol=1e-4)
    ours, plain = (torch.autograd.grad((each * g).sum(), [a, b]) for each in (out, expected))
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    whole = fused.square_product(a, b, fused.Squares(bag.row_ptr, bag.graph.ptr, bag.graph.batch))
    torch.testing.assert_close(whole.double(), torch.cat(parts), atol=1e-4, rtol=1e-4)


def agree(fast: Callable[..., Any], plain: Callable[..., Any], *given: Tensor) -> None:
    """Both functions return the same tensors, with the same gradients; the first one twice, bit for bit."""
    found = []
    for function, dtype in ((fast, torch.float32), (fast, torch.float32), (plain, torch.float64)):
        inputs = [x.detach().to(dtype).requires_grad_() for x in given]
        out = list(function(*inputs))
        weights = torch.linspace(-1, 1, out[0].numel(), device=DEVICE, dtype=dtype).view_as(out[0]).sin()
        found.append([*out, *torch.autograd.grad([(part * weights).sum() for part in out], inputs)])
    for one, again, exact in zip(*found, strict=True):
        assert torch.equal(one, again)
        torch.testing.assert_close(one.double(), exact, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("channels", [3, 20])
def test_products_in_blocks(channels: int) -> None:
    """Two squares that share a node, a bond between rings, a single node, and random graphs."""
    squares = [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5), (5, 6), (6, 3), (6, 7), (7, 8), (8, 9), (9, 7)]
    rings = Data(x=torch.zeros(10, 1), edge_index=torch.tensor(squares).t(), edge_attr=torch.zeros(12, 1, dtype=torch.long))
    bag = reign.policy("null").from_data(Batch.from_data_list([rings.to(DEVICE), *graphs((1, 6, 3), False, 2).to_data_list()]))
    rng = torch.Generator().manual_seed(1)
    a, b = (torch.randn(bag.num_pairs, channels, generator=rng).to(DEVICE) for _ in range(2))
    triples, plain = kernel_triples(bag), block_triples(bag)
    assert int(triples.ptr.diff().max()) == 10
    agree(
        lambda a, b: [fused.triple_product(a, b, triples)],
        lambda a, b: [plain.into_targets(plain.from_rows(a) * plain.from_edges(b))],
        a,
        b,
    )


def test_roots_of_products() -> None:
    rng = torch.Generator().manual_seed(1)
    h, m = torch.randn(37, 5, generator=rng).to(DEVICE), torch.randn(37, 20, generator=rng).to(DEVICE)
    m[:3] *= 1e-7
    agree(lambda h, m: [fused.join_roots(h, m, 1e-6)], lambda h, m: [torch.cat([h, signed_root(m)], dim=1)], h, m)


@pytest.mark.parametrize(
    ("merged", "bonds", "channels", "options"),
    [
        ("own+folklore", False, 5, {}),
        ("own+swap_folklore", True, 35, {}),
        ("own+folklore+swap_folklore", True, 5, {}),
        ("own+needle", False, 5, {}),
        ("own+local", True, 5, {"act": "elu"}),
        ("own+swap_local", False, 5, {"act": "elu"}),
        ("needle+needle_msg", True, 5, {"act": "elu"}),
        ("own+local_others+root_msg", True, 35, {}),
        ("own+local_others+root_msg", False, 5, {"act": "elu"}),
        ("own+local", True, 5, {"root_terms": ["own+local", "own_root+root_msg"], "act": "elu"}),
        ("own+local", False, 5, {"aggregation": {"local": "mean"}, "act": "elu"}),
        ("own+local", True, 5, {"root_terms": ["own+swap_local"]}),
        ("own+local", True, 5, {"root_terms": ["own", "local", "swap_local@Ai"], "edge_terms": True}),
    ],
)
def test_layers_of_pairs(merged: str, bonds: bool, channels: int, options: dict[str, Any]) -> None:
    """A layer with fused kernels, as one stage or not, and with plain operations in float64: values and all gradients."""
    batch = graphs((4, 1, 3), True, 3)
    bag = reign.policy("null").from_data(batch)
    torch.manual_seed(0)
    layer = reign.nn.SubgraphConv(channels, channels, [merged], edge_encoder=4 if bonds else None, norm=None, **options).to(DEVICE)
    with torch.no_grad():
        layer.terms[0].encoder.eps.uniform_(-0.5, 0.5)
    rng = torch.Generator().manual_seed(2)
    h, g = (torch.randn(bag.num_pairs, channels, generator=rng).to(DEVICE) for _ in range(2))
    results = []
    for enabled, dtype in ((True, torch.float32), (False, torch.float64)):
        given = h.to(dtype, copy=True).requires_grad_()
        layer.to(dtype).zero_grad()
        with fast_path(enabled):
            out = layer(given, bag)
        (out * g.to(dtype)).sum().backward()
        results.append([out, given.grad, *(p.grad for p in layer.parameters() if p.requires_grad)])
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours.double(), expected.double(), atol=5e-4, rtol=5e-4)


def test_the_first_compilation_is_alone() -> None:
    compiler, begun = _launch._Compiler(), list[str]()

    def first() -> None:
        time.sleep(0.1)
        begun.append("first")

    compiler.start(first)
    for _ in range(5):
        compiler.start(lambda: begun.append("other"))
    compiler.wait()
    assert begun == ["first"] + 5 * ["other"]


@pytest.mark.parametrize("options", [{}, {"norm_at": "sum"}, {"act": "elu"}], ids=str)
def test_edge_features_and_values_of_every_kind(options: dict[str, Any]) -> None:
    """Types as floats, features that are broadcast, other features in the next layer, and values that are not contiguous."""
    batch = graphs((4, 1, 3), False, 1)
    bag, kinds = reign.policy("nm").from_data(batch), batch.edge_attr
    h = torch.randn(bag.num_pairs, 8, generator=torch.Generator().manual_seed(0)).to(DEVICE)[:, 2:7]
    encoders: list[tuple[Any, list[Tensor]]] = [
        (4, [kinds, kinds.float(), 3 - kinds]),
        (lambda channels: torch.nn.Identity(), [kinds.float()]),
    ]
    for encoder, given in encoders:
        torch.manual_seed(0)
        layers = [reign.nn.SubgraphConv(5, 5, ["own+local"], edge_encoder=encoder, **options).to(DEVICE) for _ in range(3)]
        results = []
        for fast in (True, False):
            with fast_path(fast), torch.no_grad():
                state = State(h, bag)
                for layer, attr in zip(layers, given, strict=False):
                    state = layer.train().update(state, attr)
                results.append(state.h)
        torch.testing.assert_close(*results, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("options", [{}, {"norm_at": "sum"}, {"act": "elu"}], ids=str)
def test_policies_that_terms_cannot_have_are_refused(options: dict[str, Any]) -> None:
    batch = graphs((4, 3), False, 1)
    for name, domain, terms, message in (
        ("ed", "all", ["own+swap_local"], "one subgraph per node"),
        ("nd", "members", ["own+local_others+root_msg"], "leaves roots without a row"),
    ):
        bag = reign.policy(name).from_data(batch, domain=domain)
        layer = reign.nn.SubgraphConv(2, 2, terms, edge_encoder=4, domain=domain, **options).to(DEVICE)
        with pytest.raises(ValueError, match=message):
            layer(torch.randn(bag.num_pairs, 2, device=DEVICE), bag)


def test_second_derivatives_are_refused() -> None:
    batch = graphs((4, 3), False, 1)
    model = reign.nn.DS(1, 4, 2, 1, policy="nm", edge_encoder=4).to(DEVICE)
    x = batch.x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(x, batch.edge_index, batch.edge_attr, batch.batch).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        slope.square().sum().backward()
