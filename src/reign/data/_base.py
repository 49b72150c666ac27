"""The base class of data sets, which are found by name: splits of graphs, made once and cached as safetensors, which cannot run code."""

import hashlib
import pickle
import secrets
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset

from reign._validate import check, did_you_mean
from reign.data._files import Progress, cache_folder
from reign.data._pack import GraphPack
from reign.data._problem import Problem
from reign.disk import read_tensors, write_tensors
from reign.kernels import ragged
from reign.registry import Registry

Transform = Callable[[Data], Data]

DATASETS: Registry[type["GraphDataset"]] = Registry("data set", hint="; a data set of your own must be registered first")

USUAL = ("x", "edge_index", "edge_attr", "y")  # PyG's usual attributes, in their usual order
_MARKS: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # a mark for each function that a data set was made with


class GraphDataset(InMemoryDataset):  # type: ignore[misc]
    """A data set with PyG's interface. A new data set is a subclass with one method, ``make``, registered by ``@DATASETS.register()``.

    Args:
        root: folder of processed graphs, which several data sets can share; a folder in the user's cache if not given.
        split: one of ``splits``.
        progress: function that wraps long loops while graphs are made, to show their progress.
        transform, pre_transform, pre_filter, force_reload: as in PyG. If ``pre_transform`` or ``pre_filter`` is a function, its graphs are
            used again only in the same process, because the function can be another one later.
        options: options of the data set itself. Each combination of options has its own folder.
    """

    name: ClassVar[str]
    about: ClassVar[str]  # a one-line description
    task: ClassVar[str] = "regression"
    targets: ClassVar[Sequence[str]] = ("y",)
    splits: ClassVar[tuple[str, ...]] = ("train", "val", "test")
    node_encoder: ClassVar[Any] = None
    edge_encoder: ClassVar[Any] = None
    reads_smiles: ClassVar[bool] = False  # whether its graphs are made by ``reign.data.molecules.from_smiles``
    stereo: ClassVar[Literal["parity", "ogb"]] = "ogb"  # what the graphs of molecules say about chirality, as for ``Molecule.read``
    wl_census: ClassVar[bool] = False  # whether ``reign data info`` shows how many pairs of graphs 1-WL tells apart
    classes: Sequence[str] = ()
    sizes: ClassVar[Mapping[str, int]] = {}  # the expected number of graphs of each split, if known
    choices: ClassVar[Mapping[str, Sequence[str]]] = {}  # the values of options that have few, the default first
    version: ClassVar[int] = 1  # version of the output of ``make``; a new number invalidates the cache
    progress: Progress = staticmethod(lambda items, _: items)  # for ``make``

    def __init__(
        self,
        root: str | Path | None = None,
        split: str | None = None,
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
        pre_filter: Callable[[Data], bool] | None = None,
        force_reload: bool = False,
        progress: Progress | None = None,
        **options: Any,
    ) -> None:
        split = self.splits[0] if split is None else split
        check("split", split, split in self.splits, " or ".join(map(repr, self.splits)))
        self.options = self.complete(options)
        folder = Path(root) if root is not None else cache_folder()
        label = "-".join([f"v{self.version}", *(f"{key}={value}" for key, value in self.options.items())])
        super().__init__(str(folder / self.name / label), transform, pre_transform, pre_filter)
        if progress is not None:
            self.progress = progress
        self._load(split, force_reload)
        self.__dict__.pop("progress", None)  # it need not be picklable

    @classmethod
    def defaults(cls) -> dict[str, object]:
        """The options of this data set, with their default values."""
        return {name: values[0] for name, values in cls.choices.items()}

    @classmethod
    def complete(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """All options: the given ones, and the defaults of the others. Raise ``ValueError`` if one is unknown or invalid."""
        known = cls.defaults()
        for name, value in given.items():
            if name not in known:
                raise ValueError(
                    f"{cls.name} has no option '{name}'{did_you_mean(name, list(known))} It has {', '.join(known) or 'none'}."
                )
            kinds = (int, float) if isinstance(known[name], float) else (type(known[name]),)
            good = isinstance(value, kinds) and isinstance(value, bool) == isinstance(known[name], bool)
            check(name, value, good, f"a value such as {known[name]!r}")
            check(
                name,
                value,
                not set(str(value)) & set("/\\\0"),
                "a value without slashes, because it is part of the name of a folder",
            )
        chosen = {**known, **given}
        for name, values in cls.choices.items():
            check(name, chosen[name], chosen[name] in values, f"one of {', '.join(values)}")
        cls.check_options(**chosen)
        return chosen

    @classmethod
    def variants(cls) -> list[dict[str, object]]:
        """The options of every data set with this name; by default only the default options."""
        return [{}]

    @classmethod
    def check_options(cls, **options: Any) -> None:
        """Raise ``ValueError`` for invalid options."""

    @abstractmethod
    def make(self) -> dict[str, list[Data]]:
        """The graphs of every split, each with ``y`` of shape (1, targets)."""

    def check(self, made: dict[str, list[Data]]) -> None:
        """Raise ``ValueError`` if statistics show that these are not the graphs of the paper."""
        found = {split: len(graphs) for split, graphs in made.items()}
        if self.sizes and found != self.sizes:
            raise ValueError(f"{self.name} has {found} graphs, expected {self.sizes}; check that the source files are complete.")

    def _load(self, split: str, anew: bool) -> None:
        """Read a split from the cache. If it is missing, damaged, or not of these settings, all splits are made first."""
        about = {
            "name": self.name,
            "version": str(self.version),
            "options": repr(self.options),
            "pre_transform": _identity(self.pre_transform),
            "pre_filter": _identity(self.pre_filter),
        }
        files = {name: Path(self.processed_dir) / f"{name}.safetensors" for name in self.splits}
        found = (
            None if anew or not all(file.is_file() for file in files.values()) else _read(files[split], {**about, "split": split})
        )
        if found is None or (self.pre_filter is None and self.sizes and found[0].y.size(0) != self.sizes[split]):
            self._make(files, about)
            found = _read(files[split], {**about, "split": split})
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
                raise ValueError(
                    f"{self.name} has graphs with '{other[0]}', which is not a tensor; a data set can store only tensors."
                )
            if not _fits(tensors, slices or {}):
                raise ValueError(
                    f"{self.name} has graphs of a wrong shape, expected x of shape (nodes, channels), edge_index of shape (2, edges) with "
                    "whole numbers of nodes, and y of shape (1, targets)."
                )
            parts = {
                **{f"data.{name}": t for name, t in tensors.items()},
                **{f"slices.{name}": t for name, t in (slices or {}).items()},
            }
            write_tensors(files[split], parts, {**about, "split": split})

    def texts(self) -> dict[str, list[str]]:
        """The SMILES of this split, if ``make`` keeps their letters in ``data.smiles``, a tensor of bytes; they are then found in ``Problem.texts``."""
        if "smiles" not in self._data:
            return {}
        letters = bytes(self._data.smiles.tolist())
        ends = [0, len(letters)] if self.slices is None else self.slices["smiles"].tolist()
        return {"smiles": [letters[start:end].decode() for start, end in pairwise(ends)]}

    def pack(self) -> GraphPack:
        """All graphs of this split in a few tensors."""
        data, slices = self._data, self.slices
        if slices is None:  # PyG has none for a single graph
            slices = {"x": torch.tensor([0, data.num_nodes]), "edge_index": torch.tensor([0, data.num_edges])}
        y = data.y if data.y.dim() == 2 else data.y[:, None]
        return GraphPack(
            data.x, data.edge_index, getattr(data, "edge_attr", None), y.float(), slices["x"].long(), slices["edge_index"].long()
        )


def _identity(function: Callable[..., Any] | None) -> str:
    """A text that is the same only for transforms and filters that are the same.

    An object is known by its settings, which PyG's transforms do not print. A function does not say what it does, so it is
    the same only as itself.
    """
    text = repr(function)
    if function is None:
        return text
    if " at 0x" not in text:
        with suppress(Exception):  # an object that cannot be pickled can raise any error
            return f"{text} {hashlib.blake2b(pickle.dumps(function, protocol=4), digest_size=16).hexdigest()}"
    mark = secrets.token_hex(16)
    with suppress(TypeError):  # an object without a hash is new each time
        mark = _MARKS.setdefault(function, mark)
    return f"{text} {mark}"


def _read(file: Path, about: Mapping[str, str]) -> tuple[Data, dict[str, Tensor] | None] | None:
    """Read the graphs stored by ``_make``, in PyG's format; None if the file is damaged or belongs to other settings."""
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
    """Whether these are valid graphs in PyG's format: slices in order, and edges between nodes of their graph."""
    if not {"x", "edge_index", "y"} <= set(data) or (slices and set(slices) != set(data)):
        return False
    x, edge_index = data["x"], data["edge_index"]
    if x.dim() != 2 or edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_index.dtype != torch.long:
        return False
    length = {name: value.size(Data().__cat_dim__(name, value)) if value.dim() else 0 for name, value in data.items()}
    ends = slices or {name: torch.tensor([0, length[name]]) for name in ("x", "edge_index", "y")}
    for name, at in ends.items():
        if at.dim() != 1 or not at.numel() or at.numel() != ends["x"].numel() or at.dtype != torch.long or int(at[0]) != 0:
            return False
        if int(at[-1]) != length[name] or bool((at.diff() < 0).any()):
            return False
    if not bool((ends["y"].diff() == 1).all()):
        return False
    sizes = ends["x"].diff().repeat_interleave(ends["edge_index"].diff())
    return bool(((edge_index >= 0) & (edge_index < sizes)).all())


# -- data sets by name, as learning problems -----------------------------------------------------------------------------


def list_datasets() -> list[str]:
    """The names of all data sets, for ``load_problem``.

    >>> list_datasets()[:3]
    ['zinc', 'molhiv', 'tu']
    """
    return DATASETS.names()


def find_dataset(name: str) -> type[GraphDataset]:
    """Find a data set by name, in any common spelling."""
    return DATASETS[name]


def load_problem(name: str, progress: Progress | None = None, **options: Any) -> Problem:
    """Load a data set by name as a problem: all splits and targets, and the encoders of the features.

    Args:
        name: one of ``list_datasets()``.
        progress: function that wraps long loops while graphs are made, to show their progress.
        options: options of the data set, and ``root``, its folder.
    """
    kind = find_dataset(name)
    options |= {} if progress is None else {"progress": progress}
    made = {split: kind(split=split, **options) for split in kind.splits}
    packs = [dataset.pack() for dataset in made.values()]
    first = next(iter(made.values()))
    ends = torch.tensor([0, *(len(pack) for pack in packs)]).cumsum(0).tolist()
    splits = {split: torch.arange(ends[s], ends[s + 1]) for s, split in enumerate(kind.splits)}
    return Problem(
        name=kind.name,
        graphs=_join(packs),
        splits={"train": splits["all"]} if "all" in splits else splits,
        task=kind.task,
        targets=list(kind.targets),
        node_encoder=kind.node_encoder,
        edge_encoder=kind.edge_encoder,
        classes=list(first.classes),
        texts={column: [text for each in made.values() for text in each.texts()[column]] for column in first.texts()},
    )


def _join(packs: list[GraphPack]) -> GraphPack:
    """Concatenate several packs."""

    def whole(name: str, dim: int = 0) -> Any:
        parts = [getattr(pack, name) for pack in packs]
        return None if parts[0] is None else torch.cat(parts, dim)

    ends = (ragged.offsets(torch.cat([getattr(pack, name).diff() for pack in packs])) for name in ("node_ptr", "edge_ptr"))
    return GraphPack(whole("x"), whole("edge_index", 1), whole("edge_attr"), whole("y"), *ends)
