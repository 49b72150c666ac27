"""Node classification on one graph of 50,000 nodes and mean degree 6: accuracy, time, and peak memory of training in batches of roots.

    python benchmarks/roots.py                # each model in a process of its own, about ten minutes on two cores
    python benchmarks/roots.py --only gin     # one model in this process

The label says whether a node is in more triangles than the mean over all nodes. Every node has the same degree, but for a few chance meetings of edges, and
the same feature, so message passing on the graph itself learns next to nothing.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

from reign.data import RootLoader, predict_nodes
from reign.nn import DS, IDGNN, MPNN, NGNN, Model, RootPooling, num_parameters
from reign.train import Training, fit_nodes

LAYERS, EPOCHS, BATCH = 3, 4, 250
MODELS: dict[str, Callable[[], Model]] = {  # numbers of channels that give all models about the same number of weights
    "gin": partial(MPNN, 1, 40, LAYERS, 2, norm=None, task_level="node"),
    "ngnn ego:2": partial(NGNN, 1, 34, LAYERS, 2, policy="ego:2", readout="sum", norm=None, task_level="node"),
    "idgnn ego+:2": partial(IDGNN, 1, 28, LAYERS, 2, policy="ego+:2", norm=None, task_level="node"),
    "ds ego:2": partial(DS, 1, 40, LAYERS, 2, policy="ego:2", domain="members", pooling=RootPooling, norm=None, task_level="node"),
}


def make_graph(nodes: int, seed: int = 0) -> Data:
    """A random graph in which node i has 6 edges, of which 0, 2, 4 or 6 belong to random triangles, with the label and random splits."""
    draw = torch.Generator().manual_seed(seed)
    corners = torch.randint(0, 4, (nodes,), generator=draw)
    ends = torch.arange(nodes).repeat_interleave(corners)
    ends = ends[torch.randperm(ends.numel(), generator=draw)][: ends.numel() // 3 * 3].view(-1, 3)
    single = torch.arange(nodes).repeat_interleave(6 - 2 * corners)
    single = single[torch.randperm(single.numel(), generator=draw)][: single.numel() // 2 * 2].view(2, -1)
    edges = torch.cat([ends[:, [0, 1]].t(), ends[:, [1, 2]].t(), ends[:, [2, 0]].t(), single], dim=1)
    edge_index = coalesce(to_undirected(edges[:, edges[0] != edges[1]], num_nodes=nodes))
    number = triangles(edge_index, nodes)
    part = torch.rand(nodes, generator=draw)
    return Data(
        x=torch.ones(nodes, 1),
        edge_index=edge_index,
        y=(number > number.mean()).long(),
        train_mask=part < 0.6,
        val_mask=(part >= 0.6) & (part < 0.8),
        test_mask=part >= 0.8,
    )


def triangles(edge_index: Tensor, nodes: int) -> Tensor:
    """The number of triangles of each node."""
    graph = nx.Graph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(edge_index.t().tolist())
    return torch.tensor([float(number) for _, number in sorted(nx.triangles(graph).items())])


def by_loader(model: Model, data: Data) -> float:
    """Train with a plain loop over a ``RootLoader``, and return the accuracy on the test nodes."""
    loader = RootLoader(data, model, BATCH, nodes=data.train_mask, shuffle=True)
    optimiser = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.01, total_steps=EPOCHS * len(loader))
    for _ in range(EPOCHS):
        for batch in loader:
            loss = torch.nn.functional.cross_entropy(model(batch), batch.y[: batch.batch_size])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    out = predict_nodes(model, data, BATCH)  # all nodes
    return float((out.argmax(1) == data.y)[data.test_mask].float().mean())


def by_fit(model: Model, data: Data) -> float:
    """Train with our loop, and return the accuracy on the test nodes."""
    settings = {"optimiser": {"lr": 0.01}, "schedule": {"name": "cosine"}, "metric": "accuracy"}
    result, _ = fit_nodes(model, data, Training(epochs=EPOCHS, batch_size=BATCH, **settings))
    return float(result["best"]["test"])


def measure(name: str, loop: str, nodes: int) -> dict[str, object]:
    """Train one model, and return what it reached and what it took."""
    torch.manual_seed(0)
    data, model = make_graph(nodes), MODELS[name]()
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    accuracy = (by_fit if loop == "fit" else by_loader)(model, data)
    return {
        "model": name,
        "loop": loop,
        "parameters": num_parameters(model),
        "accuracy": round(accuracy, 4),
        "seconds": round(time.perf_counter() - start),
        "GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "GB before": round(before / 1e6, 2),
        "share of the larger class": round(float(torch.bincount(data.y[data.test_mask]).max() / data.test_mask.sum()), 4),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=50_000, help="number of nodes")
    parser.add_argument("--only", choices=list(MODELS), help="train only this model, in this process")
    parser.add_argument("--loop", choices=["fit", "loader"], default="fit", help="our loop, or a plain loop over a RootLoader")
    given = parser.parse_args()
    if given.only:
        print(json.dumps(measure(given.only, given.loop, given.nodes)))
    else:
        for each in MODELS:  # a process of its own each, so that the peaks of memory are apart
            subprocess.run(
                [sys.executable, __file__, "--only", each, "--loop", given.loop, "--nodes", str(given.nodes)], check=True
            )
