"""What a data set is: splits of graphs, made once and kept in a cache."""

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch_geometric.data import Data, InMemoryDataset

from reign._validate import check
from reign.data._files import cache_folder
from reign.data._pack import GraphPack
from reign.registry import Registry

Transform = Callable[[Data], Data]

DATASETS: Registry[type["GraphDataset"]] = Registry("data set")


class GraphDataset(InMemoryDataset):  # type: ignore[misc]
    """A data set in PyG's words; a new one is a subclass with one method, ``make``, and a name by ``@DATASETS.register()``.

    Args:
        root: the folder in which the processed graphs are kept; a folder of the user's cache if not given.
        split: one of ``splits``.
        transform, pre_transform, pre_filter, force_reload: as in PyG.
        options: options of the data set itself; each combination of them is kept in a folder of its own.
    """

    name: ClassVar[str]
    about: ClassVar[str]  # what it is, in one line
    task: ClassVar[str] = "regression"
    targets: ClassVar[Sequence[str]] = ("y",)
    splits: ClassVar[tuple[str, ...]] = ("train", "val", "test")
    node_encoder: ClassVar[Any] = None
    edge_encoder: ClassVar[Any] = None
    reads_smiles: ClassVar[bool] = False  # its graphs are those that ``reign.data.molecules.from_smiles`` makes
    classes: Sequence[str] = ()
    sizes: ClassVar[Mapping[str, int]] = {}  # graphs of each split, where these are known
    version: ClassVar[int] = 1  # version of what ``make`` gives: another number makes it anew

    def __init__(
        self,
        root: str | Path | None = None,
        split: str = "train",
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
        pre_filter: Callable[[Data], bool] | None = None,
        force_reload: bool = False,
        **options: Any,
    ) -> None:
        check("split", split, split in self.splits, " or ".join(map(repr, self.splits)))
        self.options = {**self.defaults(), **options}
        if unknown := [name for name in options if name not in self.defaults()]:
            raise ValueError(f"{self.name} has no option {unknown[0]!r}; it has {', '.join(self.defaults()) or 'none'}.")
        self.check_options(**self.options)
        folder = Path(root) if root is not None else cache_folder() / self.name
        label = "-".join([f"v{self.version}", *(f"{key}={value}" for key, value in self.options.items())])
        super().__init__(str(folder / label), transform, pre_transform, pre_filter, force_reload=force_reload)
        self.load(str(Path(self.processed_dir) / f"{split}.pt"))

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The options of this data set, with their default values."""
        return {}

    @classmethod
    def variants(cls) -> list[dict[str, Any]]:
        """The options of every data set there is under this name; here only the default."""
        return [{}]

    @classmethod
    def check_options(cls, **options: Any) -> None:
        """Raise ``ValueError`` for options that have no meaning."""

    @abstractmethod
    def make(self) -> dict[str, list[Data]]:
        """The graphs of every split, each with ``y`` of shape (1, targets)."""

    def check(self, made: dict[str, list[Data]]) -> None:
        """Raise ``ValueError`` unless these are the graphs of the paper, as far as statistics can tell."""
        found = {split: len(graphs) for split, graphs in made.items()}
        if self.sizes and found != self.sizes:
            raise ValueError(f"{self.name} has {found} graphs here, expected {self.sizes}; is the source complete?")

    @property
    def processed_file_names(self) -> list[str]:
        """One file per split."""
        return [f"{split}.pt" for split in self.splits]

    def process(self) -> None:
        """Make all splits and store them; a file that is only half written never has its final name."""
        made = self.make()
        self.check(made)
        for split, graphs in made.items():
            if self.pre_filter is not None:
                graphs = [data for data in graphs if self.pre_filter(data)]
            if self.pre_transform is not None:
                graphs = [self.pre_transform(data) for data in graphs]
            file = Path(self.processed_dir) / f"{split}.pt"
            beside = file.with_name(f".{file.name}.{os.getpid()}")
            self.save(graphs, str(beside))
            beside.replace(file)

    def pack(self) -> GraphPack:
        """All graphs of this split in a few tensors, just as they lie in memory."""
        data, slices = self._data, self.slices
        if slices is None:  # PyG has none for a single graph
            slices = {"x": torch.tensor([0, data.num_nodes]), "edge_index": torch.tensor([0, data.num_edges])}
        y = data.y if data.y.dim() == 2 else data.y[:, None]
        return GraphPack(
            data.x, data.edge_index, getattr(data, "edge_attr", None), y.float(), slices["x"].long(), slices["edge_index"].long()
        )
