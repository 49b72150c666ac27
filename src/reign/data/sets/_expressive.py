"""Data sets that test which graphs a model can tell apart (CSL, EXP, CEXP and strongly regular graphs), or what it can count."""

from typing import Any

import networkx as nx
import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch_geometric.data import Data

from reign._validate import check
from reign.bags import SharedGraph
from reign.data._base import DATASETS, GraphDataset
from reign.data._files import Progress, download_folder, from_networkx, local_file, need_file, read_arrays, unpack
from reign.data._pack import GraphPack
from reign.kernels import ragged


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

            with download_folder(self.progress, "csl.npz") as folder:
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
    choices = {"set": ["EXP", "CEXP"]}  # noqa: RUF012
    sizes = {"train": 720, "val": 240, "test": 240}  # noqa: RUF012

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


# -- counting substructures (Chen et al. 2020): random graphs, and the number of occurrences of each pattern -------------


PATTERNS = ["triangle", "tailed-triangle", "star", "4-cycle", "5-cycle", "6-cycle"]
REGULAR = ((10, 6), (15, 6), (20, 5), (30, 5))  # numbers of nodes and degrees, in equal shares
SHARES = {"train": 0.3, "val": 0.2, "test": 0.5}


@DATASETS.register()
class Counting(GraphDataset):
    """Counts of six patterns (not induced), each divided by its standard deviation over the whole set. The split is 30 / 20 / 50 %.

    Options:
        kind: "regular" (random regular graphs from which n edges are removed), "er" (Erdos-Renyi graphs of 10 nodes), or "chen2020"
            (the Erdos-Renyi set of Chen et al., from ``REIGN_DATA``).
        num_graphs: number of graphs.
        seed: seed of the generator and of the split.
    """

    name = "counting"
    about = "counting substructures in random graphs (regression, six targets)"
    targets = tuple(PATTERNS)
    wl_census = True
    choices = {"kind": ["regular", "er", "chen2020"]}  # noqa: RUF012

    @classmethod
    def defaults(cls) -> dict[str, object]:
        """The options of the set in the paper's table."""
        return {**super().defaults(), "num_graphs": 5000, "seed": 0}

    @classmethod
    def check_options(cls, **options: Any) -> None:
        """There must be enough graphs to split."""
        number = options["num_graphs"]
        check("num_graphs", number, type(number) is int and number >= 10, "a whole number of at least 10")
        check("seed", options["seed"], type(options["seed"]) is int, "a whole number")
        if options["kind"] == "chen2020" and {**options, "kind": "regular"} != cls.defaults():
            raise ValueError("the set of Chen et al. is fixed; leave out num_graphs and seed with kind='chen2020'.")

    def make(self) -> dict[str, list[Data]]:
        """Generate the graphs, and count the patterns in them."""
        number, seed = self.options["num_graphs"], self.options["seed"]
        if self.options["kind"] == "chen2020":
            graphs, ids = _chen2020()
        else:
            rng = np.random.default_rng(seed)
            draw = _regular if self.options["kind"] == "regular" else _erdos_renyi
            graphs = [draw(g, rng) for g in self.progress(range(number), "generating graphs, graph")]
            ends = np.cumsum([round(share * number) for share in SHARES.values()])[:-1]
            ids = dict(zip(SHARES, np.split(rng.permutation(number), ends), strict=True))
        y = counts(GraphPack.of(graphs), self.progress).double()
        y = (y / y.std(0)).float()
        for data, row in zip(graphs, y, strict=True):
            data.y = row[None]
        return {split: [graphs[int(g)] for g in ids[split]] for split in self.splits}


