"""Peers as published against plain dense formulas, on directed graphs with types of nodes and edges."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

import reign
from property import published_reference as plain
from property.published_reference import Net, dense

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
            ONE_HOT | {"tensor": kind, "head_channels": [7, 4]} | (BONDS_TOO if kind == "distances" else {}),
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
