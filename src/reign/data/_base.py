"""What a data set is: splits of graphs, made once and kept in a cache."""

import os
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset

from reign._validate import check
from reign.data._pack import GraphPack

Transform = Callable[[Data], Data]
Arrays = dict[str, np.ndarray]


class GraphDataset(InMemoryDataset):  # type: ignore[misc]
    """A data set in PyG's words; a new one is a subclass with one method, ``make``.

    Args:
        root: where the processed graphs are kept; a folder of the user's cache if not given.
        split: one of ``splits``.
        transform, pre_transform, pre_filter, force_reload: as in PyG.
        options: of the data set itself; each combination is kept in a folder of its own.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    task: ClassVar[str] = "regression"
    targets: ClassVar[list[str]] = ["y"]
    splits: ClassVar[tuple[str, ...]] = ("train", "val", "test")
    node_encoder: ClassVar[Any] = None
    edge_encoder: ClassVar[Any] = None
    classes: ClassVar[list[str]] = []
    sizes: ClassVar[dict[str, int]] = {}  # graphs of each split, where these are known
    reads_smiles: ClassVar[bool] = False  # whether the graphs are molecules that are given as SMILES
    version: ClassVar[int] = 1  # of what ``make`` gives: another number makes it anew

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
        """The options of this data set, and what they are if not given."""
        return {}

    @classmethod
    def variants(cls) -> list[dict[str, Any]]:
        """The options of every data set there is under this name; here only the default."""
        return [{}]

    @classmethod
    def check_options(cls, **options: Any) -> None:
        """Raise ``ValueError`` for options that mean nothing."""

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
        """One file a split."""
        return [f"{split}.pt" for split in self.splits]

    def process(self) -> None:
        """Make all splits, and keep them; nothing half made is ever kept under its name."""
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
        """All graphs of this split in a few tensors: just as they lie in memory."""
        data, slices = self._data, self.slices
        y = data.y if data.y.dim() == 2 else data.y[:, None]
        return GraphPack(
            data.x, data.edge_index, getattr(data, "edge_attr", None), y.float(), slices["x"].long(), slices["edge_index"].long()
        )


def cache_folder() -> Path:
    """Where data sets are kept: ``REIGN_CACHE``, or a folder of the user's cache."""
    given = os.environ.get("REIGN_CACHE")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "reign"


def local_file(name: str) -> Path | None:
    """A file of the folder ``REIGN_DATA``, if it is there."""
    folder = os.environ.get("REIGN_DATA")
    file = Path(folder) / name if folder else None
    return file if file is not None and file.is_file() else None


def need_file(name: str, what: str) -> Path:
    """A file of the folder ``REIGN_DATA``, or an error that says what to do."""
    file = local_file(name)
    if file is None:
        where = os.environ.get("REIGN_DATA")
        raise ValueError(
            f"{what} is read from {name} in the folder that REIGN_DATA names, "
            + (f"and {where} has no such file." if where else "which is not set; export REIGN_DATA=<folder>.")
        )
    return file


def read_arrays(file: Path) -> Arrays:
    """An .npz file of the common layout, whole."""
    try:
        with np.load(file) as arrays:
            return {key: arrays[key] for key in arrays}
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read as an .npz file ({error}).") from None


def unpack(
    sizes: np.ndarray, edge_ptr: np.ndarray, edge_uv: np.ndarray, x: Tensor | None, y: Tensor, edge_attr: Tensor | None = None
) -> list[Data]:
    """Graphs from arrays that hold each undirected edge once; ones as features if there are none."""
    node_ptr = np.concatenate([[0], np.cumsum(sizes.astype(np.int64))])
    uv = torch.from_numpy(edge_uv.astype(np.int64))
    graphs = []
    for g in range(len(sizes)):
        nodes, edges = slice(node_ptr[g], node_ptr[g + 1]), slice(int(edge_ptr[g]), int(edge_ptr[g + 1]))
        ends = uv[edges].t()
        data = Data(
            x=torch.ones(int(sizes[g]), 1) if x is None else x[nodes],
            edge_index=torch.cat([ends, ends.flip(0)], dim=1),
            y=y[g].reshape(1, -1),
        )
        if edge_attr is not None:
            data.edge_attr = edge_attr[edges].repeat(2, 1)
        graphs.append(data)
    return graphs
