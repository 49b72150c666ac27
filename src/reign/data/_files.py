"""The folders of data sets, and graphs from arrays on disk or from networkx."""

import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any
from urllib.response import addinfourl

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from reign.disk import first_line

Progress = Callable[[Iterable[Any], str], Iterable[Any]]  # wraps a loop, whose label is given, to show its progress
MB = 1_000_000


class Arrays(dict[str, np.ndarray]):
    """The arrays of a file by name."""

    file: Path

    def __missing__(self, name: str) -> np.ndarray:
        raise ValueError(f"{self.file} has no array '{name}'; it has {', '.join(self) or 'none'}.")


def cache_folder() -> Path:
    """The folder of cached data sets: ``REIGN_CACHE``, or a folder in the user's cache."""
    given = os.environ.get("REIGN_CACHE")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reign"


@contextmanager
def download_folder(progress: Progress, name: str = "") -> Iterator[str]:
    """A new folder for downloads of PyG or OGB, which show their progress. They unpickle the files that they find, so it must not hold old files.

    If the download fails, the error says that the file ``name`` can be put into ``REIGN_DATA`` in its place.
    """
    opened = urllib.request.urlopen  # PyG and OGB have no hook of their own

    def fetched(*args: Any, **options: Any) -> addinfourl:
        with opened(*args, **options) as found:
            size, file = int(found.headers.get("Content-Length") or 0), TemporaryFile()  # noqa: SIM115
            for _ in progress(range(-(-size // MB) or 1), f"downloading {found.url}{', MB' * (size > 0)}"):
                file.write(found.read(MB if size else -1))
            file.seek(0)
            return addinfourl(file, found.headers, found.url, found.status)

    with TemporaryDirectory(prefix="reign-") as folder:
        urllib.request.urlopen = fetched
        try:
            yield folder
        except urllib.error.URLError as error:
            if not name:
                raise
            raise ValueError(
                f"the download failed ({first_line(error)}). Without a network, put {name} (docs/data.md says what it holds) into the folder given "
                "by the environment variable REIGN_DATA."
            ) from None
        finally:
            urllib.request.urlopen = opened


def local_file(name: str) -> Path | None:
    """A file in the folder ``REIGN_DATA``; None if it does not exist."""
    folder = os.environ.get("REIGN_DATA")
    file = Path(folder) / name if folder else None
    return file if file is not None and file.is_file() else None


def need_file(name: str, what: str) -> Path:
    """A file in the folder ``REIGN_DATA``. If it does not exist, the error explains what to do."""
    file = local_file(name)
    if file is None:
        where = os.environ.get("REIGN_DATA")
        raise ValueError(
            f"{what} is read from {name} in the folder given by the environment variable REIGN_DATA, "
            + (f"but {where} has no such file." if where else "which is not set; export REIGN_DATA=<folder>.")
        )
    return file


def read_arrays(file: Path) -> Arrays:
    """Read all arrays of an .npz file."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            found = Arrays({key: arrays[key] for key in arrays})
    except Exception as error:  # a damaged or encrypted archive can raise any error
        raise ValueError(f"{file} cannot be read as an .npz file ({first_line(error)}).") from None
    found.file = file
    return found


def unpack(
    sizes: np.ndarray, edge_ptr: np.ndarray, edge_uv: np.ndarray, x: Tensor | None, y: Tensor, edge_attr: Tensor | None = None
) -> list[Data]:
    """Make graphs from arrays that hold each undirected edge once. Without features, every node has the feature 1."""
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


# -- graphs of networkx --------------------------------------------------------------------------------------------------


def from_networkx(graph: nx.Graph) -> Data:
    """Convert a networkx graph to a PyG graph with the feature 1 at every node."""
    graph = nx.convert_node_labels_to_integers(graph)
    edges = torch.tensor(list(graph.edges), dtype=torch.long).reshape(-1, 2).t()
    return Data(x=torch.ones(graph.number_of_nodes(), 1), edge_index=torch.cat([edges, edges.flip(0)], dim=1))