def counts(graphs: GraphPack, progress: Progress = lambda items, _: items) -> Int[Tensor, "graphs patterns"]:
    """The number of times each of ``PATTERNS`` occurs in each graph as a subgraph, induced or not.

    There are ``tr(A^3) / 6`` triangles, ``sum_i (A^3)_ii / 2 (deg_i - 2)`` tailed triangles, and ``sum_i C(deg_i, 3)`` stars of three
    leaves. Cycles are counted by enumeration.
    """
    b = graphs.batch(torch.arange(len(graphs)))
    deg = torch.bincount(b.edge_index[0], minlength=b.x.size(0))
    found = {length: _cycles(graphs, length, progress) for length in (3, 4, 5, 6)}

    def add(values: Tensor) -> Tensor:
        return torch.zeros(len(graphs), dtype=torch.long).index_add_(0, b.batch, values)

    tailed = add(found[3][1] * (deg - 2))
    star = add(deg * (deg - 1) * (deg - 2) // 6)
    return torch.stack([found[3][0], tailed, star, found[4][0], found[5][0], found[6][0]], dim=1)


def _cycles(graphs: GraphPack, length: int, progress: Progress) -> tuple[Tensor, Tensor]:
    """The number of cycles of a length in each graph, and through each node."""
    parts = progress(torch.arange(len(graphs)).split(256), f"counting cycles of {length} nodes, chunk")
    found = [_list_cycles(graphs, ids, length) for ids in parts]
    return torch.cat([a for a, _ in found]), torch.cat([b for _, b in found])


def _list_cycles(graphs: GraphPack, ids: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """As ``_cycles``, for some of the graphs: simple paths are enumerated from their smallest node, and closed."""
    b = graphs.batch(ids)
    graph = SharedGraph.build(b.x, b.edge_index, None, b.batch, b.size)
    paths = torch.arange(b.x.size(0))[:, None]
    for _ in range(length - 1):
        row, node, _ = graph.in_edges.expand(paths[:, -1])
        new = (node > paths[row, 0]) & (paths[row] != node[:, None]).all(dim=1)
        paths = torch.cat([paths[row[new]], node[new, None]], dim=1)
    paths = paths[paths[:, 1] < paths[:, -1]]  # each cycle is found in two directions
    keys = (b.edge_index[0] * b.x.size(0) + b.edge_index[1]).sort().values
    _, closed = ragged.find(keys, paths[:, -1] * b.x.size(0) + paths[:, 0])
    paths = paths[closed]
    return torch.bincount(b.batch[paths[:, 0]], minlength=b.size), torch.bincount(paths.flatten(), minlength=b.x.size(0))


def _regular(g: int, rng: np.random.Generator) -> Data:
    """A random regular graph from which as many edges are removed as it has nodes."""
    nodes, degree = REGULAR[g % len(REGULAR)]
    graph = nx.random_regular_graph(degree, nodes, seed=int(rng.integers(2**31)))
    edges = sorted(tuple(sorted(edge)) for edge in graph.edges)
    lost = {edges[int(e)] for e in rng.choice(len(edges), nodes, replace=False)}
    graph.remove_edges_from(lost)
    return from_networkx(_in_order(graph, nodes))


def _erdos_renyi(g: int, rng: np.random.Generator) -> Data:
    """A graph of ten nodes, with each edge present with probability 0.3."""
    upper = np.triu(rng.random((10, 10)) < 0.3, 1)
    graph = nx.Graph()
    graph.add_edges_from(zip(*np.nonzero(upper), strict=True))
    return from_networkx(_in_order(graph, 10))


def _in_order(graph: nx.Graph, nodes: int) -> nx.Graph:
    """The same graph with its nodes and edges listed in order."""
    out = nx.empty_graph(nodes)
    out.add_edges_from(sorted(tuple(sorted((int(u), int(v)))) for u, v in graph.edges))
    return out


def _chen2020() -> tuple[list[Data], dict[str, np.ndarray]]:
    arrays = read_arrays(need_file("counting_er_chen2020.npz", "the Erdos-Renyi set of Chen et al."))
    uv = np.stack([arrays["edge_u"], arrays["edge_v"]], axis=1)
    graphs = unpack(arrays["num_nodes"], arrays["edge_ptr"], uv, None, torch.zeros(len(arrays["num_nodes"]), 1))
    return graphs, {split: arrays[f"{split}_idx"] for split in SHARES}
