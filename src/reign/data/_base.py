"""What a data set is: splits of graphs, made once and kept in a cache of safetensors, which can run no code."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset

from reign._validate import check, did_you_mean
from reign.data._files import cache_folder
from reign.data._pack import GraphPack
from reign.disk import read_tensors, write_tensors
from reign.registry import Registry

Transform = Callable[[Data], Data]

DATASETS: Registry[type["GraphDataset"]] = Registry("data set")

USUAL = ("x", "edge_index", "edge_attr", "y")  # the order in which people write them


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
    wl_census: ClassVar[bool] = False  # is it of interest how many of its graphs 1-WL tells apart?
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
        self.options = self.complete(options)
        folder = Path(root) if root is not None else cache_folder() / self.name
        label = "-".join([f"v{self.version}", *(f"{key}={value}" for key, value in self.options.items())])
        super().__init__(str(folder / label), transform, pre_transform, pre_filter)
        self._load(split, force_reload)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The options of this data set, with their default values."""
        return {}

    @classmethod
    def complete(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """All options: those that were given, and the default values of the others; ``ValueError`` if one is unknown or has no meaning."""
        known = cls.defaults()
        for name, value in given.items():
            if name not in known:
                raise ValueError(
                    f"{cls.name} has no option '{name}'{did_you_mean(name, list(known))} It has {', '.join(known) or 'none'}."
                )
            kinds = (int, float) if isinstance(known[name], float) else (type(known[name]),)
            good = isinstance(value, kinds) and isinstance(value, bool) == isinstance(known[name], bool)
            check(name, value, good, f"a value such as {known[name]!r}")
            check(name, value, not set(str(value)) & set("/\\\0"), "a value without slashes, since it names a folder")
        chosen = {**known, **given}
        cls.check_options(**chosen)
        return chosen

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

    def _load(self, split: str, anew: bool) -> None:
        """Read a split from the cache; all of them are made first if one is missing, damaged, or was transformed in another way."""
        about = {"pre_transform": repr(self.pre_transform), "pre_filter": repr(self.pre_filter)}
        files = {name: Path(self.processed_dir) / f"{name}.safetensors" for name in self.splits}
        if anew or not all(file.is_file() for file in files.values()) or (found := _read(files[split], about)) is None:
            self._make(files, about)
            found = _read(files[split], about)
        assert found is not None
        self._data, self.slices = found

    def _make(self, files: Mapping[str, Path], about: Mapping[str, str]) -> None:
        """Make all splits and store them."""
        made = self.make()
        self.check(made)
        for split, graphs in made.items():
            if self.pre_filter is not None:
                graphs = [data for data in graphs if self.pre_filter(data)]
            if self.pre_transform is not None:
                graphs = [self.pre_transform(data) for data in graphs]
            data, slices = self.collate(graphs)
            tensors = data.to_dict()
            if other := [name for name, value in tensors.items() if not isinstance(value, Tensor)]:
                raise ValueError(f"{self.name} has graphs with '{other[0]}', which is no tensor; a data set keeps tensors only.")
            parts = {
                **{f"data.{name}": t for name, t in tensors.items()},
                **{f"slices.{name}": t for name, t in (slices or {}).items()},
            }
            write_tensors(files[split], parts, about)

    def pack(self) -> GraphPack:
        """All graphs of this split in a few tensors, just as they lie in memory."""
        data, slices = self._data, self.slices
        if slices is None:  # PyG has none for a single graph
            slices = {"x": torch.tensor([0, data.num_nodes]), "edge_index": torch.tensor([0, data.num_edges])}
        y = data.y if data.y.dim() == 2 else data.y[:, None]
        return GraphPack(
            data.x, data.edge_index, getattr(data, "edge_attr", None), y.float(), slices["x"].long(), slices["edge_index"].long()
        )


def _read(file: Path, about: Mapping[str, str]) -> tuple[Data, dict[str, Tensor] | None] | None:
    """The graphs that ``_make`` stored, as PyG keeps them; None if the file is damaged, or is about others."""
    try:
        tensors, found = read_tensors(file)
    except ValueError:
        return None
    parts: dict[str, dict[str, Tensor]] = {"data": {}, "slices": {}}
    for name, value in tensors.items():
        kind, _, own = name.partition(".")
        parts.setdefault(kind, {})[own] = value
    if found != about or not _fits(parts["data"], parts["slices"]):
        return None
    names = sorted(parts["data"], key=lambda name: (USUAL.index(name) if name in USUAL else len(USUAL), name))
    data, slices = ({name: parts[kind][name] for name in names if name in parts[kind]} for kind in ("data", "slices"))
    return Data.from_dict(data), slices or None


def _fits(data: dict[str, Tensor], slices: dict[str, Tensor]) -> bool:
    """Can these be graphs as PyG keeps them: slices in order, and edges between nodes of their graph?"""
    if not {"x", "edge_index", "y"} <= set(data) or (slices and set(slices) != set(data)):
        return False
    x, edge_index = data["x"], data["edge_index"]
    if x.dim() != 2 or edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_index.dtype != torch.long:
        return False
    ends = slices or {"x": torch.tensor([0, x.size(0)]), "edge_index": torch.tensor([0, edge_index.size(1)])}
    length = {name: data[name].size(1 if name == "edge_index" else 0) if data[name].dim() else 0 for name in ends}
    for name, at in ends.items():
        if at.dim() != 1 or at.numel() != ends["x"].numel() or at.dtype != torch.long or int(at[0]) != 0:
            return False
        if int(at[-1]) != length[name] or bool((at.diff() < 0).any()):
            return False
    sizes = ends["x"].diff().repeat_interleave(ends["edge_index"].diff())
    return bool(((edge_index >= 0) & (edge_index < sizes)).all())
