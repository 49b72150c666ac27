"""Outputs of the authors' code, matched in float64; and a small record of our own that needs no real data (see README.md)."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import reign
from golden import Golden
from reign.nn import from_authors
from reign.published._paper import put_paper
from reign.published._weights import Weights
from reproduction.make_tiny_golden import FILE, SOURCES, graphs, predict

TINY = json.loads(FILE.read_text())
FILES = [
    "ds__egoplus3", "ds__nd", "dss__ego3", "dss__nd", "sun__ego3", "sun__egoplus3", "sun__nd", "sun__nm", "sun__null",
    "sun_linear_residual__egoplus3", "sun_transpose__nm",
]  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_golden_outputs(name: str, real_data: Path) -> None:
    golden = Golden(real_data, f"golden/{name}")
    model, batch = from_authors(golden.part("param/"), model=str(golden["model"]), policy=str(golden["policy"])), golden.batch()
    with torch.no_grad():
        out = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    expected = torch.from_numpy(golden["output"]).view(-1, 1)
    assert out.dtype == torch.float64
    assert (out - expected).abs().max() < 1e-10


@pytest.mark.parametrize(("record", "policy"), [(r, policy) for r, (_, names) in enumerate(SOURCES.items()) for policy in names])
def test_tiny_golden_outputs(record: int, policy: str) -> None:
    tiny = TINY[record]
    out = predict(tiny["params"], tiny["model"], policy, graphs())
    expected = torch.tensor(tiny["outputs"][policy], dtype=torch.float64)
    assert out.dtype == torch.float64
    assert (out - expected).abs().max() < 1e-10


def test_the_tiny_record_tells_policies_and_weights_apart() -> None:
    for tiny in TINY:
        outputs = torch.tensor(list(tiny["outputs"].values()), dtype=torch.float64)
        assert all((outputs[a] - outputs[b]).abs().max() > 1e-3 for a in range(3) for b in range(a))
        policy, expected = next(iter(tiny["outputs"].items()))
        for name, value in tiny["params"].items():
            if np.ndim(value) == 2:
                other = tiny["params"] | {name: (np.array(value) + 0.01).tolist()}
                moved = predict(other, tiny["model"], policy, graphs()) - torch.tensor(expected, dtype=torch.float64)
                assert moved.abs().max() > 1e-7, f"the outputs do not depend on {name}"


class _Every(dict[str, torch.Tensor]):
    """A dictionary with something under every name."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> torch.Tensor:
        return torch.zeros(1, 1)


def test_weights_go_round(tmp_path: Path) -> None:
    """The mapping on weights the project makes itself: our SUN under the authors' names, and back."""
    torch.manual_seed(0)
    ours = reign.nn.SUN(8, 8, 2, 1, policy="nm", node_encoder=5, edge_encoder=4).double().eval()
    w = Weights(_Every())
    put_paper(w, ours)
    names = w.sources
    theirs = {names[key]: value.numpy() for key, value in ours.state_dict().items() if not key.endswith("tracked")}
    again = from_authors(theirs, "sun", "nm")
    x, edge_index = torch.tensor([[0], [1], [4]]), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    bonds = torch.tensor([[1], [1], [3], [3]])
    assert torch.equal(ours(x, edge_index, bonds), again(x, edge_index, bonds))


def test_wrong_weights() -> None:
    with pytest.raises(ValueError, match="model is 'gin', expected one of 'sun'"):
        from_authors({}, "gin")
    with pytest.raises(ValueError, match="params hold no 'feature_encoder.enc.weight'"):
        from_authors({"a": np.zeros(3)})


def test_the_authors_ds_with_all_layers_joined(real_data: Path) -> None:
    """With weights of zero for its input and all layers but the last, it is the one that reads the last layer only."""
    golden = Golden(real_data, "golden/ds__egoplus3")
    params, batch = golden.part("param/"), golden.batch()
    last, layers = params["fc_list.0.weight"], 1 + max(int(name.split(".")[3]) for name in params if ".convs." in name)
    before = params["subgraph_gnn.gnn_node.convs.0.mlp.0.weight"].shape[1] + (layers - 1) * last.shape[1]
    params["fc_list.0.weight"] = np.concatenate([np.zeros((last.shape[0], before)), last], axis=1)
    model = from_authors(params, model="ds", policy=str(golden["policy"]))
    with torch.no_grad():
        out = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    assert model.jk == "cat+input"
    assert (out - torch.from_numpy(golden["output"]).view(-1, 1)).abs().max() < 1e-10
