"""Graphs of the real ZINC-12k file."""

from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data


def zinc(folder: Path, split: str, ids: list[int]) -> list[Data]:
    arrays = np.load(folder / "zinc12k.npz")
    part = {
        name: arrays[f"{split}_{name}"].astype(np.int64) for name in ("node_ptr", "edge_ptr", "edge_uv", "atom_type", "bond_type")
    }
    graphs = []
    for g in ids:
        nodes, edges = (slice(*part[f"{kind}_ptr"][g : g + 2]) for kind in ("node", "edge"))
        uv = torch.from_numpy(part["edge_uv"][edges]).t()
        bond = torch.from_numpy(part["bond_type"][edges])
        graphs.append(
            Data(
                x=torch.from_numpy(part["atom_type"][nodes])[:, None],
                edge_index=torch.cat([uv, uv.flip(0)], dim=1),
                edge_attr=bond.repeat(2)[:, None],
            )
        )
    return graphs
