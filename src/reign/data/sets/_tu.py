"""The seven TU data sets of the paper (Morris et al. 2020), for cross-validation."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import degree

from reign.data._base import DATASETS, GraphDataset
from reign.data._files import download_folder, local_file, read_arrays, unpack

# the paper's name: name of PyG's set, of the local file, graphs, mean number of nodes, classes
SETS: dict[str, tuple[str, str, int, float, int]] = {
    "MUTAG": ("MUTAG", "MUTAG", 188, 17.93, 2),
    "PTC": ("PTC_MR", "PTC", 344, 25.56, 2),
    "PROTEINS": ("PROTEINS", "PROTEINS", 1113, 39.06, 2),
    "NCI1": ("NCI1", "NCI1", 4110, 29.87, 2),
    "NCI109": ("NCI109", "NCI109", 4127, 29.68, 2),
    "IMDB-B": ("IMDB-BINARY", "IMDBBINARY", 1000, 19.77, 2),
    "IMDB-M": ("IMDB-MULTI", "IMDBMULTI", 1500, 13.00, 3),
}


@DATASETS.register()
class TU(GraphDataset):
    """A TU set: one-hot node labels (degrees for IMDB), no edge features, all graphs in one split for cross-validation."""

    name = "tu"
    about = "TU sets MUTAG, PTC, PROTEINS, NCI1, NCI109, IMDB-B, IMDB-M (classes, cross-validation)"
    task = "multiclass"
    targets = ("class",)
    splits = ("all",)
    choices = {"set": list(SETS)}  # noqa: RUF012

    def __init__(self, root: Any = None, split: str = "all", *args: Any, **options: Any) -> None:
        super().__init__(root, split, *args, **options)
        self.classes = [str(c) for c in range(SETS[self.options["set"]][4])]

    @classmethod
    def variants(cls) -> list[dict[str, object]]:
        """Each of the seven sets."""
        return [{"set": name} for name in SETS]

    def make(self) -> dict[str, list[Data]]:
        """Read the graphs from ``REIGN_DATA``, or download them through PyG."""
        official, local, *_ = SETS[self.options["set"]]
        file = local_file(f"tu_{local}.npz")
        return {"all": self._official(official, local) if file is None else self._local(read_arrays(file))}

    def check(self, made: dict[str, list[Data]]) -> None:
        """Check the number of graphs and their mean number of nodes: the paper's PTC has hydrogens, TU's PTC_MR has none."""
        _, local, number, nodes, _ = SETS[self.options["set"]]
        graphs = made["all"]
        mean = sum(data.num_nodes for data in graphs) / len(graphs)
        if len(graphs) != number or abs(mean - nodes) > 0.01:
            raise ValueError(
                f"{self.options['set']} has {len(graphs)} graphs of {mean:.2f} nodes, expected {number} of {nodes}: these are not the graphs of "
                f"the paper. Put tu_{local}.npz with the paper's graphs into the folder given by the environment variable REIGN_DATA."
            )

    def _local(self, arrays: dict[str, np.ndarray]) -> list[Data]:
        y = torch.from_numpy(np.unique(arrays["y"], return_inverse=True)[1]).float()
        x = None if "IMDB" in self.options["set"] else _one_hot(torch.from_numpy(arrays["node_tag"].astype(np.int64)))
        sizes = arrays["node_ptr"][1:] - arrays["node_ptr"][:-1]
        graphs = unpack(sizes, arrays["edge_ptr"], arrays["edge_uv"], x, y)
        return graphs if x is not None else _degrees(graphs)

    def _official(self, name: str, local: str) -> list[Data]:
        from torch_geometric.datasets import TUDataset

        with download_folder(self.progress, f"tu_{local}.npz") as folder:
            found = list(TUDataset(folder, name))
        if "IMDB" not in name:
            return [Data(x=d.x, edge_index=d.edge_index, y=d.y.view(1, 1).float()) for d in found]
        return _degrees([Data(num_nodes=d.num_nodes, edge_index=d.edge_index, y=d.y.view(1, 1).float()) for d in found])


def _one_hot(tags: Tensor) -> Tensor:
    """One-hot columns, one for each tag that occurs, in the order of the tags."""
    known, column = tags.unique(return_inverse=True)
    return torch.nn.functional.one_hot(column, known.numel()).float()


def _degrees(graphs: list[Data]) -> list[Data]:
    found = _one_hot(torch.cat([degree(d.edge_index[0], d.num_nodes).long() for d in graphs]))
    for data, x in zip(graphs, found.split([d.num_nodes for d in graphs]), strict=True):
        data.x = x
    return graphs
