"""Write tiny_golden.json, after the library was checked against the outputs of the authors' code; see the README beside it.

REIGN_DATA=... python tests/reproduction/make_tiny_golden.py
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Batch, Data

from reign.nn import from_authors

sys.path.append(str(Path(__file__).parents[1]))
from zinc import zinc

FILE = Path(__file__).with_name("tiny_golden.json")
SOURCES = {"sun__egoplus3": ["ego+:3", "ego+:1", "nm"], "dss__nd": ["nd", "ego:2", "null"]}  # and the policies to record
LAYERS = 2
FIRST = (
    5  # of three channels in a row, chosen so that every weight matters: with few channels, units that are always off are common
)

# atom types, and bonds (node, node, type): a ring of three with a tail, a path, and two nodes beside an isolated one
GRAPHS: list[tuple[list[int], list[tuple[int, int, int]]]] = [
    ([0, 1, 2, 3, 0], [(0, 1, 1), (1, 2, 1), (2, 0, 2), (2, 3, 0), (3, 4, 1)]),
    ([3, 0, 0, 1], [(0, 1, 0), (1, 2, 2), (2, 3, 1)]),
    ([1, 2, 2], [(0, 1, 0)]),
]


def graphs() -> Batch:
    """The graphs of the record as a PyG batch."""
    made = []
    for atoms, bonds in GRAPHS:
        ends = torch.tensor([(u, v) for u, v, _ in bonds]).t()
        types = torch.tensor([kind for *_, kind in bonds])[:, None]
        edge_index = torch.cat([ends, ends.flip(0)], dim=1)
        made.append(Data(x=torch.tensor(atoms)[:, None], edge_index=edge_index, edge_attr=types.repeat(2, 1)))
    return Batch.from_data_list(made)


def predict(params: dict[str, Any], model: str, policy: str, batch: Batch) -> torch.Tensor:
    """The outputs of one of our models with weights under the authors' names, in float64."""
    ours = from_authors({name: np.array(value, dtype=np.float64) for name, value in params.items()}, model, policy)
    with torch.no_grad():
        return ours(batch.x, batch.edge_index, batch.edge_attr, batch.batch).squeeze(1)


def _layer(key: str) -> int:
    return next((int(part) for part in key.split(".") if part.isdigit()), 0)


def _cut(value: np.ndarray) -> np.ndarray:
    """The part of a weight that is kept, rounded; matrices are doubled to make up for the channels that are left out."""
    keep = {
        16: range(FIRST, FIRST + 3),  # channels
        18: [0, 1, *range(FIRST + 2, FIRST + 5)],  # marks and channels
        32: range(2 * FIRST, 2 * FIRST + 6),  # channels of the head
        21: range(4),  # types of atoms
        4: range(3),  # types of bonds
        1: range(1),
    }
    part = value[np.ix_(*(keep[size] for size in value.shape))]
    return np.round(part * value.ndim, 2)


def main() -> None:
    """Check, cut, run, write."""
    data = Path(os.environ["REIGN_DATA"])
    records = []
    for name, policies in SOURCES.items():
        golden = np.load(data.parent / "reference" / "golden" / f"{name}.npz")
        params = {key.removeprefix("param/"): golden[key] for key in golden.files if key.startswith("param/")}
        model = str(golden["model"])
        molecules = Batch.from_data_list(zinc(data, str(golden["split"]), golden["graph_ids"].tolist()))
        found = predict(params, model, str(golden["policy"]), molecules)
        worst = (found - torch.from_numpy(golden["output"])).abs().max()
        assert worst < 1e-10, f"{name}: off by {worst}"
        small = {key: _cut(value).tolist() for key, value in params.items() if key.startswith("final") or _layer(key) < LAYERS}
        outputs = {policy: predict(small, model, policy, graphs()).tolist() for policy in policies}
        records.append({"source": name, "model": model, "outputs": outputs, "params": small})
    text = ",\n".join(
        "{" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in record.items()) + "}"
        for record in records
    )
    FILE.write_text(f"[{text}]\n")


if __name__ == "__main__":
    main()
