"""Graph properties (Corso et al. 2020, PNA): whether a graph is connected, its diameter, and its spectral radius."""

from typing import Any

import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Data

from reign._validate import check
from reign.data._base import DATASETS, GraphDataset
from reign.data._files import need_file, read_arrays, unpack
from reign.data._networkx import from_networkx
from reign.data.sets._random_graphs import random_graph

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

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Generated graphs, as many as in the paper."""
        return {"source": "generated", "share": 1.0, "seed": 0}

    @classmethod
    def check_options(cls, **options: Any) -> None:
        """Check that the source exists, and that the share leaves some graphs."""
        check("source", options["source"], options["source"] in ("generated", "pna"), "'generated' or 'pna'")
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
            out[split] = [_featured(random_graph(n, rng), rng) for n in sizes for _ in range(number)]
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
