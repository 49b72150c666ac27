"""Tiny problems of every kind, made here: no data set is read."""

import torch
from torch_geometric.data import Data

from reign.data import DATASETS, Problem
from reign.data.sets._tu import SETS
from reign.nn import OGB_ATOM, OGB_BOND
from reign.testing import random_graphs


def graphs(number: int = 24, seed: int = 0, min_nodes: int = 4, max_nodes: int = 8) -> list[Data]:
    """Random graphs with one feature, and their mean degree as target."""
    out = random_graphs(number, min_nodes=min_nodes, max_nodes=max_nodes, edge_prob=0.4, num_features=1, seed=seed)
    for data in out:
        data.x = torch.ones(data.num_nodes, 1)
        data.y = torch.tensor([[data.num_edges / data.num_nodes]])
    return out


def problem(number: int = 24, seed: int = 0) -> Problem:
    """Regression with three splits."""
    made = graphs(number, seed)
    half, most = number // 2, 3 * number // 4
    return Problem.of(made[:half], made[half:most], made[most:], name="tiny")


def like(name: str, progress: object = None, **options: object) -> Problem:
    """A tiny problem with the features, targets and splits of a data set."""
    kind = DATASETS[name]
    rng = torch.Generator().manual_seed(0)
    classes = [str(c) for c in range(SETS[str(options.get("set", "MUTAG"))][4])] if name == "tu" else list(kind.classes)

    def types(columns: list[int], rows: int) -> torch.Tensor:
        return torch.stack([torch.randint(0, size, (rows,), generator=rng) for size in columns], dim=1)

    made = graphs(18)
    for g, data in enumerate(made):
        if name == "graph-properties":
            data.x = torch.rand(data.num_nodes, 2, generator=rng)  # whether a node is the source, and a random number
        if kind.node_encoder is not None:
            data.x = types(OGB_ATOM if kind.node_encoder == "atom" else [kind.node_encoder], data.num_nodes)
        if kind.edge_encoder is not None:
            data.edge_attr = types(OGB_BOND if kind.edge_encoder == "bond" else [kind.edge_encoder], data.num_edges)
        if kind.task == "regression":
            data.y = torch.rand(1, len(kind.targets), generator=rng)
        else:
            data.y = torch.tensor([[float(g % max(2, len(classes)))]])
    parts = (made, [], []) if kind.splits == ("all",) else (made[:10], made[10:14], made[14:])
    return Problem.of(
        *parts,
        name=name,
        task=kind.task,
        targets=list(kind.targets),
        classes=classes,
        node_encoder=kind.node_encoder,
        edge_encoder=kind.edge_encoder,
        texts={"smiles": ["C" * (g + 1) for g in range(len(made))]} if name == "moleculeace" else {},
    )
