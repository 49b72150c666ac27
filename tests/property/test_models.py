"""What every model of the catalogue promises, for every policy it accepts."""

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

import reign
from reign.nn import MODELS, Model, find_model
from reign.testing import assert_batch_invariant, assert_equivariant, random_graphs, random_permutation

NODE_BASED = ["null", "nd", "nm", "nm+distance", "ego:1", "ego+:2", "ego+distance:2"]
OTHERS = ["ed", "2-nd", "2-nm", "2-ego:1"]
FIXED = {"mpnn": ["whole"], "ppgn": ["null"], "ign2": ["null"]}  # models that take no policy, and the one they have
FIXED |= {"ppgnpublished": ["null"], "ign2published": ["null"], "ppgnrrwp": ["null"], "ppgnnodespublished": ["null"]}
ANY = ["ds", "dss", "reconstructiongnn", "subgraphgnn"]  # models that need no bijection
TUPLES = ["tuplesun", "tuplereign2"]  # models of terms along each root
NEEDS_ROOTS = ["idgnn", "gnnak", "gnnakctx", "gnnakplus"]  # with domain members, which they have by default
PUBLISHED = [name for name in reign.list_models() if name.endswith("published")]
FEW = ["null", "ego+:2"]  # models as published are made of parts that others have, too


def accepted(name: str) -> list[str]:
    if name in FIXED:
        return FIXED[name]
    if name in PUBLISHED:
        return FEW
    policies = [policy for policy in NODE_BASED if policy != "nd" or name not in NEEDS_ROOTS]
    if name in TUPLES:
        return ["null", "nd", "ego+:2", *OTHERS, "2-set-nm", "2-set-nd"]
    return policies + (OTHERS if name in ANY else [])


CASES = [
    (name, policy, dtype)
    for name in reign.list_models()
    for policy in accepted(name)
    for dtype in ([torch.float64] if name in PUBLISHED else [torch.float32, torch.float64])
]
CLOSE = {torch.float32: {"atol": 2e-4, "rtol": 2e-4}, torch.float64: {"atol": 1e-10, "rtol": 1e-10}}


def make(name: str, policy: str | None = None, **options: Any) -> Model:
    torch.manual_seed(0)
    if policy is not None and name not in FIXED:
        options["policy"] = policy
    model = reign.build_model(name, 3, 6, 2, 2, **options)
    with torch.no_grad():  # norms that do something in evaluation mode too
        for key, value in model.named_buffers():
            if key.endswith("running_mean"):
                value.normal_()
            elif key.endswith("running_var"):
                value.uniform_(0.5, 2)
    return model


def data(dtype: torch.dtype = torch.float64, edge_dim: int | None = None) -> list[Data]:
    return random_graphs(5, max_nodes=6, edge_prob=0.4, dtype=dtype, edge_dim=edge_dim, seed=2)


@pytest.mark.parametrize(("name", "policy", "dtype"), CASES)
def test_symmetry_and_batching(name: str, policy: str, dtype: torch.dtype, request: pytest.FixtureRequest) -> None:
    if dtype == torch.float32 or policy != accepted(name)[0]:  # signatures are checked once for each model
        request.getfixturevalue("signatures_unchecked")
    model, graphs = make(name, policy).to(dtype).eval(), data(dtype)
    batch = Batch.from_data_list(graphs)
    assert_equivariant(model, batch, **CLOSE[dtype])
    assert_batch_invariant(model, graphs, **CLOSE[dtype])
    assert model(batch.x, batch.edge_index, batch=batch.batch).shape == (5, 2)


@pytest.mark.parametrize("level", ["node", "edge"])
@pytest.mark.parametrize("name", reign.list_models())
def test_node_and_edge_level(name: str, level: str) -> None:
    model, graphs = make(name, task_level=level).double().eval(), data()
    batch = Batch.from_data_list(graphs)
    assert_equivariant(model, batch, level=level, **CLOSE[torch.float64])
    assert_batch_invariant(model, graphs, **CLOSE[torch.float64])
    rows = batch.num_nodes if level == "node" else batch.num_edges
    assert model(batch.x, batch.edge_index, batch=batch.batch).shape == (rows, 2)


