"""Data sets by name, their facts, and one of one's own."""

import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

from reign.cli import app
from reign.data import CSL, DATASETS, TU, ZINC, GraphDataset, MolHIV, find_dataset, list_datasets, load_problem
from reign.data._files import cache_folder
from reign.data.sets._tu import SETS
from reign.disk import read_tensors, write_tensors

NAMES = ["zinc", "molhiv", "tu", "moleculeace", "csl", "exp", "sr", "counting", "graph-properties"]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REIGN_CACHE", str(tmp_path / "cache"))


def test_names() -> None:
    assert list_datasets() == NAMES
    for name, kind in DATASETS.items():
        assert find_dataset(name) is kind
        assert kind.name == name
        assert kind.about
    assert find_dataset("MolHIV") is find_dataset("molhiv") is MolHIV
    with pytest.raises(ValueError, match="^unknown data set 'countin'; did you mean 'counting'\\? Known: zinc, molhiv, tu, "):
        find_dataset("countin")


def test_facts() -> None:
    assert [name for name, kind in DATASETS.items() if kind.reads_smiles] == ["molhiv", "moleculeace"]
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


# -- the cache ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every data set has two small graphs in each split, whose labels are its own. The list names the sets that were made."""
    names: list[str] = []

    def make(self: GraphDataset) -> dict[str, list[Data]]:
        names.append(self.name)
        part = {"x": torch.ones(1, 1), "edge_index": torch.empty(2, 0, dtype=torch.long)}
        return {split: [Data(**part, y=torch.full((1, 1), label(self, split)))] * 2 for split in self.splits}

    for name in NAMES:
        monkeypatch.setattr(find_dataset(name), "make", make)
        monkeypatch.setattr(find_dataset(name), "check", lambda self, made: None)
        monkeypatch.setattr(find_dataset(name), "sizes", {})
    return names


def label(dataset: GraphDataset, split: str) -> float:
    """A number for each data set, combination of options, and split."""
    kind = type(dataset)
    variants = [kind.complete(variant) for variant in kind.variants()]
    place = variants.index(dataset.options) if dataset.options in variants else len(variants)
    return 100.0 * NAMES.index(dataset.name) + 10 * place + kind.splits.index(split)


def assert_own(dataset: GraphDataset, split: str) -> None:
    """Fail if these are not the graphs of this data set."""
    assert dataset.y.tolist() == [[label(dataset, split)]] * 2, f"{dataset.name} {dataset.options} {split}"


@pytest.mark.parametrize("first", NAMES)
def test_data_sets_share_a_folder(tmp_path: Path, made: list[str], first: str) -> None:
    """Every ordered pair of them, and all variants of a set after each other."""
    for second in NAMES:
        made.clear()
        for name in (first, second, first):
            kind = find_dataset(name)
            for variant in kind.variants():
                for split in kind.splits:
                    assert_own(kind(tmp_path / second, split, **variant), split)
        times = {name: len(find_dataset(name).variants()) for name in (first, second)}
        assert made == [name for name in dict.fromkeys((first, second)) for _ in range(times[name])]


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ((CSL, "train", {}), (ZINC, "train", {})),
        ((CSL, "train", {}), (CSL, "val", {})),
        ((TU, "all", {"set": "PTC"}), (TU, "all", {"set": "NCI1"})),
    ],
)
def test_a_cache_of_other_graphs_is_made_anew(tmp_path: Path, made: list[str], own: Any, other: Any) -> None:
    """Also if their file was copied to the place of these graphs."""
    (kind, split, options), (other_kind, other_split, other_options) = own, other
    theirs = Path(other_kind(tmp_path, other_split, **other_options).processed_dir) / f"{other_split}.safetensors"
    place = Path(kind(tmp_path, split, **options).processed_dir) / f"{split}.safetensors"
    shutil.copy(theirs, place)
    made.clear()
    assert_own(kind(tmp_path, split, **options), split)
    assert made == [kind.name]


@pytest.mark.parametrize("lost", ["name", "version", "options", "split"])
def test_an_older_cache_is_made_anew(tmp_path: Path, made: list[str], lost: str) -> None:
    """The header of a file says what is in it. Older files have no name, and may hold the graphs of another data set."""
    file = Path(CSL(tmp_path).processed_dir) / "train.safetensors"
    tensors, about = read_tensors(file)
    del about[lost]
    write_tensors(file, tensors | {"data.y": tensors["data.y"] + 1}, about)
    assert_own(CSL(tmp_path), "train")
    assert made == ["csl", "csl"]


def test_the_size_of_a_cache_is_checked(tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a filter may leave graphs out."""
    CSL(tmp_path)
    monkeypatch.setattr(CSL, "sizes", {"train": 2, "val": 2, "test": 2})
    assert len(CSL(tmp_path)) == 2
    assert made == ["csl"]
    monkeypatch.setattr(CSL, "sizes", {"train": 90, "val": 30, "test": 30})
    CSL(tmp_path)
    assert made == ["csl", "csl"]
    made.clear()
    for _ in range(2):
        assert len(CSL(tmp_path, pre_filter=bool)) == 2
    assert made == ["csl"]
