"""Every option of the peers as published: symmetry, batches, both domains, saving, gradients, and that it changes something.

Signatures are checked where the same models are compared with their formulas (``test_authors.py``).
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

import reign
from property.slopes import slopes
from reign.nn import Model
from reign.testing import assert_batch_invariant, assert_equivariant, random_graphs

DOMAINS = ("members", "all")
CLOSE = {"atol": 1e-9, "rtol": 1e-9}
# an option of a published model that is not its default
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("gnnak", {"inner_layers": 2}),
    ("gnnak", {"parts": ["context"]}),
    ("gnnak", {"combine": "sum"}),
    ("gnnak", {"aggregation": "mean"}),
    ("gnnak", {"hop_channels": 3}),
    ("gnnak", {"residual": False}),
    ("gnnak", {"norm": None}),
    ("gnnakctx", {"norm": "layer_norm"}),
    ("gnnakctx", {"parts": ["subgraph", "context"]}),
    ("gnnakplus", {"hop_channels": 4}),
    ("gnnakplus", {"aggregation": "mean"}),
    ("gnnakplus", {"parts": ["subgraph"]}),
    ("sswl", {"aggregations": ["uL", "vL"]}),
    ("sswl", {"aggregations": ["vL", "uL", "vv"]}),
    ("sswl", {"aggregations": ["uL", "vL", "uu"]}),
    ("sswl", {"aggregations": ["uL", "vL", "vu"]}),
    ("sswl", {"aggregations": ["uL", "vL", "uG"]}),
    ("sswl", {"aggregations": ["uL", "vL", "vG"]}),
    ("sswl", {"pool": "vG"}),
    ("sswl", {"max_distance": 1}),
    ("ngnn", {"label": "hop"}),
    ("ngnn", {"resistance": False}),
    ("ngnn", {"label": None, "resistance": False}),
    ("ngnn", {"virtual_node": False}),
    ("ngnn", {"residual": "identity"}),
    ("ngnn", {"readout": "sum"}),
    ("ngnn", {"graph_pooling": "sum"}),
    ("ngnntu", {"label": "hop"}),
    ("ngnntu", {"resistance": True}),
    ("ngnntu", {"label_channels": 3}),
    ("ngnntu", {"log_softmax": True}),
    ("ngnntu", {"head_dropout": 0.0}),
    ("idgnn", {"kind": "id"}),
    ("idgnn", {"kind": "gcn"}),
    ("idgnn", {"pre_layers": 0}),
    ("idgnn", {"pre_layers": 2}),
    ("idgnn", {"post_layers": 1}),
    ("idgnn", {"unit": False}),
    ("idgnn", {"graph_pooling": "mean"}),
    ("ppgn", {"depth": 1}),
    ("ppgn", {"suffix": "new"}),
    ("ppgn", {"widths": [4, 7]}),
    ("ppgn", {"head_channels": []}),
    ("ppgn", {"tensor": "degrees"}),
    ("ign2", {"aggregation": "sum"}),
    ("ign2", {"suffix": "nodes", "pooled_channels": 5}),
    ("ign2", {"linear": True}),
    ("ign2", {"log_softmax": True}),
    ("ign2", {"tensor": "degrees"}),
    ("ign2", {"widths": [4, 7]}),
]
ONLY_IN_TRAINING = ["head_dropout"]
NO_DROPOUT: dict[str, dict[str, Any]] = {"ngnntu": {"head_dropout": 0.0}}
pytestmark = pytest.mark.usefixtures("signatures_unchecked")
TENSORS = ["ppgn", "ign2"]  # they take all pairs, and have one domain


def make(name: str, options: dict[str, Any], training: bool = False) -> Model:
    """A model with vectors that are not those of the start, and norms that know the graphs."""
    torch.manual_seed(0)
    given: dict[str, Any] = ({"head_channels": [5]} if name in TENSORS else {"policy": "ego:2"}) | options
    model = reign.build_model(f"{name}published", 3, 6, 2, 2, **given).double()
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm1d)]
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() < 2:
                weight.normal_(0.2, 0.5)
        for norm in norms:
            norm.momentum = 1.0
        run(model, Batch.from_data_list(data()))
    return model.train(training)


def data() -> list[Data]:
    """Graphs in which ego nets of depth 2 do not hold all nodes."""
    return random_graphs(3, min_nodes=4, max_nodes=7, edge_prob=0.3, dtype=torch.float64, seed=7)


def run(model: Model, batch: Batch) -> Tensor:
    return model(batch.x, batch.edge_index, None, batch.batch)


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_symmetry_batches_and_saving(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    graphs = data()
    batch = Batch.from_data_list(graphs)
    for domain in DOMAINS[1:] if name in TENSORS else DOMAINS:
        model = make(name, options | {"domain": domain})
        assert_equivariant(model, batch, **CLOSE)
        assert_batch_invariant(model, graphs, **CLOSE)
    model.save_pretrained(tmp_path)
    assert torch.equal(run(type(model).from_pretrained(tmp_path), batch), run(model, batch))


@pytest.mark.parametrize(("name", "options"), [case for case in OPTIONS if case[0] not in TENSORS])
def test_members_in_compact_storage_equal_full_storage_with_a_mask(name: str, options: dict[str, Any]) -> None:
    """Outputs, gradients and running statistics in training mode."""
    batch, results = Batch.from_data_list(data()), []
    for storage in ("all", "members"):
        model = make(name, NO_DROPOUT.get(name, {}) | options | {"domain": "members"}, training=True)
        bag = model.policy(batch.x, batch.edge_index, batch=batch.batch, domain=storage)
        out = model(batch.x, batch.edge_index, bag=bag)
        (out * torch.arange(out.numel()).view_as(out)).sum().backward()
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        results.append([out.detach(), *grads, *(b.double() for b in model.buffers())])
    for full, compact in zip(*results, strict=True):
        torch.testing.assert_close(full, compact, **CLOSE)


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_gradients_are_slopes(name: str, options: dict[str, Any]) -> None:
    """The slope along a random direction of all weights is the gradient times that direction."""
    model, batch = make(name, options | {"act": "silu"}), Batch.from_data_list(data())
    bag = model.policy.from_data(batch, domain=model.domain)
    slope, numeric = slopes(model, lambda: model(batch.x, batch.edge_index, bag=bag).tanh().sum(), 1e-6)
    assert abs(slope) > 1e-6
    torch.testing.assert_close(slope, numeric, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_options_change_something(name: str, options: dict[str, Any]) -> None:
    """The output with the same weights; or weights that only one of both models has, and that have gradients."""
    batch, training = Batch.from_data_list(data()), any(key in ONLY_IN_TRAINING for key in options)
    models = [make(name, given, training) for given in (options, {})]
    shapes = [{key: value.shape for key, value in model.named_parameters()} for model in models]
    if list(shapes[0].values()) == list(shapes[1].values()):
        models[0].load_state_dict(dict(zip(shapes[0], models[1].parameters(), strict=True)), strict=False)
        one, other = (run(model, batch) for model in models)
        assert (one - other).abs().max() > 1e-6
        return
    found = 0
    for model, others in zip(models, reversed(shapes), strict=True):
        run(model, batch).square().sum().backward()
        for key, p in model.named_parameters():
            if others.get(key) != p.shape and p.requires_grad:
                assert p.grad is not None
                found += bool(p.grad.abs().max() > 1e-8)
    assert found


@pytest.mark.parametrize("name", ["gnnak", "gnnakctx", "ngnn", "ngnntu", "idgnn", "sswl"])
def test_domains_are_two_models_on_ego_nets_and_one_on_whole_graphs(name: str) -> None:
    batch = Batch.from_data_list(data())
    for policy, same in (("ego:1", False), ("null", True)):
        models = [make(name, NO_DROPOUT.get(name, {}) | {"policy": policy, "domain": domain}, training=True) for domain in DOMAINS]
        models[0].load_state_dict(models[1].state_dict())
        assert torch.allclose(*(run(model, batch) for model in models), atol=1e-9) == same


def test_nodes_out_of_an_ego_net_have_a_row_of_hops_only_where_they_count() -> None:
    rows = [make("gnnakplus", {"policy": "ego:1", "domain": domain}).layers[0].hops.num_embeddings for domain in DOMAINS]
    assert rows == [2, 3]