MEMBERS = [
    (name, policy)
    for name in reign.list_models()
    if name not in FIXED
    for policy in (
        FEW
        if name in PUBLISHED
        else ["null", "ego+:2", "2-ego:1", "2-set-ego+:1"]
        if name in TUPLES
        else ["null", "nm+distance", "ego:1", "ego+:2", *(["nd", "2-ego:1", "2-nd"] if name in ANY else [])]
    )
]


@pytest.mark.parametrize(
    ("name", "policy", "training"),
    [(*case, training) for case in MEMBERS for training in (True, False) if training or case[0] not in PUBLISHED],
)
def test_members_in_compact_storage_equal_full_storage_with_a_mask(
    name: str, policy: str, training: bool, request: pytest.FixtureRequest
) -> None:
    if not training or policy != next(known for of, known in MEMBERS if of == name):  # as above
        request.getfixturevalue("signatures_unchecked")
    model = make(name, policy, domain="members").double().train(training)
    batch = Batch.from_data_list(data())
    results = []
    for storage in ("all", "members"):
        x = batch.x.clone().requires_grad_()
        bag = model.policy(x, batch.edge_index, batch=batch.batch, domain=storage)
        model.load_state_dict(make(name, policy, domain="members").double().state_dict())
        model.zero_grad()
        out = model(x, batch.edge_index, bag=bag)
        (out * torch.arange(out.numel()).view_as(out)).sum().backward()
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in model.parameters()]
        results.append([out.detach(), x.grad, *grads, *(b.double() for b in model.buffers())])
    for full, compact in zip(*results, strict=True):
        torch.testing.assert_close(full, compact, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", reign.list_models())
def test_runs_repeat_bit_by_bit(name: str) -> None:
    batch = Batch.from_data_list(data(torch.float32))
    results = []
    for _ in range(2):
        model = make(name)
        out = model(batch.x, batch.edge_index, batch=batch.batch)
        out.sum().backward()
        results.append([out.detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


# in the last layer no root hears from itself, and only roots are pooled
UNUSED = {("idgnn", "layers.1.terms.0.encoder.mix.1.weight")}


@pytest.mark.parametrize("name", reign.list_models())
def test_every_weight_learns(name: str) -> None:
    """No weight has a gradient of zeros. (In training mode biases in front of batch norms do: the mean is taken out again.)"""
    model = make(name).double().eval()
    batch = Batch.from_data_list(random_graphs(8, min_nodes=4, dtype=torch.float64))
    model(batch.x, batch.edge_index, batch=batch.batch).pow(2).sum().backward()
    for key, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        assert parameter.grad is not None, key
        assert (parameter.grad.abs().max() > 1e-9) == ((name, key) not in UNUSED), key


@pytest.mark.parametrize("name", ["ds", "dss"])
@pytest.mark.parametrize("policy", ["nd", "nm", "ego+:1"])
def test_ds_and_dss_know_no_more_than_independent_permutations(name: str, policy: str) -> None:
    moved, kept, perms = _independently(make(name, policy).double().eval(), policy)
    sigma, tau = perms
    torch.testing.assert_close(moved["pooled"], kept["pooled"], atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(moved["layer"][tau][:, sigma], kept["layer"], atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("policy", ["nd", "nm", "ego+:1"])
def test_sun_does_know_which_node_is_the_root(policy: str) -> None:
    moved, kept, (sigma, tau) = _independently(make("sun", policy).double().eval(), policy)
    assert (moved["pooled"] - kept["pooled"]).abs().max() > 1e-3
    assert (moved["layer"][tau][:, sigma] - kept["layer"]).abs().max() > 1e-3


def _independently(model: Model, policy: str) -> tuple[dict[str, Tensor], dict[str, Tensor], tuple[Tensor, Tensor]]:
    (graph,) = random_graphs(1, min_nodes=6, max_nodes=6, edge_prob=0.5, dtype=torch.float64, seed=1)
    bag = reign.policy(policy).from_data(graph)
    sigma, tau = random_permutation(6, seed=1), random_permutation(6, seed=2)

    def run(bag: reign.SubgraphBag) -> dict[str, Tensor]:
        h = model.layers[0](bag.x, bag)
        return {"layer": h.view(6, 6, -1), "pooled": model.predict(bag.graph.x, bag)}

    return run(bag.permute(sigma, tau)), run(bag), (sigma, tau)


@pytest.mark.parametrize("name", [name for name, kind in MODELS.items() if kind.needs_node_based and kind.takes_policy])
def test_policies_that_do_not_fit(name: str) -> None:
    model = reign.build_model(name, 3, 6, 2, 1, policy="ed")
    path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    kind = type(model).__name__
    message = (
        f"{kind} needs one subgraph per node, got 3 for 5 nodes: policy 'ed' is not node-based; use 'nm', 'ego:h' or 'ego.:h'."
    )
    with pytest.raises(ValueError, match=message):
        model(torch.randn(5, 3), path)


def test_models_of_single_terms_say_which_term_does_not_fit() -> None:
    path = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="term 'transpose' needs one subgraph per node"):
        reign.nn.ReIGN2(3, 6, 2, 1, policy="ed")(torch.randn(2, 3), path)
    with pytest.raises(ValueError, match="a subgraph of policy 'ed' has 2 anchors, expected one root"):
        reign.nn.IDGNN(3, 6, 2, 1, policy="ed")(torch.randn(2, 3), path)
    with pytest.raises(ValueError, match="policy 'nd' with domain='members' leaves roots without a row"):
        reign.nn.IDGNN(3, 6, 2, 1, policy="nd")(torch.randn(2, 3), path)


@pytest.mark.parametrize("name", reign.list_models())
def test_graphs_without_nodes_or_edges(name: str) -> None:
    model = make(name).double()
    x = torch.randn(3, 3, dtype=torch.float64)
    none = torch.empty(2, 0, dtype=torch.long)
    batch = torch.tensor([1, 1, 3])
    assert model.train()(x, none, batch=batch, batch_size=5).isfinite().all()
    out = model.eval()(x, none, batch=batch, batch_size=5)
    assert out.isfinite().all()
    torch.testing.assert_close(out[[1, 3]], model(x, none, batch=torch.tensor([0, 0, 1])))  # empty graphs change no others
    torch.testing.assert_close(out[[0, 2]], out[[4, 4]])  # and all of them are the same


def test_models_say_which_policies_they_take() -> None:
    need_nodes = ["sun", "ngnn", "gnnak", "gnnakctx", "gnnakplus", "sswl", "ign2", "ppgn", "localfolklore", "ppgnrrwp"]
    need_nodes += [name for name in PUBLISHED if name != "idgnnpublished"]
    need_none = [*ANY, *TUPLES, "mpnn", "idgnn", "reign2", "idgnnpublished"]
    for name in need_nodes + need_none:
        kind = find_model(name)
        assert kind.takes_policy == (name not in FIXED)
        assert kind.needs_node_based == (name in need_nodes)
        if name in FIXED:
            assert [str(make(name).policy)] == FIXED[name]


def test_signatures_are_those_of_pyg() -> None:
    for name in reign.list_models():
        kind = type(make(name))
        sizes = ["in_channels", "hidden_channels", "num_layers", "out_channels"]
        assert list(inspect.signature(kind.__init__).parameters)[1:5] == sizes
        assert list(inspect.signature(kind).parameters)[:4] == sizes
        call = list(inspect.signature(kind.forward).parameters)[1:]
        assert call == [
            "x",
            "edge_index",
            "edge_attr",
            "batch",
            "batch_size",
            "bag",
            "edge_label_index",
            "unknown",
        ]  # the last refuses
