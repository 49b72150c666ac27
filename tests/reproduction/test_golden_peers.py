"""Peers as their authors published them: outputs and statistics of the authors' code, matched in float64; and published sizes."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import reign
from golden import Golden
from reign.interop import from_authors
from reign.nn import num_parameters

PEERS = [
    "gnn_ak", "gnn_ak_ctx", "gnn_ak_plus", "gnn_ak_plus_molhiv", "sswl", "sswl_plus", "ngnn_tu", "ngnn_ogb", "idgnn_idconv", "idgnn_gcn",
    "idgnn_gin", "ppgn", "ppgn_old_suffix", "ign2", "ign2_port",
]  # fmt: skip


@pytest.mark.parametrize("name", PEERS)
def test_golden_peers(name: str, real_data: Path) -> None:
    """Outputs in evaluation and in training mode to 1e-10, and running statistics after the step to 1e-8."""
    golden = Golden(real_data, f"golden_peers/{name}_a")
    config, params, batch = json.loads(str(golden["config"])), golden.part("param/"), golden.batch()
    model = from_authors(params, name, config=config)

    def compare(mode: str) -> None:
        pooled: list[Tensor] = []
        hook = model.head.register_forward_pre_hook(lambda _, inputs: pooled.append(inputs[0]))
        with torch.no_grad():
            out = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
        hook.remove()
        assert out.dtype == torch.float64
        assert (out - torch.from_numpy(golden[f"output{mode}"])).abs().max() < 1e-10
        if name != "ppgn":  # the published one has the diagonal of every block before the rest of it, ours those of all blocks
            assert (pooled[0] - torch.from_numpy(golden[f"pooled{mode}"])).abs().max() < 1e-10

    compare("")
    if "output_train" not in golden:
        assert not any("running" in key for key in params)
        return
    model.train()
    compare("_train")
    found = model.state_dict()
    expected = from_authors(params | golden.part("after_train/"), name, config=config).state_dict()
    statistics = [key for key in found if "running" in key]
    assert len(statistics) == len(golden.part("after_train/"))
    for key in statistics:
        assert (found[key] - expected[key]).abs().max() < 1e-8, key


def whole(listed: list[str]) -> dict[str, Any]:
    """Arrays by name, out of "name.{0,1}.weight [3, 4]"; copies under a second name have no shape."""
    found: dict[str, Any] = {}
    for entry in listed:
        name, about = entry.split(" ", 1)
        shape = [] if about == "alias" else json.loads(about)
        parts = [part.strip("{}").split(",") for part in re.split(r"(\{[^}]*\}|[^{}]+)", name) if part]
        found |= {"".join(chosen): np.ones(shape) for chosen in itertools.product(*parts)}
    return found


@pytest.mark.parametrize("name", PEERS)
def test_whole_state_dicts_of_peers(name: str, real_data: Path) -> None:
    """What the forward pass of the authors does not use is left out, and tables keep the rows that can occur."""
    golden = Golden(real_data, f"golden_peers/{name}_a")
    config, params = json.loads(str(golden["config"])), golden.part("param/")
    more = whole(config.get("unused_parameters_left_out", []) + config.get("same_tensor_under_a_second_name", []))
    for key, ((rows, width), _) in config.get("tables_cut_to_rows_that_can_occur", {}).items():
        more[key] = np.concatenate([params[key], np.ones((rows - len(params[key]), width))])
    found, expected = (from_authors(given, name, config=config).state_dict() for given in (params | more, params))
    assert [key for key in found if not key.endswith("tracked")] == [key for key in expected if not key.endswith("tracked")]
    for key, value in expected.items():
        assert torch.equal(found[key][: len(value)] if value.dim() else found[key], value), key


@pytest.mark.parametrize(
    ("name", "width", "number"),
    [
        ("gnnak-published", 128, 521_095),
        ("gnnak-ctx-published", 128, 719_239),
        ("GNN-AK+ (published)", 128, 923_143),
        ("gnnak-published", 100, 320_307),
        ("gnnak-ctx-published", 100, 441_507),
        ("GNN-AK+ (published)", 100, 584_931),
    ],
)
def test_gnn_ak_has_its_published_sizes(name: str, width: int, number: int) -> None:
    """On ZINC: 6 blocks, 3 hops, 28 types of atoms and 4 of bonds."""
    assert num_parameters(reign.build_model(name, width, width, 6, 1, policy="ego:3", node_encoder=28, edge_encoder=4)) == number


@pytest.mark.parametrize(
    ("aggregations", "used", "counted"), [(["uL", "vL", "vv"], 386_899, 386_900), (["uL", "vL"], 273_997, 273_998)]
)
def test_sswl_has_its_published_size(aggregations: list[str], used: int, counted: int) -> None:
    """With 30 and 5 rows of types. The authors also count the epsilon of the pooling layer, on which no output depends."""
    model = reign.build_model("sswl-published", 96, 96, 6, 1, aggregations=aggregations, node_encoder=30, edge_encoder=5)
    assert num_parameters(model) == used == counted - 1


def test_other_peers_have_their_published_sizes() -> None:
    def size(name: str, *sizes: int, **options: Any) -> int:
        model = reign.build_model(name, *sizes, node_encoder="one-hot", **options)
        return sum(p.numel() for p in model.parameters() if p.requires_grad)

    for kind, number in (("id", 136_321), ("gcn", 136_321), ("gin", 236_161)):
        assert size("idgnn-published", 28, 128, 3, 1, kind=kind) == number
    assert size("ppgn-published", 28, 400, 3, 1, edge_encoder="one-hot", edge_dim=4) == 2_988_497
    assert num_parameters(reign.build_model("ppgn-published", 13, 400, 3, 12, edge_dim=4)) == 2_973_324  # QM9, 19 channels
    # the published new suffix has a bias for each of three blocks, of which only the sum counts
    assert size("ppgn-published", 28, 400, 3, 1, tensor="degrees", suffix="new") + 2 == 2_443_203
    # the published table of labels has 1,000 rows, of which 4 hops need 6
    molhiv = reign.build_model("ngnn-published", 300, 300, 6, 1, policy="ego:4", node_encoder="atom", edge_encoder="bond")
    assert num_parameters(molhiv) + (1000 - 6) * 300 == 4_366_507


def test_settings_that_are_not_known() -> None:
    with pytest.raises(ValueError, match="config is None, expected the settings of a 'gnn_ak'"):
        from_authors({}, "gnn_ak")
    with pytest.raises(ValueError, match="config is of type dict, expected None of a 'sun'"):
        from_authors({}, "sun", config={})
    with pytest.raises(ValueError, match="config lacks 'constructor', which a 'ngnn_tu' needs; it has 'model'"):
        from_authors({}, "ngnn_tu", config={"model": "ngnn_tu"})
    ogb: dict[str, Any] = {"constructor": {"gnn_type": "gcn"}, "subgraphs": {}}
    with pytest.raises(ValueError, match="config has gnn_type='gcn', expected 'gin'; other values are not supported"):
        from_authors({}, "ngnn_ogb", config=ogb)
    with pytest.raises(ValueError, match="params lack the array 'pool.predict.output.weight'"):
        from_authors({}, "sswl", config={"layer": ["uL"], "num_layer": 1, "dim_embed": 4, "max_dis": 5})


def test_weights_of_another_size_or_model(real_data: Path) -> None:
    file = real_data.parent / "reference" / "golden_peers" / "sswl_a.npz"
    if not file.is_file():
        pytest.skip(f"{file.name} is not beside the real data")
    golden = np.load(file)
    params, config = {key[6:]: golden[key] for key in golden.files if key.startswith("param/")}, json.loads(str(golden["config"]))
    with pytest.raises(ValueError, match=r"params have shape \(6, 12\) for our 'labels.embedding.weight', expected \(5, 12\) in"):
        from_authors(params, "sswl", config=config | {"max_dis": 4})
    with pytest.raises(ValueError, match="params hold 1 arrays that a 'sswl' does not have, the first is 'extra'"):
        from_authors(params | {"extra": np.zeros(3)}, "sswl", config=config)
    unused = {"A0.enc.uL.embed.bond_embedding_list.1.weight": np.zeros((6, 12)), "A2.eps.uG": np.zeros(1)}
    assert str(from_authors(params | unused, "sswl", policy="ego:2", config=config).policy) == "ego:2"
