"""Models by name, and models of one's own among them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg

import reign
from model_inputs import batch, run
from reign.nn import CONVS, DS, MODELS, SUN, BaseEncoder, Model, find_model


def test_names_of_models() -> None:
    for name in ("GNN-AK", "gnn_ak_ctx", "GNN-AK+", "ReIGN(2)", "SUN", "GNN-AK+ (published)", "sswl-published"):
        assert reign.build_model(name, 3, 6, 2).in_channels == 3


def test_the_general_model_comes_first_and_the_baselines_last() -> None:
    names = reign.list_models()
    assert (names[0], names[1], names[-1], len(names)) == ("subgraphgnn", "sun", "mpnn", 29)
    assert [find_model(name).__name__.lower() for name in names] == names


def test_models_of_ones_own(tmp_path: Path) -> None:
    @MODELS.register("wide", "very wide")
    class Wide(SUN):
        def __init__(self, width: int, *, depth: int = 2, **options: Any) -> None:
            super().__init__(3, width, depth, 2, **options)

    assert "wide" in reign.list_models()
    data, model = batch(), reign.build_model("Very-Wide", 6, depth=1, policy="nm").eval()
    assert type(model) is Wide
    model.save_pretrained(tmp_path)
    for kind in (Wide, SUN, Model):
        again = kind.from_pretrained(tmp_path)
        assert type(again) is Wide
        assert torch.equal(run(again, data), run(model, data))
    with pytest.raises(ValueError, match="holds a Wide, expected a DS"):
        DS.from_pretrained(tmp_path)


def test_a_class_registered_under_another_name_is_saved_under_it(tmp_path: Path) -> None:
    @MODELS.register("my own")
    class Wide(SUN):
        pass

    Wide(3, 6, 2).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model"] == "my own"
    assert type(Model.from_pretrained(tmp_path)) is Wide


def test_a_class_that_is_not_registered_loads_itself_alone(tmp_path: Path) -> None:
    class Wide(SUN):
        pass

    Wide(3, 6, 2).save_pretrained(tmp_path)
    assert type(Wide.from_pretrained(tmp_path)) is Wide
    with pytest.raises(ValueError, match="holds a Wide, which is not registered; import the module that registers it"):
        SUN.from_pretrained(tmp_path)


def test_names_that_are_taken() -> None:
    with pytest.raises(ValueError, match="model 'SUN' is already registered"):
        MODELS.register("SUN")(type("Other", (DS,), {}))


def test_base_encoders_of_ones_own() -> None:
    @CONVS.register("mine")
    class Mine(BaseEncoder):
        def __init__(self, in_channels: int, out_channels: int, merged: str, **_: object) -> None:
            super().__init__(in_channels, merged)
            self.lin = nn.Linear(in_channels, out_channels)

        def forward(self, n: Any) -> torch.Tensor:
            return self.lin(n.own + self.gather(n.sums))

    model = DS(3, 6, 2, 2, conv="mine").double()
    assert isinstance(model.layers[0].terms[0].encoder, Mine)
    theirs = DS(3, 6, 2, 2, conv=lambda a, b: pyg.GINConv(nn.Linear(a, b))).double()
    with torch.no_grad():
        for ours, other in zip(model.parameters(), theirs.parameters(), strict=True):
            other.copy_(ours)
    data = batch()
    data.x = data.x.double()
    torch.testing.assert_close(run(model, data), run(theirs, data))
