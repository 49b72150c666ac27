"""Every option of how a model is put together: symmetry, batches, storage, saving, gradients, and that it changes something."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

import reign
from property.slopes import slopes
from reign.nn import DiagonalPooling, MeanPooling, Model, NodePooling, RootPooling
from reign.testing import assert_batch_invariant, assert_equivariant, random_graphs

CLOSE = {"atol": 1e-9, "rtol": 1e-9}
TERMS = ["own+local", "readout", "needle"]
ROOTS = ["own+local", "readout"]
# options of a model, the model without them, and whether the difference shows with the same weights (if not, in the weights)
OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "labels hop": ({"labels": {"kind": "hop", "max_distance": 2}}, {}, False),
    "labels near": ({"labels": {"kind": "hop", "max_distance": 1, "far": False}}, {}, False),
    "labels spd": ({"labels": {"kind": "spd"}}, {"labels": {"kind": "hop"}}, True),
    "labels in front": ({"labels": {"kind": "hop", "channels": 4}}, {}, False),
    "labels resistance": ({"labels": {"kind": None, "resistance": True}}, {}, False),
    "virtual node": ({"virtual_node": True}, {}, False),
    "virtual node, residual": ({"virtual_node": True, "residual": True}, {"residual": True}, False),
    "residual identity": ({"residual": "identity", "widths": [5, 5]}, {"widths": [5, 5]}, True),
    "residual of other widths": ({"residual": "identity"}, {}, False),
    "widths": ({"widths": [4, 7]}, {}, False),
    "head deep": ({"head": {"hidden": [5, 4]}}, {}, False),
    "head linear": ({"head": {"hidden": []}}, {}, False),
    "head norm": ({"head": {"norm": "batch_norm", "bias": False}}, {}, False),
    "head log-softmax": ({"head": {"log_softmax": True}}, {}, True),
    "roots added": ({"root_terms": ROOTS, "roots": "added"}, {"root_terms": ROOTS}, True),
    "norm at the sum": ({"norm_at": "sum"}, {}, False),
    "norm at the end": ({"norm_at": "end"}, {"norm_at": "sum"}, False),
    "no bias": ({"bias": False}, {}, False),
    "first bias": ({"bias": "first", "transform": "linear"}, {"transform": "linear"}, False),
    "no activation at the end": ({"end_act": False}, {}, True),
    "merged points": ({"terms": ["own+local", "own+node_root", "own+transpose"]}, {"terms": ["own+local", "own+root", "own+transpose"]}, True),
    "merged sums": ({"terms": ["own+readout", "own+needle"]}, {"terms": ["own+needle", "own+readout"]}, True),
    "roots' messages": ({"terms": ["own+local", "own_root+root_msg"], "conv": "gcn"}, {"terms": ["own+local", "own+local"], "conv": "gcn"}, True),
    "on pairs": ({"on_pairs": True}, {}, True),
    "pooling by sums": ({"pooling": partial(MeanPooling, nodes="sum", subgraphs="sum")}, {"pooling": partial(MeanPooling, nodes="sum")}, True),
    "pooling the sum of roots": ({"pooling": partial(RootPooling, roots="sum")}, {"pooling": RootPooling}, True),
    "pooling roots of unit length": ({"pooling": partial(RootPooling, unit=True)}, {"pooling": RootPooling}, True),
    "pooling the largest": ({"pooling": DiagonalPooling}, {"pooling": partial(DiagonalPooling, over="mean")}, True),
    "pooling the diagonal and the rest": ({"pooling": partial(DiagonalPooling, over="mean")}, {}, False),
    "pooling a layer to nodes": ({"pooling": partial(NodePooling, terms=["own", "readout"])}, {}, False),
}  # fmt: skip
ONLY_IN_TRAINING = ["on pairs"]  # norms see terms as often as there are pairs


def make(options: dict[str, Any], domain: str = "all") -> Model:
    torch.manual_seed(0)
    given = {"policy": "ego+:2", "terms": TERMS, "domain": domain, **options}
    model = reign.nn.SubgraphGNN(3, 6, 2, 2, **given).double()
    with torch.no_grad():
        for key, value in [*model.named_buffers(), *model.named_parameters()]:
            if key.endswith("running_var"):
                value.uniform_(0.5, 2)
            elif value.is_floating_point() and value.dim() < 2:
                value.normal_(0, 0.5)
    return model


def data() -> list[Data]:
    return random_graphs(4, min_nodes=3, max_nodes=6, edge_prob=0.5, dtype=torch.float64, seed=2)


def run(model: Model, batch: Batch, storage: str) -> list[Tensor]:
    """Output, gradients and statistics."""
    bag = model.policy(batch.x, batch.edge_index, batch=batch.batch, domain=storage)
    model.zero_grad()
    out = model(batch.x, batch.edge_index, bag=bag)
    (out * torch.arange(out.numel()).view_as(out)).sum().backward()
    grads = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]
    return [out.detach(), *grads, *(b.detach().double().clone() for b in model.buffers())]


@pytest.mark.parametrize("name", OPTIONS)
def test_symmetry_batches_and_saving(name: str, tmp_path: Path) -> None:
    model, graphs = make(OPTIONS[name][0]).eval(), data()
    batch = Batch.from_data_list(graphs)
    assert_equivariant(model, batch, **CLOSE)
    assert_batch_invariant(model, graphs, **CLOSE)
    if "pooling" in OPTIONS[name][0]:  # which is a function, and has no place in a file
        with pytest.raises(ValueError, match="cannot be written as JSON .*; save model.state_dict"):
            model.save_pretrained(tmp_path)
        again = make(OPTIONS[name][0]).eval()
        torch.nn.init.zeros_(again.head.lin1.weight)
        again.load_state_dict(model.state_dict())
    else:
        model.save_pretrained(tmp_path)
        again = reign.nn.SubgraphGNN.from_pretrained(tmp_path)
    assert torch.equal(again(batch.x, batch.edge_index, None, batch.batch), model(batch.x, batch.edge_index, None, batch.batch))
    assert model.describe().count("x[k,i] <- ") in (1, 2)


@pytest.mark.parametrize("name", OPTIONS)
def test_members_in_compact_storage_equal_full_storage_with_a_mask(name: str) -> None:
    options, batch = OPTIONS[name][0], Batch.from_data_list(data())
    full, compact = (run(make(options, "members").train(), batch, storage) for storage in ("all", "members"))
    for one, other in zip(full, compact, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("name", OPTIONS)
def test_gradients_are_slopes(name: str) -> None:
    """The slope along a random direction of all weights is the gradient times that direction, and every weight has a gradient."""
    model, batch = make(OPTIONS[name][0] | {"act": "silu"}).train(), Batch.from_data_list(data())
    bag = model.policy.from_data(batch)
    slope, numeric = slopes(model, lambda: model(batch.x, batch.edge_index, bag=bag).square().sum(), 1e-5)
    torch.testing.assert_close(slope, numeric, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", OPTIONS)
def test_options_change_something(name: str) -> None:
    options, without, same_weights = OPTIONS[name]
    batch = Batch.from_data_list(data())
    models = [make(given).train(name in ONLY_IN_TRAINING) for given in (options, without)]
    shapes = [{key: value.shape for key, value in model.state_dict().items()} for model in models]
    if same_weights:
        assert list(shapes[0].values()) == list(shapes[1].values())
        models[0].load_state_dict(dict(zip(shapes[0], models[1].state_dict().values(), strict=True)))
        one, other = (model(batch.x, batch.edge_index, None, batch.batch) for model in models)
        assert (one - other).abs().max() > 1e-6
        return
    found = 0
    for model, others in zip(models, reversed(shapes), strict=True):  # weights that only one of them has, and their effect
        model(batch.x, batch.edge_index, None, batch.batch).square().sum().backward()
        for key, p in model.named_parameters():
            if others.get(key) != p.shape:
                assert p.grad is not None
                found += bool(p.grad.abs().max() > 1e-8)
    assert found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": {"kind": None}}, "labels.kind is None, expected 'hop', 'spd', or None with resistance=True"),
        ({"labels": {"max_distanc": 3}}, "labels has no option 'max_distanc'; did you mean 'max_distance'"),
        ({"labels": {"max_distance": 0}}, "labels.max_distance is 0, expected a whole number of at least 1"),
        ({"head": {"width": [3]}}, "head has no option 'width'"),
        ({"head": {"hidden": [0]}}, r"head.hidden is \[0\], expected a list of whole numbers of at least 1"),
        ({"widths": [3]}, r"widths is \[3\], expected one whole number of at least 1 for each of 2 layers"),
        ({"widths": [3, 4], "residual": True}, r"widths is \[3, 4\], expected equal widths with residual=True"),
        ({"roots": "added"}, "roots is 'added', expected 'apart', or 'added' with root_terms"),
        ({"terms": ["own+node_root"], "conv": "gcn"}, r"\['own\+node_root'\] pass no messages, but conv='gcn' needs messages"),
        ({"terms": ["own+local"], "conv": "SAGEConv", "bias": False}, "conv 'SAGEConv' has its own biases"),
        ({"terms": ["own+node_root"], "edge_dim": 2}, "edge features .* are used only by base encoders"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(options)
