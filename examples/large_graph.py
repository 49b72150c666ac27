"""Node classification on a large graph: is a node in a triangle? Ego nets of 20,000 nodes, with only their members stored.

python examples/large_graph.py            # half a minute or so on a CPU
"""

import argparse
import time

import torch
from torch import Tensor, nn
from torch_geometric.utils import to_undirected

from reign.nn import MPNN, SUN, Model


def make_graph(nodes: int) -> tuple[Tensor, Tensor]:
    """A graph in which half of the nodes are in triangles, and the others in hexagons: all have the same degree, and a label."""
    triangles, hexagons = nodes // 12 * 2, nodes // 12
    parts = [(torch.arange(3).repeat(triangles, 1) + 3 * torch.arange(triangles)[:, None], 3)]
    first = 3 * triangles
    parts.append((torch.arange(6).repeat(hexagons, 1) + 6 * torch.arange(hexagons)[:, None] + first, 6))
    edges = torch.cat([torch.stack([ring.flatten(), ring.roll(1, dims=1).flatten()]) for ring, _ in parts], dim=1)
    number = first + 6 * hexagons
    order = torch.randperm(number)
    matching = torch.randperm(number).view(2, -1)  # every node gets one more edge, to anywhere
    edge_index = to_undirected(torch.cat([order[edges], order[matching]], dim=1), num_nodes=number)
    labels = torch.zeros(number, dtype=torch.long)
    labels[order[:first]] = 1
    return edge_index, labels


def accuracy(model: Model, edge_index: Tensor, y: Tensor, steps: int) -> tuple[float, float]:
    """Train on half of the nodes, and give the accuracy on the others and the seconds of a step."""
    x = torch.ones(y.numel(), 1)
    train = torch.rand(y.numel()) < 0.5
    optimiser = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.01, total_steps=steps)
    options = {} if isinstance(model, MPNN) else {"bag": model.policy(x, edge_index, domain="members")}
    start = time.perf_counter()
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(x, edge_index, **options)[train], y[train])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    seconds = (time.perf_counter() - start) / steps
    model.eval()
    with torch.no_grad():
        right = (model(x, edge_index, **options).argmax(1) == y)[~train]
    return float(right.float().mean()), seconds


def main(nodes: int, steps: int) -> None:
    """Train both, and print how many of the other nodes they get right."""
    torch.manual_seed(0)
    edge_index, y = make_graph(nodes)
    bag = SUN(1, 8, 1, 2, policy="ego+:1").policy(torch.ones(y.numel(), 1), edge_index, domain="members")
    print(f"{y.numel():,} nodes, {edge_index.size(1) // 2:,} edges; {bag.num_pairs:,} pairs are stored, of {y.numel() ** 2:,}")
    # without norms: all nodes have the same feature here, and the spread of a batch is then next to nothing
    models: dict[str, Model] = {
        "GIN": MPNN(1, 16, 2, 2, conv="gin", norm=None, task_level="node"),
        "SUN, ego nets of depth 1": SUN(1, 16, 2, 2, policy="ego+:1", domain="members", norm=None, task_level="node"),
    }
    for name, model in models.items():
        right, seconds = accuracy(model, edge_index, y, steps)
        print(f"{name:26s} {100 * right:.1f} % of the test nodes right, {seconds:.2f} s a step")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=20_000, help="number of nodes")
    parser.add_argument("--steps", type=int, default=20, help="number of training steps")
    main(**vars(parser.parse_args()))
