"""Graph properties (Corso et al. 2020, PNA): whether a graph is connected, its diameter, and its spectral radius."""

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Data

from reign._validate import check
from reign.data._base import DATASETS, GraphDataset
from reign.data._files import from_networkx, need_file, read_arrays, unpack

# -- random graphs of ten families, in the shares of PNA's generator -----------------------------------------------------


def random_graph(n: int, rng: np.random.Generator) -> nx.Graph:
    """A graph of n nodes from one of ten families, in the shares of PNA, with its nodes in random order."""
    names, shares = zip(*((name, share) for name, (share, _) in FAMILIES.items()), strict=True)
    graph = FAMILIES[names[int(rng.choice(len(names), p=np.array(shares)))]][1](n, rng)
    graph = nx.convert_node_labels_to_integers(graph)
    order = rng.permutation(n)
    out = nx.empty_graph(n)
    out.add_edges_from(sorted(tuple(sorted((int(order[u]), int(order[v])))) for u, v in graph.edges if u != v))
    return out


def _grid(n: int, rng: np.random.Generator) -> nx.Graph:
    """A grid that is as square as possible for n nodes; a line if n is prime."""
    width = max(w for w in range(1, int(n**0.5) + 1) if n % w == 0)
    return nx.grid_2d_graph(width, n // width)


def _caveman(n: int, rng: np.random.Generator) -> nx.Graph:
    """A ring of cliques, whose number and size are as equal as possible for n nodes; one clique if n is prime."""
    number = max(w for w in range(1, int(n**0.5) + 1) if n % w == 0)
    return nx.connected_caveman_graph(number, n // number) if number > 1 else nx.complete_graph(n)


def _ladder(n: int, rng: np.random.Generator) -> nx.Graph:
    """Two rails of n // 2 nodes each; if n is odd, one more node is attached to an end."""
    graph = nx.ladder_graph(n // 2)
    if n % 2:
        graph.add_edge(0, n - 1)
    return graph


def _caterpillar(n: int, rng: np.random.Generator) -> nx.Graph:
    """A path of random length, with all other nodes attached to it."""
    length = int(rng.integers(1, n + 1))
    graph = nx.path_graph(length)
    graph.add_edges_from((v, int(rng.integers(length))) for v in range(length, n))
    return graph


def _lobster(n: int, rng: np.random.Generator) -> nx.Graph:
    """A path, nodes attached to it, and nodes attached to those."""
    length = int(rng.integers(1, n + 1))
    legs = int(rng.integers(length, n + 1))
    graph = nx.path_graph(length)
    graph.add_edges_from((v, int(rng.integers(length))) for v in range(length, legs))
    graph.add_edges_from(
        (v, int(rng.integers(length, legs)) if legs > length else int(rng.integers(length))) for v in range(legs, n)
    )
    return graph


FAMILIES: dict[str, tuple[float, Callable[[int, np.random.Generator], nx.Graph]]] = {
    "Erdos-Renyi": (0.2, lambda n, rng: nx.gnp_random_graph(n, float(rng.random()), seed=int(rng.integers(2**31)))),
    "Barabasi-Albert": (0.2, lambda n, rng: nx.barabasi_albert_graph(n, int(rng.integers(1, n)), seed=int(rng.integers(2**31)))),
    "grid": (0.05, _grid),
    "caveman": (0.05, _caveman),
    "tree": (0.15, lambda n, rng: nx.from_prufer_sequence([int(v) for v in rng.integers(0, n, n - 2)])),
    "ladder": (0.05, _ladder),
    "line": (0.05, lambda n, rng: nx.path_graph(n)),
    "star": (0.05, lambda n, rng: nx.star_graph(n - 1)),
    "caterpillar": (0.1, _caterpillar),
    "lobster": (0.1, _lobster),
}


# -- the data set --------------------------------------------------------------------------------------------------------


# the number of graphs of each size, and the sizes
SPLITS = {"train": (512, range(15, 25)), "val": (128, range(15, 20)), "test": (256, range(15, 20))}


@DATASETS.register()
class GraphProperties(GraphDataset):
    """Three properties of graphs of ten families, each divided by its training maximum.

    "is-connected" has the same meaning as in PNA's generator, so that numbers can be compared: connected **and not bipartite** (41 % of
    the graphs). The diameter of a disconnected graph is the largest diameter of a component. The radius is the spectral
    radius. A node has two features: a flag at one random node, and a random number.

    Options:
        source: "generated", or "pna" (a set made by PNA's own generator, from ``REIGN_DATA``).
        share: share of the graphs to make; with 1.0 there are 512 training graphs of each of ten sizes.
        seed: seed of the generator.
    """

    name = "graph-properties"
    about = "is-connected, diameter and spectral radius of random graphs (regression, three targets)"
    targets = ("is-connected", "diameter", "radius")
    choices = {"source": ["generated", "pna"]}  # noqa: RUF012

    @classmethod
    def defaults(cls) -> dict[str, object]:
        """Generated graphs, as many as in the paper."""
        return {**super().defaults(), "share": 1.0, "seed": 0}

    @classmethod
    def check_options(cls, **options: Any) -> None:
        """Check that the share leaves some graphs."""
        share = options["share"]
        check("share", share, isinstance(share, int | float) and 0 < share <= 1, "a number above 0 and at most 1")
        check("seed", options["seed"], type(options["seed"]) is int, "a whole number")
        if options["source"] == "pna" and {**options, "source": "generated"} != cls.defaults():
            raise ValueError("the set of PNA's generator is fixed; leave out share and seed with source='pna'.")

    def make(self) -> dict[str, list[Data]]:
        """Generate or read the graphs, and scale the labels."""
        out = self._pna() if self.options["source"] == "pna" else self._generated()
        largest = torch.cat([data.y for data in out["train"]]).amax(0, keepdim=True)
        for graphs in out.values():
            for data in graphs:
                data.y = data.y / largest
        return out

    def _generated(self) -> dict[str, list[Data]]:
        rng = np.random.default_rng(self.options["seed"])
        out = {}
        for split, (number, sizes) in SPLITS.items():
            number = max(1, round(number * self.options["share"]))
            every = self.progress([n for n in sizes for _ in range(number)], f"generating graphs ({split}), graph")
            out[split] = [_featured(random_graph(n, rng), rng) for n in every]
        return out

    def _pna(self) -> dict[str, list[Data]]:
        arrays = read_arrays(need_file("graphprop_pna_seed1234_regenerated.npz", "the set of PNA's generator"))
        out = {}
        for split in self.splits:
            part = {key.removeprefix(f"{split}_"): value for key, value in arrays.items() if key.startswith(f"{split}_")}
            sizes = part["num_nodes"].astype(np.int64)
            flag = torch.zeros(int(sizes.sum()))
            flag[torch.from_numpy(np.concatenate([[0], np.cumsum(sizes)])[:-1] + part["source"])] = 1
            x = torch.stack([flag, torch.from_numpy(part["node_value"]).float()], dim=1)
            out[split] = unpack(sizes, part["edge_ptr"], part["edge_uv"], x, torch.from_numpy(part["graph_labels"]).float())
        return out


def labels(graph: nx.Graph) -> list[float]:
    """Whether the graph is connected and not bipartite; the largest diameter of a component; the spectral radius."""
    connected = nx.is_connected(graph) and not nx.is_bipartite(graph)
    diameter = max(max(reached.values()) for _, reached in nx.all_pairs_shortest_path_length(graph))
    radius = np.abs(np.linalg.eigvalsh(nx.to_numpy_array(graph))).max()
    return [float(connected), float(diameter), float(radius)]


def _featured(graph: nx.Graph, rng: np.random.Generator) -> Data:
    data = from_networkx(graph)
    n = data.num_nodes
    flag = torch.zeros(n)
    flag[int(rng.integers(n))] = 1
    data.x = torch.stack([flag, torch.from_numpy(rng.random(n)).float()], dim=1)
    data.y = torch.tensor([labels(graph)])
    return data
