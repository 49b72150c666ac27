"""Peers as published against plain dense formulas, on directed graphs with types of nodes and edges; and each of their options."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

import reign
from property import published_reference as plain
from property.published_reference import Net, dense
from reign.testing import assert_batch_invariant, assert_equivariant, random_graphs

TYPES, BONDS, LAYERS = 5, 3, 2
ALL = ["centroid", "subgraph", "context"]
SWL = ["uL", "vL", "vv", "uu", "vu", "uG", "vG"]
Formula = Callable[[Net, Data], Tensor]
ENCODED: dict[str, Any] = {"node_encoder": TYPES, "edge_encoder": BONDS}
ONE_HOT: dict[str, Any] = {"node_encoder": "one-hot"}
BONDS_TOO: dict[str, Any] = {"edge_encoder": "one-hot", "edge_dim": BONDS}
# name, options, number of channels of the input, plain formula
CASES: dict[str, tuple[str, dict[str, Any], int, Formula]] = {
    "gnn-ak": (
        "gnnak-published",
        ENCODED | {"inner_layers": 2, "policy": "ego:2"},
        6,
        lambda net, d: plain.gnn_ak(net, dense(d, 2), LAYERS, ALL[:2], False),
    ),
    "gnn-ak+": (
        "gnnakplus-published",
        ENCODED | {"inner_layers": 2, "policy": "ego:2", "hop_channels": 3},
        6,
        lambda net, d: plain.gnn_ak(net, dense(d, 2), LAYERS, ALL, True),
    ),
    "sswl+": ("sswl-published", ENCODED, 6, lambda net, d: plain.sswl(net, dense(d, None), LAYERS, SWL[:3])),
    "swl": ("sswl-published", ENCODED | {"aggregations": SWL}, 6, lambda net, d: plain.sswl(net, dense(d, None), LAYERS, SWL)),
    "ngnn": ("ngnn-published", ENCODED | {"policy": "ego:2"}, 6, lambda net, d: plain.ngnn(net, dense(d, 2), LAYERS)),
    "ngnn-tu": (
        "ngnntu-published",
        ONE_HOT | {"policy": "ego:2", "log_softmax": True},
        TYPES,
        lambda net, d: plain.ngnn_tu(net, dense(d, 2), LAYERS, TYPES),
    ),
    **{
        f"id-gnn {kind}": (
            "idgnn-published",
            ONE_HOT | {"kind": kind},
            TYPES,
            lambda net, d, kind=kind: plain.idgnn(net, dense(d, 2), LAYERS, kind, TYPES),
        )
        for kind in ("id", "gcn", "gin")
    },
    **{
        f"{name} {kind}": (
            f"{name}-published",
            ONE_HOT | {"tensor": kind, "head_channels": [7, 4]} | (BONDS_TOO if kind == "distances" else {"edge_encoder": None}),
            TYPES,
            lambda net, d, kind=kind, formula=formula: formula(net, plain.tensor(dense(d, None), kind, TYPES, BONDS), LAYERS),
        )
        for name, formula in (("ppgn", plain.ppgn), ("ign2", plain.ign2))
        for kind in ("degrees", "distances")
    },
}


def graphs() -> list[Data]:
    """Directed graphs without loops and parallel edges; the last two are not connected, and a single node."""
    rng = torch.Generator().manual_seed(1)
    found = []
    for n, share in ((6, 0.35), (5, 0.4), (7, 0.12), (1, 0.0)):
        edges = (torch.rand(n, n, generator=rng) < share).fill_diagonal_(False).nonzero().t()
        types, kinds = torch.randint(0, TYPES, (n, 1), generator=rng), torch.randint(0, BONDS, (edges.size(1), 1), generator=rng)
        found.append(Data(x=types, edge_index=edges, edge_attr=kinds))
    return found


@pytest.mark.parametrize("case", CASES)
def test_published_models_are_their_formulas(case: str) -> None:
    name, options, channels, formula = CASES[case]
    torch.manual_seed(0)
    model = reign.build_model(name, channels, 6, LAYERS, 2, **options).double().eval()
    with torch.no_grad():
        for key, value in [*model.named_buffers(), *model.named_parameters()]:
            if key.endswith("running_var"):
                value.uniform_(0.5, 2)
            elif value.is_floating_point() and value.dim() < 2:
                value.normal_(0.2, 0.5)
            elif value.is_floating_point():
                value.mul_(2)
    made = graphs()
    batch = Batch.from_data_list(made)
    with torch.no_grad():
        out = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
        expected = torch.stack([formula(Net(model), data) for data in made])
    torch.testing.assert_close(out, expected, atol=1e-10, rtol=1e-10)
    assert (out.amax(0) - out.amin(0)).max() > 1e-2


# an option of a published model that is not its default
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("gnnak", {"inner_layers": 2}),
    ("gnnak", {"parts": ["context"]}),
    ("gnnak", {"combine": "sum"}),
    ("gnnak", {"aggregation": "mean"}),
    ("gnnak", {"hop_channels": 3}),
    ("gnnak", {"residual": False}),
    ("gnnakplus", {"hop_channels": 4}),
    ("sswl", {"aggregations": ["uL", "vL"]}),
    ("sswl", {"aggregations": ["vL", "uL", "vv"]}),
    ("sswl", {"pool": "vG"}),
    ("sswl", {"max_distance": 1}),
    ("ngnn", {"label": "hop"}),
    ("ngnn", {"label": None, "resistance": False}),
    ("ngnn", {"virtual_node": False}),
    ("ngnn", {"residual": "identity"}),
    ("ngnn", {"readout": "sum"}),
    ("ngnn", {"graph_pooling": "sum"}),
    ("ngnntu", {"resistance": True}),
    ("ngnntu", {"label_channels": 3}),
    ("ngnntu", {"log_softmax": True}),
    ("idgnn", {"kind": "id"}),
    ("idgnn", {"kind": "gcn"}),
    ("idgnn", {"pre_layers": 0}),
    ("idgnn", {"post_layers": 1}),
    ("idgnn", {"unit": False}),
    ("idgnn", {"graph_pooling": "mean"}),
    ("ppgn", {"depth": 1}),
    ("ppgn", {"suffix": "new"}),
    ("ppgn", {"widths": [4, 7]}),
    ("ppgn", {"tensor": "degrees"}),
    ("ign2", {"aggregation": "sum"}),
    ("ign2", {"suffix": "nodes", "pooled_channels": 5}),
    ("ign2", {"linear": True}),
    ("ign2", {"widths": [4, 7]}),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_options_of_published_models(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    """Symmetry, batches, saving and gradients; and another output, with the same weights where these are of the same shapes."""
    made = random_graphs(4, min_nodes=3, max_nodes=6, edge_prob=0.5, dtype=torch.float64, seed=2)
    batch = Batch.from_data_list(made)
    small: dict[str, Any] = {"head_channels": [5]} if name in ("ppgn", "ign2") else {}
    torch.manual_seed(0)
    plain_model, model = (reign.build_model(f"{name}published", 3, 6, 2, 2, **small, **given).double() for given in ({}, options))
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model(
        batch.x, batch.edge_index, None, batch.batch
    ).square().sum().backward()  # norms learn of the graphs, and weights have gradients
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)
    model.eval()
    assert_equivariant(model, batch, atol=1e-9, rtol=1e-9)
    assert_batch_invariant(model, made, atol=1e-9, rtol=1e-9)
    model.save_pretrained(tmp_path)
    out = model(batch.x, batch.edge_index, None, batch.batch)
    assert torch.equal(type(model).from_pretrained(tmp_path)(batch.x, batch.edge_index, None, batch.batch), out)
    weights = list(model.state_dict().values())
    if [w.shape for w in weights] == [w.shape for w in plain_model.state_dict().values()]:
        plain_model.load_state_dict(dict(zip(plain_model.state_dict(), weights, strict=True)))
        assert (plain_model.eval()(batch.x, batch.edge_index, None, batch.batch) - out).abs().max() > 1e-6
