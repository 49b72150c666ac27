"""Data sets by name, their facts, and one of one's own."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

from reign.cli import app
from reign.data import DATASETS, TU, GraphDataset, MolHIV, find_dataset, list_datasets, load_problem
from reign.data._files import cache_folder
from reign.data.sets._tu import SETS


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REIGN_CACHE", str(tmp_path / "cache"))


def test_names() -> None:
    assert list_datasets() == ["zinc", "molhiv", "tu", "csl", "exp", "sr", "counting", "graph-properties"]
    for name, kind in DATASETS.items():
        assert find_dataset(name) is kind
        assert kind.name == name
        assert kind.about
    assert find_dataset("MolHIV") is find_dataset("molhiv") is MolHIV
    with pytest.raises(ValueError, match="^unknown data set 'countin'; did you mean 'counting'\\? Known: zinc, molhiv, tu, "):
        find_dataset("countin")


def test_facts() -> None:
    assert [name for name, kind in DATASETS.items() if kind.reads_smiles] == ["molhiv"]
    assert all(kind.node_encoder == "atom" for kind in DATASETS._entries.values() if kind.reads_smiles)
    assert TU.variants() == [{"set": name} for name in SETS]
    assert MolHIV.variants() == [{}]
    for kind in DATASETS._entries.values():
        for variant in kind.variants():
            kind.check_options(**kind.defaults() | variant)


def test_a_data_set_of_ones_own() -> None:
    @DATASETS.register()
    class Paths(GraphDataset):
        """Paths, and how long they are."""

        name = "my-paths"
        about = "paths of 2 to 7 nodes (regression)"
        targets = ("length",)

        def make(self) -> dict[str, list[Data]]:
            def path(n: int) -> Data:
                ends = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
                edges = torch.cat([ends, ends.flip(0)], dim=1)
                return Data(x=torch.ones(n, 1), edge_index=edges, y=torch.tensor([[n - 1.0]]))

            return {"train": [path(2), path(3), path(4)], "val": [path(5)], "test": [path(6), path(7)]}

    problem = load_problem("My_Paths")
    assert problem.name == "my-paths"
    assert {split: problem.y[ids, 0].tolist() for split, ids in problem.splits.items()} == {
        "train": [1, 2, 3],
        "val": [4],
        "test": [5, 6],
    }
    assert list_datasets()[-1] == "my-paths"
    shown = CliRunner().invoke(app, ["data", "list"])
    assert shown.exit_code == 0
    assert "my-paths" in shown.output
    with pytest.raises(ValueError, match="unknown data set 'my-path'; did you mean 'my-paths'\\?"):
        load_problem("my-path")


class Two(GraphDataset):
    """Two graphs in one split."""

    name, about, splits = "two", "two graphs (regression)", ("all",)
    parts: ClassVar[dict[str, Any]] = {"edge_index": torch.tensor([[0, 1], [1, 0]]), "y": torch.ones(1, 1)}

    def make(self) -> dict[str, list[Data]]:
        return {"all": [Data(x=torch.ones(2, 1), **self.parts) for _ in range(2)]}


def test_the_first_split_is_the_default(tmp_path: Path) -> None:
    assert len(Two(tmp_path)) == 2
    with pytest.raises(ValueError, match="split is 'train', expected 'all'"):
        Two(tmp_path, "train")


@pytest.mark.parametrize(
    "part",
    [
        {"edge_index": torch.tensor([[0, 2], [2, 0]])},  # there is no third node
        {"y": torch.ones(2, 1)},  # a label for each node
        {"y": torch.tensor([1.0, 2.0])},  # two targets without a row
    ],
)
def test_a_data_set_whose_graphs_are_not_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: dict[str, Any]) -> None:
    monkeypatch.setattr(Two, "parts", Two.parts | part)
    with pytest.raises(ValueError, match="two has graphs of a wrong shape, expected x of shape"):
        Two(tmp_path)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_data_set_with_more_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyG joins those whose name holds "index" along the last dimension."""
    monkeypatch.setattr(Two, "parts", Two.parts | {"tree_index": torch.zeros(2, 3, dtype=torch.long), "pos": torch.ones(2, 3)})
    assert Two(tmp_path)[1].tree_index.shape == (2, 3)


def test_an_empty_variable_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REIGN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == Path.home() / ".cache" / "reign"
