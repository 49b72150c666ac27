"""Data sets that test which graphs a model can tell apart: CSL, EXP, CEXP and strongly regular graphs."""

from typing import Any

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Data

from reign._validate import check
from reign.data._base import DATASETS, GraphDataset
from reign.data._files import download_folder, local_file, need_file, read_arrays, unpack
from reign.data._networkx import from_networkx


@DATASETS.register()
class CSL(GraphDataset):
    """Circular skip links: 150 graphs of 41 nodes, 10 classes of isomorphic graphs; a stratified split of 90 / 30 / 30."""

    name = "csl"
    about = "CSL, ten classes of circular skip links (classes)"
    task = "multiclass"
    targets = ("skip",)
    classes = tuple(map(str, range(10)))
    sizes = {"train": 90, "val": 30, "test": 30}  # noqa: RUF012

    def make(self) -> dict[str, list[Data]]:
        """Read the graphs from ``REIGN_DATA``, or download them through PyG."""
        file = local_file("csl.npz")
        if file is not None:
            arrays = read_arrays(file)
            y = torch.from_numpy(arrays["y"]).float()
            graphs = unpack(arrays["num_nodes"], arrays["edge_ptr"], arrays["edge_uv"], None, y)
        else:
            from torch_geometric.datasets import GNNBenchmarkDataset

            with download_folder() as folder:
                graphs = [
                    Data(x=torch.ones(d.num_nodes, 1), edge_index=d.edge_index, y=d.y.view(1, 1).float())
                    for d in GNNBenchmarkDataset(folder, "CSL")
                ]
        return stratified(graphs)


@DATASETS.register()
class EXP(GraphDataset):
    """EXP or CEXP (Abboud et al. 2021): 600 pairs of graphs with two node types, one graph of each pair in each class; a stratified split.

    1-WL cannot tell apart the pairs of EXP, and half of the pairs of CEXP.
    """

    name = "exp"
    about = "EXP and CEXP, pairs of graphs in two classes that 1-WL confuses (classification)"
    task = "classification"
    targets = ("class",)
    sizes = {"train": 720, "val": 240, "test": 240}  # noqa: RUF012

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The name of the set: "EXP" or "CEXP"."""
        return {"set": "EXP"}

    @classmethod
    def check_options(cls, **options: Any) -> None:
        """Check that the set is one of the two."""
        check("set", options["set"], options["set"] in ("EXP", "CEXP"), "'EXP' or 'CEXP'")

    def make(self) -> dict[str, list[Data]]:
        """Read the graphs from ``REIGN_DATA``."""
        return stratified(exp_graphs(self.options["set"]))


def exp_graphs(name: str) -> list[Data]:
    """All graphs of EXP or CEXP in the order of the file. Consecutive graphs form a pair."""
    arrays = read_arrays(need_file(f"{name.lower()}.npz", name))
    x, y = torch.from_numpy(arrays["x"]).float(), torch.from_numpy(arrays["y"]).float()
    return unpack(arrays["node_ptr"][1:] - arrays["node_ptr"][:-1], arrays["edge_ptr"], arrays["edge_uv"], x, y)


@DATASETS.register()
class SR(GraphDataset):
    """The 15 strongly regular graphs (25, 12, 5, 6). 3-WL cannot tell any two of them apart. Every graph is its own class."""

    name = "sr"
    about = "SR, 15 strongly regular graphs that 3-WL confuses (each a class)"
    task = "multiclass"
    targets = ("graph",)
    classes = tuple(map(str, range(15)))
    splits = ("all",)
    sizes = {"all": 15}  # noqa: RUF012

    def make(self) -> dict[str, list[Data]]:
        """Read the graphs from ``REIGN_DATA``."""
        lines = need_file("sr251256.g6", "SR").read_bytes().split()
        graphs = [from_networkx(nx.from_graph6_bytes(line)) for line in lines]
        for g, data in enumerate(graphs):
            data.y = torch.tensor([[float(g)]])
        return {"all": graphs}


def stratified(graphs: list[Data]) -> dict[str, list[Data]]:
    """A fixed split of 60 / 20 / 20 %, in which every class has the same shares."""
    from sklearn.model_selection import StratifiedShuffleSplit

    y = torch.cat([data.y for data in graphs]).squeeze(1)

    def halves(ids: Tensor, share: float) -> tuple[Tensor, Tensor]:
        a, b = next(StratifiedShuffleSplit(1, test_size=share, random_state=0).split(ids.numpy(), y[ids].numpy()))
        return ids[torch.from_numpy(a)], ids[torch.from_numpy(b)]

    train, rest = halves(torch.arange(len(graphs)), 0.4)
    val, test = halves(rest, 0.5)
    return {split: [graphs[int(g)] for g in ids.sort().values] for split, ids in (("train", train), ("val", val), ("test", test))}
