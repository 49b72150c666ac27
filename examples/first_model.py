"""A first model in PyG: count the triangles of random graphs with a plain GIN and with SUN, by a loop of our own.

python examples/first_model.py            # less than a minute on a CPU
"""

import argparse

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import erdos_renyi_graph, to_dense_adj

from reign.nn import MPNN, SUN


def make_graphs(number: int) -> list[Data]:
    """Random graphs of 10 nodes, each with the number of its triangles."""
    graphs = []
    for _ in range(number):
        edge_index = erdos_renyi_graph(10, 0.3)
        A = to_dense_adj(edge_index, max_num_nodes=10)[0]
        triangles = (A @ A @ A).trace() / 6
        graphs.append(Data(x=torch.ones(10, 1), edge_index=edge_index, y=triangles.view(1, 1)))
    return graphs


def fit(model: nn.Module, train: list[Data], test: list[Data], epochs: int) -> float:
    """Train, and give the mean absolute error on the test graphs."""
    loader = DataLoader(train, batch_size=32, shuffle=True)
    optimiser = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.005, total_steps=epochs * len(loader))
    model.train()
    for _ in range(epochs):
        for batch in loader:
            out = model(batch.x, batch.edge_index, batch=batch.batch)
            loss = nn.functional.l1_loss(out, batch.y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    model.eval()
    batch = next(iter(DataLoader(test, batch_size=len(test))))
    with torch.no_grad():
        return float((model(batch.x, batch.edge_index, batch=batch.batch) - batch.y).abs().mean())


def main(graphs: int, epochs: int) -> None:
    """Train both, and print their errors beside that of the mean."""
    torch.manual_seed(0)
    train, test = make_graphs(graphs), make_graphs(graphs // 4)
    targets = torch.cat([data.y for data in test])
    mean = torch.cat([data.y for data in train]).mean()
    print(f"{'always the mean':24s} error {float((targets - mean).abs().mean()):.3f}")
    models: dict[str, nn.Module] = {
        "GIN": MPNN(1, 32, 3, 1, conv="gin"),
        "SUN, ego nets of depth 1": SUN(1, 32, 3, 1, policy="ego+:1"),
    }
    for name, model in models.items():
        print(f"{name:24s} error {fit(model, train, test, epochs):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=400, help="number of training graphs")
    parser.add_argument("--epochs", type=int, default=20, help="number of epochs")
    main(**vars(parser.parse_args()))
